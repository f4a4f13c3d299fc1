"""An estimator's file is a function of the estimator: equal ones, equal bytes."""

from __future__ import annotations

import io
import json
import platform
from typing import Any
from zipfile import ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from slicewise.errors import DefinitionError
from slicewise.models.fitted.code import Code, Doubles
from slicewise.models.scoring import named_columns

_SCHEMA, _ID, _FILE = "schema.json", "__id__", "file"
_LIBRARIES = ("scikit-learn", "skops", "numpy", "scipy", "pyarrow")


def libraries() -> dict[str, str]:
    """Versions of Python and of the libraries that a fit depends on."""
    from importlib.metadata import PackageNotFoundError, version

    versions = {"python": platform.python_version()}
    for name in _LIBRARIES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = "none"
    return versions


def fitted(
    code: Code,
    refs: tuple[str, ...],
    matrix: Doubles,
    labels: Doubles,
    seed: int,
    trusted: tuple[str, ...],
) -> bytes:
    """Bytes of the file of the estimator that the code fits. Raises DefinitionError.

    matrix: values as they are scored, a column per ref; the code has them as a table of doubles.
    """
    import skops.io

    estimator = code.estimator(named_columns(matrix, refs), labels.copy(), seed)
    if not hasattr(estimator, "predict"):
        raise _refused(code, f"{code.fit.__name__} gives {type(estimator).__name__}, no estimator")
    try:
        content = skops.io.dumps(estimator)
        unknown = skops.io.get_untrusted_types(data=content)
    except Exception as error:
        why = str(error).strip().splitlines()
        raise _refused(code, f"skops cannot write it: {why[0] if why else error!r}") from error
    unknown = [one for one in unknown if one not in trusted]
    if unknown:
        raise DefinitionError(
            f"it holds types that nobody trusts: {', '.join(unknown)}",
            where=str(code.file),
            expected="types that skops knows, or that `trusted` of the model names",
            next_step="give another estimator; or, if these come from where you think, write "
            f"trusted = {json.dumps([*trusted, *unknown])} in [models.<name>]",
        )
    return canonical(content)


def canonical(content: bytes) -> bytes:
    """The same estimator's file without traces of the process that wrote it.

    skops names arrays and objects by their addresses, and a zip file has the time of each entry.
    """
    with ZipFile(io.BytesIO(content)) as given:
        entries = {name: given.read(name) for name in given.namelist()}
    schema = json.loads(entries.pop(_SCHEMA))
    names, numbers = dict[str, str](), dict[object, int]()
    _renumber(schema, entries.keys(), names, numbers)
    sink = io.BytesIO()
    with ZipFile(sink, "w", ZIP_STORED) as written:
        for name, renamed in names.items():
            written.writestr(ZipInfo(renamed), _without_times(entries[name]))
        text = json.dumps(schema, indent=2)
        written.writestr(ZipInfo(_SCHEMA), text)
    return sink.getvalue()


def _renumber(node: Any, files: Any, names: dict[str, str], numbers: dict[object, int]) -> None:
    """Numbers objects and files in the order in which they come. A plain value is an object of its
    own: whether two of them are one object is the interpreter's matter."""
    if isinstance(node, list):
        for one in node:
            _renumber(one, files, names, numbers)
        return
    if not isinstance(node, dict):
        return
    if isinstance(node.get(_ID), int):
        is_plain = node.get("__loader__") == "JsonNode"
        key: object = f"plain {len(numbers)}" if is_plain else node[_ID]
        node[_ID] = numbers.setdefault(key, len(numbers))
    file = node.get(_FILE)
    if isinstance(file, str) and file in files:
        ending = file.rpartition(".")[2]
        node[_FILE] = names.setdefault(file, f"{len(names)}.{ending}")
    for one in node.values():
        _renumber(one, files, names, numbers)


def _without_times(content: bytes) -> bytes:
    """An entry of a zip file; of one that is a zip file itself, with its entries' times taken."""
    if not content.startswith(b"PK"):
        return content
    try:
        with ZipFile(io.BytesIO(content)) as given:
            inner = [(info.filename, given.read(info)) for info in given.infolist()]
    except BadZipFile:
        return content
    sink = io.BytesIO()
    with ZipFile(sink, "w", ZIP_STORED) as written:
        for name, entry in inner:
            written.writestr(ZipInfo(name), entry)
    return sink.getvalue()


def _refused(code: Code, what: str) -> DefinitionError:
    return DefinitionError(
        what,
        where=str(code.file),
        expected="a fitted estimator of scikit-learn",
        next_step="give an estimator of scikit-learn's own; nothing was trained",
    )
