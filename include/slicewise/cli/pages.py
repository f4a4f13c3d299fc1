"""Pages that read without a network, by the templates beside the commands."""

from __future__ import annotations

from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined


def rendered(template: str, **values: Any) -> str:
    """A page as HTML. values: of the template's names."""
    environment = Environment(
        loader=PackageLoader("slicewise.cli"),
        autoescape=True,
        trim_blocks=True,
        undefined=StrictUndefined,
    )
    return environment.get_template(template).render(**values)
