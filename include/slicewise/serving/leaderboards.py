"""A leaderboard is answered by one read of what was made for it; how old that is, and what it
lacks, is said."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from slicewise.client import answers
from slicewise.client.answers import LeaderboardRow as LeaderboardRow
from slicewise.codec.leaderboards import StoredLeaderboard
from slicewise.codec.plain import json_safe
from slicewise.errors import ServerRunChanged, StoreUnavailable, UnknownName
from slicewise.features.plan.deployment import PlannedLeaderboard
from slicewise.features.schema.types import TIMESTAMP
from slicewise.serving.answering.requests import instant_text
from slicewise.serving.answering.service import ATTEMPTS, FeatureService
from slicewise.serving.connection.steps import Flow, Reopen
from slicewise.stores.online.operations.leaderboards import (
    PERIODS,
    LeaderboardReply,
    ReadLeaderboard,
)
from slicewise.stores.online.sharded.routing import node_of
from slicewise.windows.durations import format_duration

MISSING, STALE, SHORT = "missing", "stale", "short"


@dataclass(frozen=True)
class Leaderboard(answers.Leaderboard):
    """A leaderboard that the API can write."""

    def to_wire(self, *, text: bool) -> dict[str, Any]:
        """The leaderboard as the API writes it; text: for JSON, where infinities and the keys of
        objects are text."""
        rows = [{"rank": row.rank, "entity": row.entity, "value": row.value} for row in self.rows]
        offset_vector = {
            t: {str(p) if text else p: o for p, o in offsets.items()}
            for t, offsets in self.cover.items()
        }
        return {
            "leaderboard": self.name,
            "feature": self.feature,
            "k": self.k,
            "every": format_duration(self.every_us),
            "now": instant_text(self.now_us),
            "start": _instant(self.start_us),
            "end": _instant(self.end_us),
            "written": _instant(self.written_us),
            "rows": json_safe(rows) if text else rows,
            "more": self.more,
            "cover": offset_vector,
            "flags": list(self.flags),
        }


def read_leaderboard(service: FeatureService, name: str) -> Flow[Leaderboard]:
    """The leaderboard of this name. Raises UnknownName, NotReady, StoreUnavailable, CodecError."""
    last: StoreUnavailable | None = None
    for attempt in range(ATTEMPTS):
        try:
            catalog = service.catalog or (yield from service.load())
            try:
                planned = catalog.deployment.leaderboard(name)
            except UnknownName:
                # it may have been deployed since
                if (yield from service.load()) is catalog:
                    raise
                continue
            reply: LeaderboardReply = yield ReadLeaderboard(name)
        except ServerRunChanged as error:
            last = error
            service.catalog = None
            yield Reopen()
            continue
        except StoreUnavailable as error:
            if attempt:
                raise
            last = error
            continue
        try:
            if catalog.of_node(node_of(name.encode(), catalog.count)).matches(reply.metadata):
                return answer(planned, reply)
        except StoreUnavailable as error:
            # it has answered now: it is back, or still lacks the deployment
            if (yield from service.load()) is catalog:
                raise
            last = error
            continue
        service.catalog = None
    raise last or StoreUnavailable(
        "the deployment changed with every attempt", next_step="ask again"
    )


def answer(planned: PlannedLeaderboard, reply: LeaderboardReply) -> Leaderboard:
    """The answer about a leaderboard; one that another definition made is none of this
    leaderboard."""
    leaderboard = None if reply.leaderboard is None else StoredLeaderboard.unpack(reply.leaderboard)
    if leaderboard is None or leaderboard.fingerprint != planned.fingerprint:
        return Leaderboard(
            planned.name, planned.ref, planned.k, planned.every_us, reply.time_us,
            None, None, None, (), False, {}, (MISSING,),
        )  # fmt: skip
    flags = [STALE] if reply.time_us - leaderboard.end_us > PERIODS * planned.every_us else []
    if leaderboard.more and len(leaderboard.rows) < planned.k:
        flags.append(SHORT)
    rows = tuple(
        LeaderboardRow(rank, _entity(leaderboard, row.key), row.value)
        for rank, row in enumerate(leaderboard.rows[: planned.k], 1)
    )
    return Leaderboard(
        planned.name, planned.ref, planned.k, planned.every_us, reply.time_us,
        leaderboard.start_us, leaderboard.end_us, reply.written_us, rows, leaderboard.more,
        leaderboard.offset_vector.nested(), tuple(flags),
    )  # fmt: skip


def _entity(leaderboard: StoredLeaderboard, key: tuple[Any, ...]) -> dict[str, Any]:
    return {
        name: instant_text(value) if kind == TIMESTAMP else value
        for (name, kind), value in zip(leaderboard.columns, key, strict=True)
    }


def _instant(us: int | None) -> str | None:
    return None if us is None else instant_text(us)
