"""Progress of long work is shown as bars where stderr is a terminal, and as lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from slicewise.log import Progress

Notify = Callable[[str], None]


@contextmanager
def bars(line: Notify, *, wanted: bool = True) -> Iterator[Notify]:
    """A door for lines of progress. line: prints one where there is no bar; wanted: False where a
    program reads the output.

    On a terminal a line with figures becomes a bar of its work. Another line is printed as ever,
    and stands beside the clock until the next.
    """
    if not wanted or not sys.stderr.isatty():
        yield line
        return
    try:
        from rich.console import Console
        from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Shown
    except ImportError:  # the base and the extras for libraries do without
        yield line
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[figures]}", markup=False),
        TimeElapsedColumn(),
    )
    # what goes to a file goes there unchanged
    to_terminal = sys.stdout.isatty()
    with Shown(
        *columns, console=Console(stderr=True), transient=True, redirect_stdout=to_terminal
    ) as shown:
        step = shown.add_task("begins", total=None, figures="")
        works = {}

        def notify(text: str) -> None:
            if not isinstance(text, Progress):
                line(text)
                shown.update(step, description=text[: max(20, shown.console.width - 60)])
                return
            if text.what not in works:
                works[text.what] = shown.add_task(text.what, total=text.of, figures="")
            figures = f"{text.done:,} of {text.of:,}"
            work = works[text.what]
            shown.update(work, completed=text.done, total=text.of, figures=figures)

        yield notify
