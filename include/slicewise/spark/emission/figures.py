"""An emission counts what its views published, beside its batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from slicewise.emission.ticks import Correction, Tick
from slicewise.emission.view import Progress, ViewEmission
from slicewise.spark.microbatch.figures import BatchFigures, SourceFigures
from slicewise.stores.online.model.status import Status, ViewStatus


@dataclass
class ViewFigures:
    """Figures of one source's emissions."""

    source: SourceFigures
    _batches: BatchFigures = field(init=False)
    _views: dict[str, ViewStatus] = field(default_factory=dict)
    _windows: Counter[str] = field(default_factory=Counter)
    _corrections: Counter[str] = field(default_factory=Counter)
    _skipped: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._batches = BatchFigures(self.source)

    def keep(self, views: Collection[str]) -> None:
        """Forgets how far other views are: nobody publishes them from this source. What was counted
        of them stays counted."""
        self._views = {view: status for view, status in self._views.items() if view in views}

    def begun(self, view: str, instant_us: int) -> None:
        self._views[view] = ViewStatus(instant_us)

    def read(self, records: int, seconds: float) -> None:
        """A batch was read, and what it let pass was published."""
        self._batches.applied(
            [{"records": records, "freshness_ms": [], "bad": {}, "units": {}}], seconds, {}
        )

    def published(
        self, emission: ViewEmission, progress: Progress, published: Sequence[Tick | Correction]
    ) -> None:
        """An instant's ticks and corrections were handed over."""
        name, before = emission.view, self._views[emission.view]
        now = self.source.progressed()  # also within a batch that lets many instants pass
        windows = sum(int(tick.changed.sum()) for tick in published if isinstance(tick, Tick))
        corrections = sum(
            len(correction.ends_us)
            for correction in published
            if isinstance(correction, Correction)
        )
        self._windows[name] += windows
        self._corrections[name] += corrections
        self._views[name] = replace(
            before,
            instant_us=progress.instant_us,
            windows=before.windows + windows,
            corrections=before.corrections + corrections,
            partials=sum(of_unit.state.rows for of_unit in emission.emissions),
            late_events=sum(of_unit.late_rows for of_unit in emission.emissions),
            too_late_events=sum(of_unit.too_late for of_unit in emission.emissions),
            behind_ms=round((now - progress.instant_us) / 1000),
        )

    def skipped(self, view: str, leaderboards: Mapping[str, int]) -> None:
        """Leaderboards of these names were left to newer ones."""
        self._skipped.update(leaderboards)
        before = self._views[view]
        skipped = before.leaderboards_skipped + sum(leaderboards.values())
        self._views[view] = replace(before, leaderboards_skipped=skipped)

    def status(self) -> Status:
        status = self._batches.status()
        totals = replace(
            status.totals,
            windows=dict(self._windows),
            corrections=dict(self._corrections),
            leaderboards_skipped=dict(self._skipped),
        )
        return replace(status, views=dict(self._views), totals=totals)
