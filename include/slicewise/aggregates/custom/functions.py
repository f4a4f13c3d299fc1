"""A user's function is its source text, and can do nothing but compute from what it is given.

The text travels in the definition, so that every process runs the version that was deployed. What
it may say is checked on its syntax tree: no imports, no names of its module, nothing that asks a
clock, draws at random, or differs between machines and runs.
"""

from __future__ import annotations
import __future__

import ast
import inspect
import textwrap
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType, MappingProxyType
from typing import Any

from slicewise.aggregates.custom.raised import TEXT, written
from slicewise.calls import shown
from slicewise.errors import DefinitionError

BUILTINS: Mapping[str, Any] = {
    function.__name__: function
    for function in (
        abs,
        all,
        any,
        bool,
        dict,
        divmod,
        enumerate,
        filter,
        float,
        int,
        isinstance,
        len,
        list,
        map,
        max,
        min,
    )
} | {function.__name__: function for function in (range, reversed, round, sorted, str, tuple, zip)}
"""Functions that may be called by name. Not `sum`, whose last bit differs between versions of
Python, nor sets, whose order differs between runs."""
_OF_LISTS = (
    "append",
    "copy",
    "count",
    "extend",
    "index",
    "insert",
    "pop",
    "remove",
    "reverse",
    "sort",
)
_OF_TEXTS = ("endswith", "join", "replace", "split", "startswith", "strip")
METHODS = frozenset((*_OF_LISTS, *_OF_TEXTS, "get", "setdefault", "update", "values"))
"""Methods that may be called on a list, a dict or a text. Not `keys` nor `items`, from which sets
can be made."""
_REFUSED: Mapping[type[ast.AST], str] = {
    ast.Import: "an import",
    ast.ImportFrom: "an import",
    ast.Global: "a global",
    ast.Nonlocal: "a nonlocal",
    ast.Lambda: "a lambda",
    ast.Yield: "a yield",
    ast.YieldFrom: "a yield",
    ast.Await: "an await",
    ast.AsyncFunctionDef: "an async function",
    ast.ClassDef: "a class",
    ast.While: "a while, which may never end",
    ast.With: "a with",
    ast.Try: "a try",
    ast.Pow: "a power, whose last bit may differ between machines",
    ast.Set: "a set, whose order differs between runs",
    ast.SetComp: "a set, whose order differs between runs",
}


def source_of(functions: Sequence[Callable[..., Any]], arguments: Sequence[int]) -> str:
    """Gives their source as one text; arguments: how many each takes. Raises DefinitionError for
    what cannot be kept as text."""
    texts = [_text(function, n) for function, n in zip(functions, arguments, strict=True)]
    text = "\n\n".join(texts)
    lines: list[int] = []
    for function, source in zip(functions, texts, strict=True):
        first = function.__code__.co_firstlineno
        # and the empty lines before the next
        lines += [*range(first, first + source.count("\n")), 0, 0]
    written(text, functions[0].__code__.co_filename, lines)
    return text


def _text(function: object, arguments: int) -> str:
    if not isinstance(function, FunctionType) or function.__name__ == "<lambda>":
        raise _refused(
            shown(function), "a function that is written with def in the project's module"
        )
    if function.__closure__ or "<locals>" in function.__qualname__:
        raise _refused(
            f"{function.__name__}, which is made inside another function", "a function of its own"
        )
    try:
        text = textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError) as error:
        raise _refused(
            f"{function.__name__}, whose source cannot be read", "a function of a file"
        ) from error
    check_text(text, {function.__name__: arguments})
    return text.rstrip() + "\n"


