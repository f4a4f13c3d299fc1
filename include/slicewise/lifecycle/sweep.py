"""Every key of the online store goes once no read can reach it; none that a read can reach is ever
shortened.

A unit's build that is over is over for ever: its keys go whenever they are found, also those that
a zombie writes later. A bound is generous by SLACK_S: the micro-batch lane's own expiry, set from
event time, always lies below it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Any

from slicewise.stores.online.control_record import StoreMetadata
from slicewise.stores.online.keys import PENDING_FIELDS
from slicewise.windows.durations import DAY_US

SLACK_S = 7_200
_SLICE = re.compile(rb"r:(\d+):.+", re.DOTALL)
_STATE = re.compile(rb"sw:(\d+):\{([^{}]*)\}:([0-9a-f]{16}(?:\.\d+)?):(.+)", re.DOTALL)
_NODE = re.compile(rb"sw:(?:marks:\{0\}|manifest:[0-9a-f]{64}|status:.+)", re.DOTALL)
# leaderboards expire by themselves, within periods that their writers know
_OF_STORE_ID = re.compile(
    rb"sw:(\d+):(?:(?:swapped|covers|entered):.+:\{0\}|board:\w+(?::\d+)?)", re.DOTALL
)
_PUBLISHED = re.compile(rb"sw:\d+:swapped:([0-9a-f]{16}(?:\.\d+)?):\{0\}")
_LIST = (b"list", b"events")
_IDS = b"ids"
"""Remembered ids: like a list's, its expiry follows Kafka's time and not the store's."""
_DAY = re.compile(rb"day:(\d{8})")
_KINDS = frozenset({"hot", "day", "list", "events", "ids"})


@dataclass(frozen=True)
class UnitRule:
    """Bounds of the keys of one deployed unit."""

    retention_us: int
    max_ahead_us: int
    slice_us: int
    keeps_rows: bool = False
    """True of an event list: the last rows of an entity have no expiry, by design."""
    lifetime: bool = False
    """Nothing of it has an expiry, by design: hours go into totals, and what is left of their days
    is of no use."""
    total_until: int | None = None
    """Hour before which every entity's hours are in its total, of such a unit."""


@dataclass(frozen=True)
class SweepRules:
    """A store as its metadata and manifest described it when the sweep began."""

    store_id: int
    units: Mapping[str, UnitRule]
    """Name in keys (`StoreMetadata.name`) -> rule."""
    deployment_version: int = 0
    retired: int = 0
    """Number as in the metadata."""

    def is_over(self, name: str) -> bool:
        """Tells whether the name in a key is of a build that is over. A build that a later
        deployment than the one of these rules began is not."""
        if name in self.units:
            return False
        build = name.partition(".")[2]
        # Once a unit was left out, no new one gets a name without a build.
        return int(build) <= self.deployment_version if build else self.retired > 0

    @property
    def longest_us(self) -> int:
        """For units that these rules do not know yet: about what a unit keeps here."""
        return max(
            (unit.retention_us + unit.max_ahead_us for unit in self.units.values()), default=DAY_US
        )


class Finding(Enum):
    WELL = "well"
    NO_EXPIRY = "no_expiry"
    OVER_LONG = "over_long"
    OLD_STORE_ID = "old_store_id"
    RETIRED = "retired"
    IN_TOTALS = "in_totals"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Verdict:
    """Verdict on a key; expire_at_s: the expiry that it must get, if any."""

    finding: Finding
    unit: str = ""
    expire_at_s: int | None = None
    needs_fields: bool = False
    """To be asked again, with the names of the hash's fields."""

    @property
    def name(self) -> str:
        return self.finding.value

    @property
    def delete(self) -> bool:
        return self.finding in (Finding.OLD_STORE_ID, Finding.RETIRED, Finding.IN_TOTALS)


_WELL = Verdict(Finding.WELL)


def verdict(
    key: bytes,
    expires_at_s: int | None,
    now_us: int,
    rules: SweepRules,
    fields: Sequence[bytes] | None = None,
) -> Verdict:
    """About one key. expires_at_s: its expiry in seconds since the epoch, None if it has none;
    fields: the names of its fields, where a first verdict asked for them.

    Keys of an older store id, or of a build that is over, are read by nobody: they go. Metadata,
    manifests, the hours and offset vectors of this store id, and all that is of a unit with a
    lifetime, have no expiry, by design.
    """
    if _NODE.fullmatch(key):
        return _WELL
    owned = _OF_STORE_ID.fullmatch(key)
    if owned:
        if int(owned[1]) != rules.store_id:
            return _of_store_id(int(owned[1]), rules)
        published = _PUBLISHED.fullmatch(key)
        over = published is not None and rules.is_over(published[1].decode())
        return Verdict(Finding.RETIRED, published[1].decode()) if published and over else _WELL
    state = _STATE.fullmatch(key)
    if state is None:
        return Verdict(Finding.UNKNOWN)
    if int(state[1]) != rules.store_id:
        return _of_store_id(int(state[1]), rules)
    unit, kind = state[3].decode(), state[4]
    if rules.is_over(unit):
        return Verdict(Finding.RETIRED, unit)
    rule = rules.units.get(unit)
    if rule is not None and rule.lifetime:
        return _lifetime_verdict(unit, kind, rule)
    if kind in _LIST or kind == _IDS:
        return _list_verdict(unit, expires_at_s, now_us, rules)
    bound_s = _bound_s(unit, kind, now_us, rules)
    if bound_s is None:
        return Verdict(Finding.UNKNOWN, unit)
    # A producer's clock may run far ahead, and event times are judged by it: what the hash holds
    # decides, not the store's clock alone.
    needs_fields = kind == b"hot" and fields is None and unit in rules.units
    if fields is not None and any(name.startswith(PENDING_FIELDS) for name in fields):
        # their names say nothing of time; the micro-batch lane makes running partials of them
        # within seconds
        return _WELL
    if fields is not None and unit in rules.units:
        bound_s = max(bound_s, _reach_s(fields, rules.units[unit]))
    if expires_at_s is None:
        return Verdict(Finding.NO_EXPIRY, unit, bound_s, needs_fields=needs_fields)
    # the retention of a unit that came after the rules is not known: only a missing expiry is a
    # finding
    if expires_at_s > bound_s and unit in rules.units:
        return Verdict(Finding.OVER_LONG, unit, bound_s, needs_fields=needs_fields)
    return _WELL


