"""A call with wrong arguments is refused with its place, what it takes, and what to write."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar

from slicewise.errors import DefinitionError, UnknownAttribute, WrongCall, written_at

Given = ParamSpec("Given")
Made = TypeVar("Made")
Kind = TypeVar("Kind", bound=type)
_HIDDEN = ("self", "location")
MOST_SHOWN = 120


def checked_call(make: Callable[Given, Made]) -> Callable[Given, Made]:
    """The same function; a call that it cannot take, or that it refuses, names the line where it is
    written."""

    name = f"sw.{make.__name__}"

    @functools.wraps(make)
    def made(*args: Given.args, **kwargs: Given.kwargs) -> Made:
        try:
            return make(*args, **kwargs)
        except DefinitionError as error:
            locate(error, f"{name}(…)")
            raise
        except TypeError:
            if (refused := _refused(make, name, args, kwargs)) is None:
                raise  # not of the call, but from inside
            raise refused from None

    return made


def checked_arguments(function: Callable[Given, Made]) -> Callable[Given, Made]:
    """The same function; a call that it cannot take is refused at its line. What else it refuses
    has its own place."""

    @functools.wraps(function)
    def checked(*args: Given.args, **kwargs: Given.kwargs) -> Made:
        try:
            return function(*args, **kwargs)
        except TypeError as error:
            if (
                isinstance(error, WrongCall)
                or (refused := _refused(function, f"sw.{function.__name__}", args, kwargs)) is None
            ):
                raise
            raise refused from None

    return checked


def checked_class(kind: Kind) -> Kind:
    """The same class; a call that its fields cannot take is refused at its line."""
    init: Callable[..., None] = vars(kind)["__init__"]

    @functools.wraps(init)
    def made(self: object, *args: Any, **kwargs: Any) -> None:
        try:
            init(self, *args, **kwargs)
        except DefinitionError:
            raise
        except TypeError:
            if (refused := _refused(init, f"sw.{kind.__name__}", (self, *args), kwargs)) is None:
                raise
            raise refused from None

    type.__setattr__(kind, "__init__", made)
    return kind


def shown(value: object) -> str:
    """A value for a message, in a line: what is long, or has no text of its own, by its kind and
    name."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    name = getattr(value, "__name__", None)
    if callable(value) and isinstance(name, str):
        built_in = "built-in " if type(value) is type(len) else ""
        return "a lambda" if name == "<lambda>" else f"the {built_in}function {name}"
    text = repr(value)
    named = getattr(value, "name", None)
    if type(value).__module__.startswith("slicewise.") and isinstance(named, str):
        return f"sw.{type(value).__name__} {named!r}"
    if " object at 0x" in text:
        return f"an instance of {type(value).__name__}"
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}…"


def locate(error: DefinitionError, what: str) -> None:
    """Gives the error the line outside of this package that is under way, where it names none."""
    at = written_at()
    if at is not None and str(at) not in (error.where or ""):
        error.where = f"{error.where or what} ({at})"


def unknown_attribute(name: str, defined: Iterable[str]) -> UnknownAttribute:
    """The error for `sw.<name>` that nobody defined. defined: the names that there are."""
    from slicewise import hints  # as above

    at = written_at()
    return UnknownAttribute(
        f"module 'slicewise' has no attribute {name!r}",
        where=f"sw.{name}" + (f" ({at})" if at else ""),
        expected="a name of dir(sw); docs/reference/aggregates.md shows every aggregate and window",
        next_step=hints.attribute_instead(name, defined)
        or "name one of those, or write the logic as a sw.Aggregate",
    )


def misfit(
    make: Callable[..., object], name: str, args: Sequence[object], kwargs: Mapping[str, object]
) -> str | None:
    """Tells what is wrong with the arguments of a call written in other words than Python's; None:
    nothing."""
    refused = _refused(make, name, tuple(args), kwargs)
    return None if refused is None else refused.what


def _refused(
    make: Callable[..., object], name: str, args: tuple[object, ...], kwargs: Mapping[str, object]
) -> WrongCall | None:
    """Tells what is wrong with the call; None: nothing."""
    from slicewise import hints  # a table that only a mistake needs

    signature, plain_name = inspect.signature(make), name.removeprefix("sw.")
    try:
        signature.bind(*args, **kwargs)
    except TypeError:
        pass
    else:
        return None
    parameters = {
        key: parameter
        for key, parameter in signature.parameters.items()
        if parameter.kind is not parameter.VAR_POSITIONAL
    }
    plain = [
        key
        for key, parameter in parameters.items()
        if parameter.kind is parameter.POSITIONAL_OR_KEYWORD
    ]
    shown = [key for key in parameters if key not in _HIDDEN]
    for given in kwargs:
        if given not in parameters:
            meant = hints.parameter_instead(given, [key for key in shown if key not in kwargs])
            what = f"{name} has no parameter {given!r}"
            then = f"write {meant}=" if meant else f"leave {given}= out"
            then = hints.ELSEWHERE.get((plain_name, given), then)
            return _wrong(name, what, parameters, then)
    if len(args) > len(plain):
        n, most = len(args) - ("self" in plain), len(plain) - ("self" in plain)
        named = [key for key in shown if key not in plain and key not in kwargs]
        then = (
            f"give the others by name: {', '.join(f'{key}=…' for key in named)}"
            if named
            else "leave the others out"
        )
        count = f"{n} argument{'s' if n > 1 else ''} without a name"
        return _wrong(
            name, f"{name} is given {count}, and takes {most or 'none'}", parameters, then
        )
    for given in plain[: len(args)]:
        if given in kwargs:
            return _wrong(
                name,
                f"{name} is given {given} twice",
                parameters,
                f"leave {given}= out, or the first",
            )
    missing = [
        key
        for key, parameter in parameters.items()
        if parameter.default is parameter.empty
        and key not in kwargs
        and key not in plain[: len(args)]
    ]
    examples = {
        key: hints.EXAMPLES_OF.get((plain_name, key)) or hints.EXAMPLES.get(key) for key in missing
    }
    wanted = "; ".join(text or f"{key}=…" for key, text in examples.items())
    return _wrong(
        name,
        f"{name} lacks {hints.either(missing).replace(' or ', ' and ')}",
        parameters,
        f"add {wanted}",
    )


def _wrong(
    name: str, what: str, parameters: Mapping[str, inspect.Parameter], next_step: str
) -> WrongCall:
    at = written_at()
    texts = []
    for key, parameter in parameters.items():
        if key not in _HIDDEN:
            text = f"{key}=…" if parameter.kind is parameter.KEYWORD_ONLY else key
            texts.append(text if parameter.default is parameter.empty else f"[{text}]")
    where = f"{name}(…)" + (f" ({at})" if at else "")
    return WrongCall(what, where=where, expected=f"{name}({', '.join(texts)})", next_step=next_step)