def check_text(
    text: str,
    functions: Mapping[str, int],
    modules: Mapping[str, frozenset[str]] = MappingProxyType({}),
    methods: Sequence[str] = (),
) -> None:
    """Raises DefinitionError unless the text is these functions, each of so many arguments, and
    they only compute.

    modules: names that stand for more than Python's own, and what of each may be used. methods:
    more than METHODS.
    """
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        raise _refused(f"text that is no Python: {error}", "functions") from error
    defined = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    if len(tree.body) != len(defined) or set(defined) != set(functions):
        raise _refused(
            f"a text of {', '.join(sorted(defined)) or 'no function'}", ", ".join(functions)
        )
    for name, node in defined.items():
        given = node.args
        if node.decorator_list or given.defaults or given.vararg or given.kwonlyargs or given.kwarg:
            raise _refused(f"{name} with decorators, defaults or stars", "plain arguments")
        if len(given.args) + len(given.posonlyargs) != functions[name]:
            raise _refused(f"{name} of {len(given.args)} arguments", f"{functions[name]}")
        check_body(node, name, modules, METHODS | set(methods))


def check_body(
    function: ast.FunctionDef,
    name: str,
    modules: Mapping[str, frozenset[str]],
    methods: frozenset[str],
    has: Callable[[ast.Attribute], bool] = lambda node: False,  # noqa: ARG005
) -> None:
    """Raises DefinitionError unless the function only computes; has: whether an attribute is
    allowed that is neither a module's nor one of methods."""
    nodes = [node for statement in function.body for node in ast.walk(statement)]
    own = {
        node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    own |= {argument.arg for argument in (*function.args.posonlyargs, *function.args.args)}
    if own & set(modules):
        raise _refused(
            f"{name} uses {', '.join(own & set(modules))} as a name of its own", "another name"
        )
    of_modules = {
        id(n.value): n
        for n in nodes
        if isinstance(n, ast.Attribute) and _module(n, modules) is not None
    }
    for node in nodes:
        if id(node) in of_modules:
            continue
        if (
            isinstance(node, ast.Name)
            and isinstance(node.ctx, ast.Load)
            and node.id not in own | set(BUILTINS)
        ):
            raise _refused(
                (
                    f"{name} uses {node.id!r}, which is neither its own nor one of Python's that "
                    "it may use"
                ),
                "its arguments, its variables, and " + ", ".join(sorted(BUILTINS)),
                node,
            )
        for kind, what in _REFUSED.items():
            # an operator has no line itself
            if isinstance(node, kind) or isinstance(getattr(node, "op", None), kind):
                raise _refused(
                    f"{name} has {what}",
                    "arithmetic, comparisons, tuples, lists, dicts and loops",
                    node,
                )
        if isinstance(node, ast.Constant) and isinstance(node.value, complex):
            raise _refused(
                f"{name} has a complex number, whose last bit may differ between machines",
                "others",
                node,
            )
    for node in nodes:
        if isinstance(node, ast.FunctionDef):
            raise _refused(f"{name} has a function inside", "one function", node)
        if isinstance(node, ast.Attribute):
            allowed = modules.get(_module(node, modules) or "", methods)
            if node.attr not in allowed and not has(node):
                raise _refused(
                    f"{name} uses .{node.attr}", "one of " + ", ".join(sorted(allowed)), node
                )


def _module(node: ast.Attribute, modules: Mapping[str, frozenset[str]]) -> str | None:
    """The module whose attribute this is, if it is one's."""
    return node.value.id if isinstance(node.value, ast.Name) and node.value.id in modules else None


def compiled(
    text: str, modules: Mapping[str, Any] = MappingProxyType({})
) -> Mapping[str, Callable[..., Any]]:
    """The functions of a text that was checked, by name."""
    space: dict[str, Any] = {"__builtins__": dict(BUILTINS), **modules}
    exec(
        compile(text, TEXT, "exec", __future__.annotations.compiler_flag, dont_inherit=True), space
    )
    return {name: made for name, made in space.items() if isinstance(made, FunctionType)}


def _refused(what: str, expected: str, node: ast.AST | None = None) -> DefinitionError:
    where = f"line {getattr(node, 'lineno', 0)} of its text" if node is not None else ""
    return DefinitionError(
        f"not a function that can be kept: {what}",
        where=where,
        expected=expected,
        next_step="write it so that it computes from its arguments alone",
    )