def unit_and_kind(key: bytes) -> tuple[str, str]:
    """The unit's name in a key, or none, and the kind of the key, for people."""
    state = _STATE.fullmatch(key)
    if state is not None:
        kind = state[4].partition(b":")[0].decode(errors="replace")
        return state[3].decode(), kind if kind in _KINDS else "other"
    if _NODE.fullmatch(key):
        return "", "control"
    owned = _OF_STORE_ID.fullmatch(key)
    if owned is None:
        return "", "other"
    return "", "leaderboard" if key.partition(b":board:")[1] else "control"


def _lifetime_verdict(unit: str, kind: bytes, rule: UnitRule) -> Verdict:
    day = _day_start_s(kind)
    if day is None:
        return _WELL if kind in (b"hot", _IDS) else Verdict(Finding.UNKNOWN, unit)
    in_totals = (
        rule.total_until is not None and day + DAY_US // 1_000_000 <= rule.total_until * 3_600
    )
    return Verdict(Finding.IN_TOTALS, unit) if in_totals else _WELL


def _list_verdict(unit: str, expires_at_s: int | None, now_us: int, rules: SweepRules) -> Verdict:
    """Verdict on a list. Its own script sets its expiry, by its newest event; here one is only set
    where there is none at all, as where a rows window went."""
    rule = rules.units.get(unit)
    if expires_at_s is not None or rule is None or rule.keeps_rows:
        return _WELL
    return Verdict(
        Finding.NO_EXPIRY,
        unit,
        -((now_us + rule.max_ahead_us + rule.retention_us) // -1_000_000) + SLACK_S,
    )


def _of_store_id(store_id: int, rules: SweepRules) -> Verdict:
    """Verdict on a key's store id. Of a newer one than that of the rules (the store was emptied
    since), nothing is known."""
    return Verdict(Finding.OLD_STORE_ID) if store_id < rules.store_id else _WELL


def _reach_s(fields: Sequence[bytes], rule: UnitRule) -> int:
    """Second after which no read reaches the newest running partial; 0 without one."""
    matches = [_SLICE.fullmatch(name) for name in fields]
    newest = max((int(match[1]) for match in matches if match), default=-1)
    return -(((newest + 1) * rule.slice_us + rule.retention_us) // -1_000_000) if newest >= 0 else 0


def _bound_s(unit: str, kind: bytes, now_us: int, rules: SweepRules) -> int | None:
    """Second after which no read reaches the key; None for a kind of key that is not known."""
    rule = rules.units.get(unit)
    reach_us = rules.longest_us if rule is None else rule.retention_us
    max_ahead_us = DAY_US if rule is None else rule.max_ahead_us
    if kind == b"hot":
        # its newest event can lie as far ahead as the source allows
        return -((now_us + max_ahead_us + reach_us) // -1_000_000) + SLACK_S
    day = _day_start_s(kind)
    return None if day is None else day + -((DAY_US + reach_us) // -1_000_000) + SLACK_S


def _day_start_s(kind: bytes) -> int | None:
    day = _DAY.fullmatch(kind)
    if day is None:
        return None
    try:
        return int(datetime.strptime(day[1].decode(), "%Y%m%d").replace(tzinfo=UTC).timestamp())
    except ValueError:
        return None


def rules_of(metadata: StoreMetadata, manifest: Mapping[str, object]) -> SweepRules:
    """The rules of a deployment, from the metadata and its manifest's JSON."""
    sources = {
        str(source["name"]): _most_ahead_us(source) for source in _maps(manifest.get("sources"))
    }
    units = {
        metadata.name(str(unit["storage_fingerprint"])): UnitRule(
            int(unit["retention_us"]),
            sources.get(str(unit["source"]), DAY_US),
            int(unit["slice_us"]),
            any(int(kept["rows"]) for kept in _maps([unit.get("event_list")])),
            any(feature["window"].get("kind") == "lifetime" for feature in _features(unit)),
            _total_until(metadata, str(unit["storage_fingerprint"])),
        )
        for unit in _maps(manifest.get("units"))
    }
    return SweepRules(metadata.store_id, units, metadata.deployment_version, metadata.retired)


def _most_ahead_us(source: Mapping[str, Any]) -> int:
    """The value of `Source.most_ahead_us`, of the source's JSON."""
    earlier = _maps([version["source"] for version in _maps(source.get("earlier"))])
    return max(int(version["max_ahead_us"]) for version in (source, *earlier))


def _total_until(metadata: StoreMetadata, unit: str) -> int | None:
    total_until = metadata.totals_until.get(unit)
    return None if total_until is None else total_until.hour


def _features(unit: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [feature for feature in unit.get("features") or () if isinstance(feature, Mapping)]


def _maps(value: object) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []
