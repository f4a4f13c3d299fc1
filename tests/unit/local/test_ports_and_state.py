"""Ports are remembered while free; the state folder guards itself and its secrets."""

from __future__ import annotations

import os
import secrets
import socket
import stat
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from slicewise.errors import ServerError
from slicewise.local.servers import ports, services
from slicewise.local.servers.state import StateFolder
from slicewise.settings import Settings


def test_a_remembered_port_is_taken_again_while_it_is_free() -> None:
    port = ports.choose()
    assert ports.choose(port) == port


def test_a_remembered_port_that_another_holds_is_left_to_it() -> None:
    with socket.socket() as other:
        other.bind((ports.HOST, 0))
        other.listen(1)
        port = other.getsockname()[1]
        assert not ports.is_free(port)
        assert ports.choose(port) != port


def test_a_port_belongs_to_a_state_folder_for_as_long_as_that_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # claims of this test's own
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
    port = ports.choose(owner=first)
    assert ports.is_free(port), "its server does not listen yet"
    assert ports.choose(port, owner=first) == port
    assert ports.choose(port, owner=second) != port
    assert ports.choose(port) != port, "nor is it given to who claims nothing"
    first.rmdir()
    assert ports.choose(port, owner=second) == port


def test_of_many_that_choose_from_few_ports_at_once_no_two_get_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(ports, "RANGE", range(ports.RANGE.start, ports.RANGE.start + 600))
    folders = [tmp_path / f"state {n}" for n in range(40)]
    for folder in folders:
        folder.mkdir()
    with ThreadPoolExecutor(8) as pool:
        chosen = list(
            pool.map(lambda folder: [ports.choose(owner=folder) for _ in range(5)], folders)
        )
    assert len({port for drawn in chosen for port in drawn}) == 200


def test_a_folder_of_claims_that_is_not_this_users_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / f"slicewise-ports-{os.getuid()}").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ServerError, match="claimed ports"):
        ports.choose()


def test_no_port_is_given_twice_in_one_choice(tmp_path: Path) -> None:
    StateFolder(tmp_path / "s").create()
    settings = Settings.load({"SLICEWISE_STATE": str(tmp_path / "s")})
    services.build(settings, services.chooser({}), env={})
    chosen = StateFolder(tmp_path / "s").ports()
    assert sorted(chosen) == sorted(port for needed in services.PORTS.values() for port in needed)
    assert len(set(chosen.values())) == len(chosen)
    services.build(settings, services.chooser({}), env={})
    assert StateFolder(tmp_path / "s").ports() == chosen


def test_the_addresses_reach_the_settings_of_whoever_loads_them_next(tmp_path: Path) -> None:
    StateFolder(tmp_path).create()
    env = {"SLICEWISE_STATE": str(tmp_path)}
    platform = services.build(Settings.load(env), services.chooser({}), env={})
    assert Settings.load(env) == platform.settings
    assert platform.settings.redis_url.endswith(f":{StateFolder(tmp_path).ports()['redis']}/0")


def test_a_server_that_the_user_names_is_not_started_by_us(tmp_path: Path) -> None:
    StateFolder(tmp_path).create()
    env = {"SLICEWISE_STATE": str(tmp_path), "SLICEWISE_REDIS_URL": "redis://store:6379/0"}
    platform = services.build(Settings.load(env), services.chooser({}), env=env)
    assert dict(platform.external) == {"redis": "redis://store:6379/0"}
    assert "redis" not in platform.services
    assert platform.settings.redis_url == "redis://store:6379/0"


def test_a_server_that_the_user_names_stays_theirs_for_every_later_command(tmp_path: Path) -> None:
    StateFolder(tmp_path).create()
    env = {"SLICEWISE_STATE": str(tmp_path), "SLICEWISE_REDIS_URL": "redis://store:6379/0"}
    services.build(Settings.load(env), services.chooser({}), env=env)
    assert dict(services.build(Settings.load(env), env=env).external) == {
        "redis": "redis://store:6379/0"
    }
    anew = {"SLICEWISE_STATE": str(tmp_path)}
    platform = services.build(Settings.load(anew), services.chooser({}), env=anew)
    assert dict(platform.external) == {}, "who no longer names one has ours"
    assert "redis" in platform.services


def test_what_the_supervisor_hands_to_its_children_is_not_a_server_of_the_user(
    tmp_path: Path,
) -> None:
    StateFolder(tmp_path).create()
    env = {"SLICEWISE_STATE": str(tmp_path)}
    first = services.build(Settings.load(env), services.chooser({}), env=env)
    child = first.settings.to_env()
    assert dict(services.build(Settings.load(child), env=child).external) == {}


def test_a_folder_with_something_else_in_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(ServerError, match="something else"):
        StateFolder(tmp_path).create()
    with pytest.raises(ServerError, match="left as it is"):
        StateFolder(tmp_path).remove()
    assert (tmp_path / "thesis.txt").exists()


def test_secrets_are_made_once_and_readable_by_their_owner_only(tmp_path: Path) -> None:
    state = StateFolder(tmp_path / "s")
    state.create()
    assert state.secret("a") == state.secret("a") != state.secret("b")
    assert stat.S_IMODE((state.path / "secrets" / "a").stat().st_mode) == 0o600
    assert stat.S_IMODE(state.path.stat().st_mode) == 0o700


def test_who_asks_for_a_secret_at_once_gets_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = StateFolder(tmp_path / "s")
    state.create()
    made = iter("abcdefgh")
    together = threading.Barrier(8)

    def slowly(_: int) -> str:
        time.sleep(0.05)
        return next(made)

    def secret(_: int) -> str:
        together.wait()
        return state.secret("operator")

    monkeypatch.setattr(secrets, "token_urlsafe", slowly)
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(secret, range(8))) == {"a"}


def test_one_command_at_a_time_holds_the_lock(tmp_path: Path) -> None:
    state = StateFolder(tmp_path / "s")
    state.create()
    order: list[str] = []

    def second() -> None:
        with state.locked():
            order.append("second")

    other = threading.Thread(target=second)
    with state.locked():
        other.start()
        other.join(0.3)
        assert other.is_alive()
        order.append("first")
    other.join(10)
    assert order == ["first", "second"]


def test_a_folder_that_many_make_at_once_is_none_that_somebody_else_made(tmp_path: Path) -> None:
    for number in range(50):
        folder = StateFolder(tmp_path / f"state{number}")
        with ThreadPoolExecutor(8) as pool:
            for made in [pool.submit(folder.create) for _ in range(8)]:
                made.result()
        assert folder.exists()
