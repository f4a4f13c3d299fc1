"""The page in Airflow's UI asks for a sign-in, stands alone, and says what it cannot read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from airflow import plugins_manager
from fastapi import FastAPI
from fastapi.testclient import TestClient

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def app() -> FastAPI:
    apps, _ = plugins_manager.get_fastapi_plugins()
    found: FastAPI = next(each["app"] for each in apps if each["url_prefix"] == "/slicewise")
    return found


def test_the_plugin_is_registered_with_its_place_in_the_navigation() -> None:
    assert not plugins_manager.get_import_errors()
    views, _ = plugins_manager._get_ui_plugins()
    assert [(view["href"], view["destination"]) for view in views if view["url_route"] == "slicewise"] == [
        ("/slicewise/", "nav")
    ]


@pytest.mark.parametrize("path", ["/", "/status.json"])
def test_nothing_is_shown_without_a_sign_in(app: FastAPI, path: str) -> None:
    assert TestClient(app).get(path).status_code in (401, 403)


def test_the_page_loads_nothing_from_anywhere() -> None:
    page = (ROOT / "plugins" / "slicewise_page.html").read_text(encoding="utf-8")
    assert not re.findall(r"""(?:src|href)\s*=\s*["']|url\(|@import|https?://""", page)


def test_the_page_never_writes_html_from_data() -> None:
    page = (ROOT / "plugins" / "slicewise_page.html").read_text(encoding="utf-8")
    assert not re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write", page)


def test_the_package_of_operators_is_no_plugin() -> None:
    names = {plugin.name for plugin in plugins_manager._get_plugins()[0]}
    assert "slicewise" in names
    ignored = (ROOT / "plugins" / ".airflowignore").read_text(encoding="utf-8").split()
    assert "slicewise_airflow/" in ignored
