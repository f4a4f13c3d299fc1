"""A project is a folder with slicewise.toml and a Python file; all views and sets in it are deployed."""

from __future__ import annotations

import importlib.util
import sys
import tomllib
import traceback
from pathlib import Path
from types import ModuleType

from slicewise.errors import DefinitionError, SlicewiseError
from slicewise.features.definitions import Project
from slicewise.settings import PROJECT_FILE


def load_project(definitions: Path) -> Project:
    """The project whose definitions stand in this file (or package folder).

    Runs the file. Raises DefinitionError with file and line for whatever is wrong in it.
    """
    module = _module(definitions)
    return Project.of(_name(definitions.parent), vars(module).values())


def _name(folder: Path) -> str:
    file = folder / PROJECT_FILE
    if not file.is_file():
        return folder.resolve().name
    named = tomllib.loads(file.read_text(encoding="utf-8")).get("name", folder.resolve().name)
    if not isinstance(named, str) or not named:
        raise DefinitionError(f"name = {named!r}", where=str(file), expected='name = "my-project"')
    return named


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
        name, file, submodule_search_locations=[str(path)] if path.is_dir() else None
    )
    if spec is None or spec.loader is None:
        raise DefinitionError("this is no Python file", where=str(file), expected="a file *.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # a package imports its own modules relative to itself
    try:
        spec.loader.exec_module(module)
    except SlicewiseError:
        raise
    except SyntaxError as error:
        raise DefinitionError(
            f"{error.msg}", where=f"{error.filename}:{error.lineno}", expected="Python 3.11"
        ) from error
    except Exception as error:  # the user's own code may raise anything
        raise DefinitionError(
            f"{type(error).__name__}: {error}",
            where=_line(error, file),
            next_step="correct the definitions; nothing was deployed",
        ) from error
    finally:
        sys.modules.pop(name, None)
    return module


def _line(error: BaseException, file: Path) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if Path(frame.filename) == file]
    return f"{file}:{own[-1].lineno}" if own else str(file)
