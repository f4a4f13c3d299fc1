"""Configurations of monitoring, as docker-compose.yaml mounts them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yaml").read_text(encoding="utf-8"))
CONFIGS: dict[str, Any] = COMPOSE["configs"]


def mounted(config: str, **variables: str) -> str:
    """Text of a config as compose mounts it under these variables: what is not set has its default,
    and a `$$` of the file is one `$`."""

    def value(match: re.Match[str]) -> str:
        name, operator, text = match.groups()
        if operator == ":+":
            return text if variables.get(name) else ""
        return variables.get(name) or text

    text = re.sub(r"(?<!\$)\$\{(\w+)(:[-+])([^}]*)\}", value, str(CONFIGS[config]["content"]))
    return text.replace("$$", "$")


RULES: dict[str, Any] = yaml.safe_load(mounted("prometheus-rules"))
