"""Code of a project fits an estimator; its file is the same bytes in every process."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from slicewise.errors import DefinitionError
from slicewise.models.declared import DeclaredModel
from slicewise.models.fitted.code import Code
from slicewise.models.fitted.estimator import fitted
from slicewise.models.scoring import named_columns, scored

REFS = ("v:a", "v:b", "v:c")
TRUSTED = (
    "sklearn.tree._tree.Tree",
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
    "sklearn.ensemble._hist_gradient_boosting.binning._BinMapper",
    "sklearn._loss.link.LogitLink",
    "sklearn._loss.link.Interval",
    "sklearn._loss.loss.HalfBinomialLoss",
    "sklearn._loss._loss.CyHalfBinomialLoss",
    "numpy.dtype",
)
FORMS = {
    "linear": "LogisticRegression()",
    "forest": "RandomForestClassifier(5, max_depth=3)",
    "boosted": "HistGradientBoostingClassifier(max_iter=5, early_stopping=False)",
    "columns": "make_pipeline(ColumnTransformer([('a', StandardScaler(), ['v:a']), "
    "('rest', SimpleImputer(), ['v:b', 'v:c'])]), SGDClassifier(loss='log_loss'))",
}
CODE = """
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler


def fit(features, labels, seed):
    return {form}.fit(features.to_pandas(), labels)
"""
OTHER_PROCESS = """
import hashlib, sys
from pathlib import Path
from tests.unit.models.test_fitted import file_of

noise = [object() for _ in range(10_000)]
print(hashlib.sha256(file_of(Path(sys.argv[1]))).hexdigest())
"""


def rows() -> tuple[np.ndarray, np.ndarray]:
    chance = np.random.default_rng(5)
    matrix = chance.normal(size=(200, 3))
    return matrix, (matrix[:, 0] + chance.normal(size=200) > 0).astype(np.float64)


def file_of(code: Path, seed: int = 1_234_567) -> bytes:
    matrix, labels = rows()
    return fitted(Code.load(code, "fit"), REFS, matrix, labels, seed, TRUSTED)


@pytest.mark.parametrize("form", FORMS)
def test_equal_code_data_and_seed_give_equal_bytes(tmp_path: Path, form: str) -> None:
    code = tmp_path / "train.py"
    code.write_text(CODE.format(form=FORMS[form]))
    content = file_of(code)
    assert file_of(code) == content
    done = subprocess.run(
        [sys.executable, "-c", OTHER_PROCESS, str(code)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == hashlib.sha256(content).hexdigest()
    matrix, labels = rows()
    file = tmp_path / "model.skops"
    file.write_bytes(content)
    model = DeclaredModel("m", REFS, "skops", str(file), trusted=TRUSTED)
    scores = scored(model, named_columns(matrix, REFS))
    assert not scores.errors
    made = Code.load(code, "fit").estimator(named_columns(matrix, REFS), labels, 1_234_567)
    wanted = made.predict_proba(named_columns(matrix, REFS).to_pandas())[:, 1]
    assert np.array_equal(scores.values, wanted), "a model that was read is the one that was fitted"


def test_another_seed_gives_another_model_though_the_estimator_was_given_none(
    tmp_path: Path,
) -> None:
    code = tmp_path / "train.py"
    code.write_text(CODE.format(form=FORMS["forest"]))
    assert file_of(code, 1) != file_of(code, 2)


FITS_PART = """from sklearn.linear_model import LogisticRegression

def fit(features, labels, seed):
    return LogisticRegression().fit(features.to_pandas(), labels[:3])
"""
OWN_CLASS = """class Own:
    def predict(self, x):
        return x

def fit(features, labels, seed):
    return Own()
"""


@pytest.mark.parametrize(
    ("text", "what", "line"),
    [
        ("def fit(:\n", "invalid syntax", ":1"),
        ("import no_such_module\n", "no_such_module", ":1"),
        ("def other():\n    pass\n", "no function 'fit'", ""),
        (FITS_PART, "inconsistent numbers of samples", ":4"),
        ("def fit(features, labels, seed):\n    raise SystemExit(3)\n", "SystemExit: 3", ":2"),
        ("def fit(features, labels, seed):\n    return 5\n", "gives int, no estimator", ""),
        (OWN_CLASS, "slicewise_training_code.Own", ""),
    ],
)
def test_code_that_fails_is_named_with_its_line(
    tmp_path: Path, text: str, what: str, line: str
) -> None:
    code = tmp_path / "train.py"
    code.write_text(text)
    with pytest.raises(DefinitionError) as refused:
        file_of(code)
    assert what in refused.value.what
    assert str(refused.value.where) == f"{code}{line}"
    assert refused.value.next_step


def test_code_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match="cannot be read"):
        file_of(tmp_path / "none.py")
