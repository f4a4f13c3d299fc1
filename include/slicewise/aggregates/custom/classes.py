"""A user's aggregate is the text of its class. Its methods can only compute from what they are
given.

The rules are those of `functions`: the text travels in the definition, and every process compiles
what was deployed. What the partial depends on is told apart from what only `finish` says.
"""

from __future__ import annotations
import __future__

import ast
import hashlib
import inspect
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from types import FunctionType
from typing import Any

import numpy as np

from slicewise.aggregates.custom.functions import BUILTINS, METHODS, check_body
from slicewise.aggregates.custom.raised import TEXT, written
from slicewise.errors import DefinitionError

NEEDED: Mapping[str, int] = {"empty": 0, "accumulate": 2, "combine": 2, "finish": 1}
MAY: Mapping[str, int] = {"deduct": 2, "accumulate_columns": 3, "combine_columns": 3}
"""Methods that a class may have beside others of its own, and how many arguments after self they
take."""
INPUTS = ("long", "double", "decimal", "boolean", "string", "timestamp_us")
SCALARS = ("long", "double", "boolean")
FIELDS = (*SCALARS, "integer", "string", "list<long>", "list<double>", "list<string>")
OUTPUTS = ("long", "double", "boolean", "string")
_STATED = ("columns", "fields", "output", "version")
_PARAMETERS: Mapping[str, type] = {"int": int, "float": float, "str": str, "bool": bool}
_UFUNCS = (
    "add",
    "subtract",
    "multiply",
    "negative",
    "minimum",
    "maximum",
    "logical_and",
    "logical_or",
    "bitwise_or",
)
_MAKERS = (
    "zeros",
    "ones",
    "full",
    "arange",
    "where",
    "flatnonzero",
    "bincount",
    "concatenate",
    "repeat",
    "isnan",
)
NUMPY = frozenset((*_UFUNCS, *_MAKERS, "isfinite", "lexsort", "diff", "int64", "float64", "bool_"))
"""Functions of NumPy, as np, for methods over whole columns: nothing whose bits differ between
machines."""
OF_ARRAYS = frozenset(("at", "reduceat", "astype", "size"))


