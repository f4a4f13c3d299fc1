"""A folder of versions: what has a number is whole, numbers are taken once, and one is live."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from slicewise.errors import BadRequest, CommitConflict, DataLoss
from slicewise.models.versions.folder import HISTORY, LIVE, ModelFolder, is_name, split_version
from slicewise.models.versions.manifest import MODEL, Recipe, VersionManifest

RECIPE = Recipe(("v:x",), "", None, "train.py:fit", "spine.csv", "late", 7)


def manifest(text: str = "x") -> VersionManifest:
    return VersionManifest(
        *("delay", RECIPE, ("v:x",), {}, "c", text, {}, 3, 1, 1 / 3, 0, 2, {}, "", {}, "d", 5, 0.1)
    )


def published(folder: ModelFolder, text: str = "x") -> int:
    with folder.aside() as aside:
        (aside / MODEL).write_text(text)
        return folder.publish(aside, manifest(text))


def test_a_version_takes_the_next_number_and_is_read_as_it_was_written(tmp_path: Path) -> None:
    folder = ModelFolder(tmp_path, "delay")
    assert folder.numbers() == []
    assert folder.live() is None
    assert [published(folder, text) for text in "ab"] == [1, 2]
    assert folder.manifest(2) == manifest("b")
    assert sorted(path.name for path in (tmp_path / "delay" / "2").iterdir()) == [
        "manifest.json",
        "model.skops",
    ]


def test_trainings_at_once_have_numbers_of_their_own(tmp_path: Path) -> None:
    def one(text: str) -> int:
        return published(ModelFolder(tmp_path, "delay"), text)

    texts = [f"model {n}" for n in range(24)]
    with ThreadPoolExecutor(8) as pool:
        numbers = dict(zip(texts, pool.map(one, texts), strict=True))
    folder = ModelFolder(tmp_path, "delay")
    assert sorted(numbers.values()) == folder.numbers() == list(range(1, 25))
    for text, number in numbers.items():
        assert folder.file(number).read_text() == text
        assert folder.manifest(number).sha256 == text


def test_a_training_that_fails_leaves_nothing_and_one_that_was_killed_is_cleared(
    tmp_path: Path,
) -> None:
    folder = ModelFolder(tmp_path, "delay")

    def fail() -> None:
        with folder.aside() as aside:
            (aside / MODEL).write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert not list(folder.path.glob(".training-*"))
    killed = folder.path / ".training-0"
    killed.mkdir()
    (killed / MODEL).write_text("half")
    with folder.aside() as running:
        with folder.aside():
            assert running.is_dir(), "another one that runs stays"
        assert not killed.exists()
    assert folder.numbers() == []


def test_a_number_is_never_taken_again_once_it_was_live(tmp_path: Path) -> None:
    folder = ModelFolder(tmp_path, "delay")
    published(folder)
    folder.promote(1, "ann", 10)
    for path in (folder.path / "1").iterdir():
        path.unlink()
    (folder.path / "1").rmdir()
    assert published(folder) == 2


def test_a_number_is_never_taken_again_though_it_was_not_live(tmp_path: Path) -> None:
    """Two models would have had one name else."""
    folder = ModelFolder(tmp_path, "delay")
    assert [published(folder), published(folder)] == [1, 2]
    shutil.rmtree(folder.path / "2")
    assert published(folder) == 3


def test_one_is_live_and_the_history_has_who_made_it_so(tmp_path: Path) -> None:
    folder = ModelFolder(tmp_path, "delay")
    for _ in range(3):
        published(folder)
    assert folder.promote(1, "ann", 10, "none") is None
    assert folder.promote(3, "bob", 20, 1) == 1
    with pytest.raises(CommitConflict, match="is delay@3, not delay@1"):
        folder.promote(2, "eve", 30, 1)
    assert folder.promote(3, "bob", 40, 1) == 3, "done before: once more changes nothing"
    assert folder.promote(1, "ann", 50) == 3
    assert folder.live() == 1
    changes = [(one.time_us, one.by, one.before, one.after) for one in folder.history()]
    assert changes == [(10, "ann", None, 1), (20, "bob", 1, 3), (50, "ann", 3, 1)]
    with pytest.raises(BadRequest, match="no model delay@4"):
        folder.promote(4, "ann", 60)


def test_a_line_that_was_cut_off_spoils_no_other(tmp_path: Path) -> None:
    folder = ModelFolder(tmp_path, "delay")
    published(folder)
    published(folder)
    folder.promote(1, "ann", 10)
    with (folder.path / HISTORY).open("a") as file:
        file.write('{"time_us": 11, "by')
    folder.promote(2, "bob", 20)
    assert [one.by for one in folder.history()] == ["ann", "bob"]


def test_promotions_at_once_are_one_after_another(tmp_path: Path) -> None:
    folder = ModelFolder(tmp_path, "delay")
    for _ in range(9):
        published(folder)
    folder.promote(9, "first", 0)

    def one(number: int) -> bool:
        try:
            return ModelFolder(tmp_path, "delay").promote(number, f"{number}", number, 9) == 9
        except CommitConflict:
            return False

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(one, range(1, 9))) == 1
    assert folder.live() == folder.history()[-1].after
    assert len(folder.history()) == 2


def test_damage_is_said_with_its_file(tmp_path: Path) -> None:
    folder = ModelFolder(tmp_path, "delay")
    published(folder)
    (folder.path / LIVE).write_text("one")
    with pytest.raises(DataLoss, match="'one'"):
        folder.live()
    folder.file(1, "manifest.json").write_text("{}")
    with pytest.raises(DataLoss) as refused:
        folder.manifest(1)
    assert str(folder.path) in str(refused.value.where)


@pytest.mark.parametrize("text", ["", ".", "..", "a/b", "a@1", ".x", "é", "a b"])
def test_no_other_text_becomes_part_of_a_path(text: str) -> None:
    assert not is_name(text)


def test_a_version_is_told_from_a_name() -> None:
    assert split_version("delay@12") == ("delay", 12)
    for name in ("delay", "delay@0", "delay@x", "@1", "delay@01"):
        assert split_version(name) == (name, None)
