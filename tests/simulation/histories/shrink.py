"""A history that goes wrong is reduced to the moves that it needs (delta debugging over what was
drawn)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from tests.simulation.histories.choices import Draws, Tape
from tests.simulation.histories.play import History

Replay = Callable[[Tape], History]
MOST = 1_500
"""Histories that are played for it."""


def way(wrong: str | None) -> str | None:
    """In what way a history is wrong: its message but for numbers, of lists only whether they are
    empty."""
    if wrong is None:
        return None
    text = re.sub(r"\{[^}]*\}", "{}", wrong)
    text = re.sub(r"\[[^\[\]]+\]", "[some]", text)
    return re.sub(r"\d+", "#", text)


def shrunk(history: History, replay: Replay, most: int = MOST) -> History:
    """The shortest history found that goes wrong in the same way, by playing at most so many."""
    return _Shrinking(history, replay, most).run()


class _Shrinking:
    def __init__(self, history: History, replay: Replay, most: int) -> None:
        self.best, self.replay, self.left = history, replay, most
        self.wanted = way(history.wrong)

    def run(self) -> History:
        size = -1
        while self.left > 0 and size != _size(self.best.tape):
            size = _size(self.best.tape)
            self._without_moves()
            self._without_draws()
        return self.best

    def _tries(self, tape: Tape) -> bool:
        if self.left <= 0 or _size(tape) >= _size(self.best.tape):
            return False
        self.left -= 1
        history = self.replay(tape)
        if way(history.wrong) != self.wanted:
            return False
        # what was drawn in place of what is missing is not kept: it would be drawn again
        kept = Tape(
            tape.before, tape.moves[: len(history.tape.moves)], history.tape.after and tape.after
        )
        self.best = History(history.seed, history.wrong, history.answers, history.story, kept)
        return True

    def _without_moves(self) -> None:
        chunk = max(1, len(self.best.tape.moves) // 2)
        while True:
            end = len(self.best.tape.moves)
            while end > 0:
                begin = max(0, end - chunk)
                moves = self.best.tape.moves
                end = min(end, len(moves))
                self._tries(self.best.tape._replace(moves=moves[: min(begin, end)] + moves[end:]))
                end = begin
            if chunk == 1:
                return
            chunk //= 2

    def _without_draws(self) -> None:
        """Moves in which nothing special happens after the first draws, as few as will do."""
        self._tries(self.best.tape._replace(after=()))
        for i in range(len(self.best.tape.moves)):
            if i >= len(self.best.tape.moves):
                return
            for fewer in _halves(self.best.tape.moves[i]):
                moves = self.best.tape.moves
                if self._tries(self.best.tape._replace(moves=(*moves[:i], fewer, *moves[i + 1 :]))):
                    break


def _halves(draws: Draws) -> Iterator[Draws]:
    count = 1
    while count < len(draws):
        yield draws[:count]
        count *= 2


def _size(tape: Tape) -> int:
    return 100 * len(tape.moves) + len(tape.before) + len(tape.after) + sum(map(len, tape.moves))