@dataclass(frozen=True)
class OwnClass:
    """The statements of a class's text. columns: per role the types that it may have; fields: the
    partial as data; parameters: name -> type and default (None: must be given); stored: digest of
    all that stored bytes depend on."""

    name: str
    source: str
    columns: Mapping[str, tuple[str, ...]]
    fields: Mapping[str, str]
    output: str
    version: int
    parameters: Mapping[str, tuple[type, Any]]
    methods: frozenset[str]
    stored: str

    @cached_property
    def _made(self) -> type[Any]:
        tree = ast.parse(self.source)
        node = tree.body[0]
        assert isinstance(node, ast.ClassDef)
        node.bases = []
        # parameters are given to the object: here they are names without a value
        node.body = [
            statement for statement in node.body if not isinstance(statement, ast.AnnAssign)
        ]
        flags = __future__.annotations.compiler_flag
        space: dict[str, Any] = {
            "__builtins__": {**BUILTINS, "__build_class__": __build_class__},
            "__name__": "definition",
            "np": np,
        }
        exec(compile(tree, TEXT, "exec", flags, dont_inherit=True), space)
        made: type[Any] = space[self.name]
        return made

    def made(self, parameters: Mapping[str, Any]) -> Any:
        """An object of the class, of this text alone, with these parameters."""
        instance = self._made()
        for name, value in parameters.items():
            setattr(instance, name, value)
        return instance

    def checked(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """All parameters, given ones and defaults. Raises DefinitionError for what is missing,
        unknown or of another type."""
        for name in given:
            if name not in self.parameters:
                raise _refused(
                    f"{self.name} has no parameter {name!r}",
                    ", ".join(self.parameters) or "columns alone",
                    self.name,
                )
        checked = {}
        for name, (kind, default) in self.parameters.items():
            value = given.get(name, default)
            if kind is float and type(value) is int:
                value = float(value)
            if type(value) is not kind or (
                isinstance(value, float) and not abs(value) < float("inf")
            ):
                raise _refused(
                    f"{name} is {value!r}", f"{name}, a finite {kind.__name__}", self.name
                )
            checked[name] = value
        return checked


def text_of(made: type) -> str:
    """The source of a class. Raises DefinitionError where there is none to read."""
    functions = [member for member in vars(made).values() if isinstance(member, FunctionType)]
    if not functions:
        raise _refused(
            f"{made.__name__} has no methods",
            "empty, accumulate, combine and finish",
            made.__name__,
        )
    try:
        lines, _ = inspect.findsource(functions[0])
    except OSError as error:
        raise _refused(
            f"the source of {made.__name__} cannot be read", "a class of a file", made.__name__
        ) from error
    first = functions[0].__code__.co_firstlineno
    for node in ast.walk(ast.parse("".join(lines))):
        if (
            isinstance(node, ast.ClassDef)
            and node.name == made.__name__
            and node.lineno <= first <= _end(node)
        ):
            if node.decorator_list:
                raise _refused(
                    f"{node.name} has a decorator",
                    "a plain class: it is frozen as it is",
                    node.name,
                )
            text = textwrap.dedent("".join(lines[node.lineno - 1 : _end(node)])).rstrip() + "\n"
            written(text, functions[0].__code__.co_filename, range(node.lineno, _end(node) + 1))
            return text
    raise _refused(
        f"the source of {made.__name__} cannot be found", "a class of a file", made.__name__
    )


@cache
def read_class(source: str) -> OwnClass:
    """The class of a text. Raises DefinitionError, with the line, for whatever it may not say."""
    try:
        body = ast.parse(source).body
    except SyntaxError as error:
        raise _refused(f"text that is no Python: {error}", "a class", "") from error
    if len(body) != 1 or not isinstance(body[0], ast.ClassDef):
        raise _refused("text that is no class", "a class", "")
    node = body[0]
    if (
        len(node.bases) != 1
        or ast.unparse(node.bases[0]).split(".")[-1] != "Aggregate"
        or node.keywords
    ):
        raise _refused(
            f"{node.name} has other bases", f"class {node.name}(sw.Aggregate)", node.name, node
        )
    stated: dict[str, Any] = {"version": 1}
    parameters: dict[str, tuple[type, Any]] = {}
    methods: dict[str, ast.FunctionDef] = {}
    lines, kept = source.splitlines(), []
    for at, statement in enumerate(node.body):
        if isinstance(statement, ast.FunctionDef):
            if statement.name in methods:
                raise _refused(
                    f"{node.name} has two methods {statement.name}",
                    "each name once",
                    node.name,
                    statement,
                )
            methods[statement.name] = statement
        elif (
            isinstance(statement, ast.Assign)
            and len(statement.targets) == 1
            and _name(statement.targets[0]) in _STATED
        ):
            stated[_name(statement.targets[0])] = _literal(statement.value, node.name)
        elif (
            isinstance(statement, ast.AnnAssign)
            and _name(statement.target)
            and ast.unparse(statement.annotation) in _PARAMETERS
        ):
            default = None if statement.value is None else _literal(statement.value, node.name)
            parameters[_name(statement.target)] = (
                _PARAMETERS[ast.unparse(statement.annotation)],
                default,
            )
        elif at or not (
            isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        ):
            expected = (
                "methods, columns, fields, output, version, and parameters as `limit: float = 1.0`"
            )
            raise _refused(
                f"{node.name} says {ast.unparse(statement)!r}", expected, node.name, statement
            )
        else:
            continue  # what it says to people
        if not (
            isinstance(statement, ast.FunctionDef) and statement.name == "finish"
        ) and not _states(statement, "output"):
            kept.append("\n".join(lines[statement.lineno - 1 : statement.end_lineno]))
    _check_methods(node.name, methods, parameters)
    _check_stated(node.name, stated, methods)
    for name in sorted(
        {"where"} & {*parameters, *stated["columns"]}
        | {*parameters} & {*methods, *stated["columns"]}
    ):
        taken = (
            "a condition is given by that name"
            if name == "where"
            else "something else of the class has that name"
        )
        raise _refused(f"{node.name} names {name!r}: {taken}", "another name", node.name)
    return OwnClass(
        node.name,
        source,
        {
            role: (kinds,) if isinstance(kinds, str) else tuple(kinds)
            for role, kinds in stated["columns"].items()
        },
        stated["fields"],
        stated["output"],
        stated["version"],
        parameters,
        frozenset(methods),
        hashlib.sha256("\n".join(kept).encode()).hexdigest()[:16],
    )


def _check_methods(
    name: str, methods: Mapping[str, ast.FunctionDef], parameters: Mapping[str, Any]
) -> None:
    for needed in NEEDED:
        if needed not in methods:
            raise _refused(f"{name} has no {needed}", ", ".join(NEEDED), name)
    if ("accumulate_columns" in methods) != ("combine_columns" in methods):
        raise _refused(
            f"{name} has one method over whole columns",
            "accumulate_columns and combine_columns",
            name,
        )
    for method, node in methods.items():
        given, wanted = node.args, {**NEEDED, **MAY}.get(method)
        if (
            method.startswith("__")
            or node.decorator_list
            or given.defaults
            or given.vararg
            or given.kwonlyargs
        ):
            raise _refused(f"{name}.{method}", "a method with plain arguments", name, node)
        arguments = [argument.arg for argument in (*given.posonlyargs, *given.args)]
        if (
            arguments[:1] != ["self"]
            or given.kwarg
            or (wanted is not None and len(arguments) != wanted + 1)
        ):
            raise _refused(
                f"{name}.{method}({', '.join(arguments)})",
                f"self and {wanted} arguments",
                name,
                node,
            )
        uses = (
            attribute
            for attribute in ast.walk(node)
            if isinstance(attribute, ast.Attribute) and attribute.attr == "finish"
        )
        # what is stored does not change with it
        if method != "finish" and (use := next(uses, None)) is not None:
            raise _refused(
                f"{name}.{method} uses finish", "a method of its own that both use", name, use
            )
        whole = method.endswith("_columns")
        members = {*parameters, *methods}

        def has(node: ast.Attribute, members: set[str] = members) -> bool:
            of_self = isinstance(node.value, ast.Name) and node.value.id == "self"
            return of_self and node.attr in members and isinstance(node.ctx, ast.Load)

        modules = {"np": NUMPY} if whole else {}
        check_body(
            node, f"{name}.{method}", modules, METHODS | OF_ARRAYS if whole else METHODS, has
        )


def _check_stated(
    name: str, stated: Mapping[str, Any], methods: Mapping[str, ast.FunctionDef]
) -> None:
    columns, fields = stated.get("columns"), stated.get("fields")
    if not isinstance(columns, dict) or not columns or not all(map(_is_input, columns.values())):
        raise _refused(
            f"columns = {columns!r}", f'columns = {{"x": "double"}}, of {", ".join(INPUTS)}', name
        )
    if (
        not isinstance(fields, dict)
        or not fields
        or not all(kind in FIELDS for kind in fields.values())
    ):
        raise _refused(
            f"fields = {fields!r}", f'fields = {{"total": "integer"}}, of {", ".join(FIELDS)}', name
        )
    if not all(isinstance(column, str) and column.isidentifier() for column in (*columns, *fields)):
        raise _refused(f"columns and fields {[*columns, *fields]}", "names as of variables", name)
    if stated.get("output") not in OUTPUTS:
        raise _refused(f"output = {stated.get('output')!r}", "one of " + ", ".join(OUTPUTS), name)
    if type(stated["version"]) is not int or stated["version"] < 1:
        raise _refused(f"version = {stated['version']!r}", "an integer from 1", name)
    if "accumulate_columns" in methods:
        kinds = {
            kind
            for given in columns.values()
            for kind in ([given] if isinstance(given, str) else given)
        }
        if not set(fields.values()) <= set(SCALARS) or kinds & {"decimal", "string"}:
            raise _refused(
                f"{name} has methods over whole columns",
                f"fields of {', '.join(SCALARS)}, and columns that are neither decimal nor string",
                name,
            )


def _is_input(kinds: object) -> bool:
    listed = [kinds] if isinstance(kinds, str) else kinds
    return (
        isinstance(listed, list | tuple) and bool(listed) and all(kind in INPUTS for kind in listed)
    )


def _states(node: ast.stmt, name: str) -> bool:
    return isinstance(node, ast.Assign) and _name(node.targets[0]) == name


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else ""


def _end(node: ast.stmt) -> int:
    assert node.end_lineno is not None
    return node.end_lineno


def _literal(node: ast.expr, name: str) -> Any:
    try:
        return ast.literal_eval(node)
    except ValueError as error:
        raise _refused(
            f"{ast.unparse(node)!r}, which is no literal", "a value as it stands", name, node
        ) from error


def _refused(what: str, expected: str, name: str, node: ast.AST | None = None) -> DefinitionError:
    line = f", line {getattr(node, 'lineno', 0)} of its text" if node is not None else ""
    return DefinitionError(
        f"not an aggregate of one's own: {what}",
        where=f"class {name}{line}" if name else "a class",
        expected=expected,
        next_step="docs/guides/own_aggregates.md shows a whole one",
    )
