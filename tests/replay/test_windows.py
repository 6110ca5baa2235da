"""Windows: the intervals of boundaries, the widest first."""

import pandas as pd
import pytest

from stagewise.findings.stages import Stages
from stagewise.replay.windows import windows


@pytest.mark.parametrize(("ends", "expected"), [([(5, 6)], []), ([(5, 9), (20, 40), (60, 66)], [3, 4, 2])])
def test_the_widest_interval_comes_first_and_one_of_a_step_not_at_all(
    ends: list[tuple[int, int]], expected: list[int]
) -> None:
    lo, hi = zip((0, 0), *ends, strict=True)
    table = pd.DataFrame({"stage": range(1, len(lo) + 1), "start_lo": lo, "start_hi": hi})
    found = windows(Stages("run", table, pd.DataFrame(), pd.DataFrame()))
    assert [window.stage for window in found] == expected
    assert [window.width for window in found] == sorted((window.width for window in found), reverse=True)
