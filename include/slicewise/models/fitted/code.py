"""Code of a project that fits an estimator: a function of a file, read as it stands."""

from __future__ import annotations

import hashlib
import random
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slicewise.errors import DefinitionError

Doubles = npt.NDArray[np.float64]
SIGNATURE = "fit(features: pyarrow.Table, labels: numpy array, seed: int) -> an estimator"


@dataclass(frozen=True)
class Code:
    """A function of a file, and the SHA-256 of that file's bytes."""

    file: Path
    sha256: str
    fit: Callable[[pa.Table, Doubles, int], Any]

    @staticmethod
    def load(file: Path, function: str) -> Code:
        """Runs the file, and takes its function. Raises DefinitionError with file and line."""
        try:
            content = file.read_bytes()
        except OSError as error:
            raise DefinitionError(
                f"the code of the training cannot be read: {error.strerror}",
                where=str(file),
                expected=f"a Python file with {SIGNATURE}",
                next_step="write it, or correct `code` in models.toml",
            ) from error
        module = ModuleType("slicewise_training_code")
        module.__file__ = str(file)
        try:
            compiled = compile(content, str(file), "exec", dont_inherit=True)
            exec(compiled, vars(module))  # the project's own code, as definitions are
        except SyntaxError as error:
            raise DefinitionError(
                f"{error.msg}",
                where=f"{error.filename}:{error.lineno}",
                expected="Python 3.11",
                next_step="correct the line; nothing was trained",
            ) from error
        except (Exception, SystemExit) as error:
            raise _raised(error, file, "the file cannot be run") from error
        fit = getattr(module, function, None)
        if not callable(fit):
            raise DefinitionError(
                f"it has no function {function!r}",
                where=str(file),
                expected=SIGNATURE,
                next_step="write it, or correct `code` in models.toml",
            )
        return Code(file, hashlib.sha256(content).hexdigest(), fit)

    def estimator(self, features: pa.Table, labels: Doubles, seed: int) -> Any:
        """The estimator that the function fits. Raises DefinitionError with file and line.

        The global generators of Python and numpy begin at the seed too, for an estimator that was
        given none.
        """
        random.seed(seed)
        np.random.seed(seed)  # what scikit-learn takes without random_state
        try:
            return self.fit(features, labels, seed)
        except (Exception, SystemExit) as error:
            raise _raised(error, self.file, "the code of the training fails") from error


def _raised(error: BaseException, file: Path, what: str) -> DefinitionError:
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame.lineno for frame in frames if frame.filename == str(file)]
    return DefinitionError(
        f"{what}: {type(error).__name__}: {error}"[:1_000],
        where=f"{file}:{own[-1]}" if own else str(file),
        expected=SIGNATURE,
        next_step="correct the code, or what it is given; nothing was trained",
    )
