"""A part of slicewise whose packages are missing says which extra brings them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from slicewise.errors import MissingExtra

PACKAGES: dict[str, frozenset[str]] = {
    "client": frozenset({"httpx"}),
    "serving": frozenset(
        {"confluent_kafka", "hiredis", "msgspec", "prometheus_client", "redis", "uvicorn", "uvloop"}
    ),
    "models": frozenset({"httpx", "onnxruntime", "sklearn", "skops"}),
    "training": frozenset(
        {
            *(
                "confluent_kafka",
                "hiredis",
                "msgspec",
                "pandas",
                "polars",
                "psutil",
                "pyiceberg",
                "redis",
            ),
            "sqlalchemy",
        }
    ),
    "spark": frozenset(
        {
            *(
                "confluent_kafka",
                "great_expectations",
                "hiredis",
                "jinja2",
                "openlineage",
                "pandas",
                "prometheus_client",
            ),
            *("py4j", "pyiceberg", "pyspark", "redis", "sqlalchemy"),
        }
    ),
    "airflow": frozenset(
        {
            "airflow",
            "croniter",
            "fastapi",
            "httpx",
            "jinja2",
            "markdown_it",
            "psutil",
            "pygal",
            "redis",
        }
    ),
    "platform": frozenset(
        {
            *(
                "confluent_kafka",
                "hiredis",
                "httpx",
                "jinja2",
                "msgspec",
                "pandas",
                "polars",
                "prometheus_client",
                "psutil",
            ),
            *("pyiceberg", "redis", "sqlalchemy", "rich", "uvicorn", "uvloop"),
        }
    ),
}
"""Extra -> what its rooms import beside the base. tests/architecture holds it to pyproject.toml and
to the imports."""
BASE = frozenset({"duckdb", "msgpack", "numpy", "pyarrow", "sqlglot", "xxhash"})


@contextmanager
def needed(extra: str, by: str) -> Iterator[None]:
    """Turns a missing package that `extra` brings into MissingExtra, which names `by` and the
    extra.

    extra: "" where only the base is needed.
    """
    try:
        yield
    except MissingExtra:
        raise
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in PACKAGES.get(extra, frozenset()) | BASE:
            raise  # a module of the user's own
        if package in BASE:
            expected, install = "the packages of slicewise itself", "slicewise"
        else:
            expected, install = f"the extra {extra!r} of slicewise", f"slicewise[{extra}]"
        raise MissingExtra(
            f"the package {package!r} is not installed",
            where=by,
            expected=expected,
            next_step=f'pip install "{install}"',
        ) from error
