"""A linear axis of steps begins at zero, ends at the last step, and has few ticks."""

import matplotlib.pyplot as plt
import pytest

from stagewise.papers.linear_axis import set_linear_step_axis


@pytest.mark.parametrize("last", [700, 40_000])
def test_the_axis_goes_from_zero_to_the_last_step_with_few_whole_ticks(last: int) -> None:
    figure, ax = plt.subplots()
    set_linear_step_axis(ax, last)
    figure.canvas.draw()
    ticks = [each for each in ax.get_xticks() if 0 <= each <= last]
    assert ax.get_xlim() == (0, last)
    assert 3 <= len(ticks) <= 6
    assert all(float(each).is_integer() for each in ticks)
    plt.close(figure)
