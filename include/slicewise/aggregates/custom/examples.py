"""Classes as users write them, over every kind of column and field, for the law suite: text, as it
travels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

EXAMPLES: Sequence[tuple[str, Sequence[Mapping[str, pa.DataType]], Mapping[str, Any]]] = (
    (
        """class Spread(sw.Aggregate):
    columns = {"x": ("double", "long")}
    fields = {"least": "double", "most": "double"}
    output = "double"

    def empty(self):
        return (float("inf"), float("-inf"))

    def accumulate(self, state, event):
        x = float(event["x"])
        return (min(state[0], x), max(state[1], x)) if x == x else state

    def combine(self, a, b):
        return (min(a[0], b[0]), max(a[1], b[1]))

    def finish(self, state):
        return state[1] - state[0] if state[0] < state[1] else None

    def accumulate_columns(self, columns, groups, n):
        x = columns["x"].astype(np.float64)
        known = x == x
        least, most = np.full(n, float("inf")), np.full(n, float("-inf"))
        np.minimum.at(least, groups[known], x[known])
        np.maximum.at(most, groups[known], x[known])
        return {"least": least, "most": most}

    def combine_columns(self, fields, groups, n):
        least, most = np.full(n, float("inf")), np.full(n, float("-inf"))
        np.minimum.at(least, groups, fields["least"])
        np.maximum.at(most, groups, fields["most"])
        return {"least": least, "most": most}
""",
        ({"x": pa.float64()}, {"x": pa.int64()}),
        {},
    ),
    (
        """class Power(sw.Aggregate):
    columns = {"x": "long", "weight": "decimal"}
    fields = {"sum": "integer", "odd": "boolean", "n": "long"}
    output = "string"
    degree: int = 2

    def empty(self):
        return (0, False, 0)

    def accumulate(self, state, event):
        term = 1
        for _ in range(self.degree):
            term = term * event["x"]
        return (state[0] + term, state[1] != (event["x"] % 2 == 1), state[2] + 1)

    def combine(self, a, b):
        return (a[0] + b[0], a[1] != b[1], a[2] + b[2])

    def deduct(self, whole, part):
        return (whole[0] - part[0], whole[1] != part[1], whole[2] - part[2])

    def finish(self, state):
        return str(state[0]) + (" odd " if state[1] else " even ") + str(state[2])
""",
        ({"x": pa.int64(), "weight": pa.decimal128(12, 3)},),
        {"degree": 3},
    ),
    (
        """class Longest(sw.Aggregate):
    columns = {"s": "string"}
    fields = {"text": "string", "lengths": "list<long>", "few": "list<string>", "halves": "list<double>"}
    output = "long"

    def empty(self):
        return ("", (), (), ())

    def accumulate(self, state, event):
        s = event["s"]
        return self.combine(state, (s, (len(s),), (s,), (len(s) / 2,)))

    def combine(self, a, b):
        text = max((len(a[0]), a[0]), (len(b[0]), b[0]))[1]
        few = []
        for each in sorted([*a[2], *b[2]]):
            if len(few) < 2 and each not in few:
                few.append(each)
        return (text, sorted([*a[1], *b[1]])[-3:], few, sorted([*a[3], *b[3]])[:1])

    def finish(self, state):
        total = len(state[0])
        for each in state[1]:
            total += 1000 * each
        return total
""",
        ({"s": pa.string()},),
        {},
    ),
)
