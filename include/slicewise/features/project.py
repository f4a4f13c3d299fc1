"""A project is a folder with slicewise.toml and its definitions; all views and sets in them are
deployed.

Definitions are a Python file, a file of SQL, or a folder: its `__init__.py`, if there is one, and
every `*.sql` in it, which may name the sources that Python declares. Suites of expectations stand
beside them, as `expectations/*.json`.
"""

from __future__ import annotations

import importlib.util
import re
import sys
import tomllib
import traceback
from collections.abc import Sequence
from dataclasses import replace
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

from slicewise.errors import DefinitionError, SlicewiseError
from slicewise.features.declare.definitions import KafkaSource
from slicewise.features.declare.project import Project
from slicewise.features.suites import read_suites
from slicewise.settings import PROJECT_FILE

SQL = ".sql"


def load_project(definitions: Path) -> Project:
    """The project whose definitions stand in this file or folder.

    Runs the Python in it. Raises DefinitionError with file and line for whatever is wrong in it.
    """
    name = _name(definitions.parent)
    return replace(_declared(name, definitions), suites=read_suites(definitions.parent))


def _declared(name: str, definitions: Path) -> Project:
    if definitions.suffix == SQL and definitions.is_file():
        return Project.of(name, _read_sql([definitions], ()))
    files = sorted(definitions.glob(f"*{SQL}")) if definitions.is_dir() else []
    written: list[object] = []
    if not files or (definitions / "__init__.py").is_file():
        written = list(vars(_module(definitions)).values())
    python = Project.of(name, written)
    return Project.of(name, [*written, *_read_sql(files, python.sources)]) if files else python


def _read_sql(files: Sequence[Path], sources: Sequence[KafkaSource]) -> list[object]:
    """Sources and views of these files; a source that one declares, the later ones may name."""
    if not files:
        return []
    from slicewise.features.sql import read_file  # SQL's parser, for those who write it

    declared = list(sources)
    definitions: list[object] = []
    for file in files:
        read = read_file(file, declared)
        if read.queries:
            query = read.queries[0]
            raise DefinitionError(
                "a SELECT without a name",
                where=str(query.location),
                expected="CREATE FEATURE VIEW name AS SELECT …",
                next_step="name it; `slicewise sql` shows the rows of a SELECT alone",
            )
        declared += read.sources
        definitions += [*read.sources, *read.views]
    return definitions


def _name(folder: Path) -> str:
    file = folder / PROJECT_FILE
    if not file.is_file():
        return folder.resolve().name
    try:
        named = tomllib.loads(file.read_text(encoding="utf-8")).get("name", folder.resolve().name)
    except (OSError, ValueError) as error:
        raise DefinitionError(
            f"it cannot be read: {error}",
            where=str(file),
            expected="TOML in UTF-8",
            next_step="correct the file",
        ) from error
    if not isinstance(named, str) or not named:
        raise DefinitionError(
            f"name = {named!r}",
            where=str(file),
            expected='name = "my-project"',
            next_step="write the name in quotes, or leave it out for the folder's",
        )
    return named


class _AsWritten(SourceFileLoader):
    """Loader of a file as it stands. Python takes an edit of equal length, within a second of the
    run before, for none, and would run what that one compiled."""

    def get_code(self, fullname: str) -> CodeType:
        """The code of the file's text."""
        path = self.get_filename(fullname)
        code: CodeType = self.source_to_code(self.get_data(path), path)
        return code


def _module(path: Path) -> ModuleType:
    init = path / "__init__.py"
    file = init if path.is_dir() else path
    if not file.is_file():
        raise DefinitionError(
            "there are no definitions",
            where=str(file),
            expected=f"the file that {PROJECT_FILE} names as `definitions`",
            next_step="write it, or start with: slicewise init my-project",
        )
    name = f"slicewise_project_{abs(hash(file))}"
    spec = importlib.util.spec_from_file_location(
        name,
        file,
        loader=_AsWritten(name, str(file)) if file.suffix == ".py" else None,
        submodule_search_locations=[str(path)] if path.is_dir() else None,
    )
    if spec is None or spec.loader is None:
        raise DefinitionError(
            "this is no Python file",
            where=str(file),
            expected="a file *.py",
            next_step=f"name a file *.py or a folder as `definitions` in {PROJECT_FILE}",
        )
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # a package imports its own modules relative to itself
    try:
        spec.loader.exec_module(module)
    except SlicewiseError as error:
        if error.where is None:
            error.where = _line(error, path)
        raise
    except SyntaxError as error:
        raise DefinitionError(
            f"{error.msg}",
            where=f"{error.filename}:{error.lineno}",
            expected="Python 3.11",
            next_step="correct the line; nothing was deployed",
        ) from error
    except (Exception, SystemExit) as error:
        # the user's own code may raise anything, and may try to leave
        raise DefinitionError(
            f"{type(error).__name__}: {error}",
            where=_line(error, path),
            expected="definitions that are imported without an error",
            next_step=_instead(error) or "correct the definitions; nothing was deployed",
        ) from error
    finally:
        sys.modules.pop(name, None)
    return module


def _line(error: BaseException, definitions: Path) -> str:
    """The line of the project's own files that was under way last."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if Path(frame.filename).is_relative_to(definitions)]
    return f"{own[-1].filename}:{own[-1].lineno}" if own else str(definitions)


def _instead(error: BaseException) -> str | None:
    """Text to write for `from slicewise import …` of another system's name."""
    missing = re.match(r"cannot import name '(\w+)' from 'slicewise'", str(error))
    if missing is None:
        return None
    import slicewise
    from slicewise import hints

    return hints.attribute_instead(missing.group(1), slicewise.__dir__())
