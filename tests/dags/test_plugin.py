"""The page in Airflow's UI asks for a sign-in, stands alone, and says what it cannot read."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from airflow import plugins_manager
from fastapi import FastAPI
from fastapi.testclient import TestClient

from slicewise.lifecycle.health.alerts import ANCHORS, MATTERS, runbook_link
from slicewise.settings import Settings

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def app() -> FastAPI:
    apps, _ = plugins_manager.get_fastapi_plugins()
    application: FastAPI = next(
        entry["app"] for entry in apps if entry["url_prefix"] == "/slicewise"
    )
    return application


def test_the_plugin_is_registered_with_its_place_in_the_navigation() -> None:
    assert not plugins_manager.get_import_errors()
    views, _ = plugins_manager._get_ui_plugins()
    assert [
        (view["href"], view["destination"]) for view in views if view["url_route"] == "slicewise"
    ] == [("/slicewise/", "nav")]


@pytest.mark.parametrize("path", ["/", "/page/base.js", "/status.json", "/rights.json"])
def test_nothing_is_shown_without_a_sign_in(app: FastAPI, path: str) -> None:
    assert TestClient(app).get(path).status_code in (401, 403)


@pytest.mark.parametrize("about", [*ANCHORS, *MATTERS])
def test_the_link_of_an_alert_leads_to_a_heading_that_airflow_shows(
    app: FastAPI, about: str
) -> None:
    root = Settings.load().runbook_url
    link = urlsplit(runbook_link(about, root))
    assert link.netloc
    prefix = urlsplit(root).path
    assert prefix == "/slicewise"
    page = TestClient(app).get(link.path.removeprefix(prefix))
    assert page.status_code == 200
    assert f'id="{link.fragment}"' in page.text


def test_every_page_of_the_documentation_is_shown_with_its_tables_and_no_script(
    app: FastAPI,
) -> None:
    names = [str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")]
    assert len(names) > 50
    for name in names:
        page = TestClient(app).get(f"/docs/{name}")
        assert page.status_code == 200, name
        assert "<script" not in page.text, name
    assert "<table>" in TestClient(app).get("/docs/runbook.md").text


@pytest.mark.parametrize(
    "path",
    ["/docs/../README.md", "/docs/%2e%2e/README.md", "/docs/render.py", "/docs/x.md", "/docs/"],
)
def test_nothing_but_the_documentation_is_shown(app: FastAPI, path: str) -> None:
    assert TestClient(app).get(path).status_code in (401, 403, 404)


def test_links_between_headings_of_the_runbook_lead_somewhere(app: FastAPI) -> None:
    page = TestClient(app).get("/docs/runbook.md").text
    inner = set(re.findall(r'href="#([^"]+)"', page))
    assert inner
    assert inner <= set(re.findall(r'id="([^"]+)"', page))


def test_the_page_loads_nothing_but_its_own_files() -> None:
    folder = ROOT / "plugins" / "page"
    page = (folder / "page.html").read_text(encoding="utf-8")
    loaded = re.findall(r"""(?:src|<link[^>]* href)="([^"]*)\"""", page)
    assert sorted(loaded) == sorted(
        f"page/{file.name}" for file in folder.iterdir() if file.suffix != ".html"
    )
    assert not re.findall(r"<script>|<style|style=|\son\w+=", page)
    for file in folder.iterdir():
        assert not re.findall(r"url\(|@import|https?://[a-z]", file.read_text(encoding="utf-8"))


def test_the_page_never_writes_html_from_data() -> None:
    for file in (ROOT / "plugins" / "page").iterdir():
        text = file.read_text(encoding="utf-8")
        assert not re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write", text)


def test_the_package_of_operators_is_no_plugin() -> None:
    names = {plugin.name for plugin in plugins_manager._get_plugins()[0]}
    assert "slicewise" in names
    ignored = (ROOT / "plugins" / ".airflowignore").read_text(encoding="utf-8").split()
    assert "slicewise_airflow/" in ignored
