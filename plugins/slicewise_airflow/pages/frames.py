"""Pages of the plugin share one frame, whose templates are made of text alone."""

from __future__ import annotations

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

_FRAME = Path(__file__).parents[1] / "reports" / "templates"


def environment(*folders: Path) -> Environment:
    """The environment of templates in these folders, and of the frame. What a template lacks is an
    error, and what it is given is escaped."""
    return Environment(
        loader=FileSystemLoader([*folders, _FRAME]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
