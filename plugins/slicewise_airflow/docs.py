"""A link to the documentation is absolute wherever it stands: in a DAG's page, in an alert, in a task's log."""

from __future__ import annotations

import textwrap

from slicewise.errors import SettingsError
from slicewise.lifecycle.alerts import RUNBOOK
from slicewise.log import warning
from slicewise.settings import Settings


def base() -> str:
    """The address below which docs/ can be read; nothing where the settings cannot be read: an alert goes out."""
    try:
        return Settings.load().runbook_base
    except SettingsError as error:
        warning("settings_not_read", error=error.what)
        return ""


def page_of(docstring: str | None) -> str:
    """A DAG's page: its docstring, with links into docs/ made absolute."""
    text = textwrap.dedent(docstring or "")
    root = base()
    return text.replace(f"]({RUNBOOK}", f"]({root.rstrip('/')}/{RUNBOOK}") if root else text
