"""A column is named by its window, as its author wrote it."""

import pytest

from slicewise.errors import DefinitionError
from slicewise.windows.durations import (
    DAY_US,
    HOUR_US,
    MINUTE_US,
)
from slicewise.windows.hopping import hopping
from slicewise.windows.sliding import sliding
from slicewise.windows.tumbling import tumbling
from slicewise.windows.window import Window

M, H, D = MINUTE_US, HOUR_US, DAY_US


def test_a_column_is_named_by_the_authors_own_text() -> None:
    assert sliding("24h").column_suffix() == "24h"
    assert tumbling("1h").column_suffix() == "tumbling_1h"
    assert hopping("1h", every="10m").column_suffix() == "hopping_1h_10m"
    assert tumbling("1h", open=True).column_suffix() == "tumbling_1h_open"
    assert Window("hopping", H, 10 * M).column_suffix() == "hopping_1h_10m"


def test_an_offset_stands_in_the_columns_name() -> None:
    assert sliding("1h", offset="1d").column_suffix() == "1h_offset_1d"
    assert tumbling("1h", offset="24h").column_suffix() == "tumbling_1h_offset_24h"
    assert tumbling("1h", open=True, offset="1w").column_suffix() == "tumbling_1h_offset_1w_open"
    assert hopping("1h", every="10m", offset="1d").column_suffix() == "hopping_1h_10m_offset_1d"
    assert Window("sliding", H, offset_us=D).column_suffix() == "1h_offset_1d"


@pytest.mark.parametrize("offset", ["0s", "-1h", "", "1 day"])
def test_an_offset_is_a_positive_duration(offset: str) -> None:
    with pytest.raises(DefinitionError, match="no duration"):
        sliding("1h", offset=offset)


def test_a_hop_beyond_the_length_is_refused() -> None:
    with pytest.raises(DefinitionError, match="no window"):
        hopping("10m", every="1h")
