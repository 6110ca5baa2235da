"""Profiles over positions and offsets: a line a checkpoint, a panel a head."""

import numpy as np
import pandas as pd
import pytest

from stagewise.plot._profiles import loss_by_position, offset_profiles, profile
from stagewise.plot._step_axis import new_axes

STEPS = (0, 1, 2, 3, 4, 5, 6, 7, 8)


def profiles(probe: str, quantity: str, axis: str, head: int = 0) -> pd.DataFrame:
    """At step s and place i, s + i / 10 + head."""
    rows = [{"step": step, axis: i, "value": step + i / 10 + head} for step in STEPS for i in range(3)]
    return pd.DataFrame(rows).assign(run="run", probe=probe, quantity=quantity, layer=0, head=head)


def test_five_checkpoints_from_the_first_to_the_last_have_a_line_each() -> None:
    ax = profile(new_axes(None), profiles("Mine", "score", "position"), "position")
    labels = [str(line.get_label()) for line in ax.get_lines()]
    assert labels == ["step 0", "step 2", "step 4", "step 6", "step 8"]
    assert ax.get_xlabel() == "position"
    np.testing.assert_allclose(np.asarray(ax.get_lines()[1].get_xydata()), [[0, 2.0], [1, 2.1], [2, 2.2]])


def test_every_head_has_its_panel_with_its_own_values() -> None:
    table = pd.concat([profiles("OffsetProfile", "mass", "offset", head) for head in range(4)])
    axes = offset_profiles(table, [(0, 3), (0, 0), (0, 2), (0, 1)]).axes
    assert [ax.get_title(loc="left") for ax in axes] == ["L0H3", "L0H0", "L0H2", "L0H1"]
    for ax, head in zip(axes, (3, 0, 2, 1), strict=True):
        assert np.asarray(ax.get_lines()[-1].get_ydata()).tolist() == pytest.approx([8 + head, 8.1 + head, 8.2 + head])


def test_the_loss_by_position_is_in_nats() -> None:
    ax = loss_by_position(profiles("LossByPosition", "cross_entropy", "position"))
    assert "nats" in ax.get_ylabel()
    assert np.asarray(ax.get_lines()[0].get_xdata()).tolist() == [0, 1, 2]


@pytest.mark.parametrize(("scale", "ticks_are_whole"), [(1, True), (0.25, False)])
def test_an_axis_of_whole_numbers_has_whole_ticks(scale: int | float, ticks_are_whole: bool) -> None:
    rows = profiles("Mine", "score", "position")
    ax = profile(new_axes(None), rows.assign(position=rows["position"] * scale), "position")
    assert bool((ax.get_xticks() % 1 == 0).all()) is ticks_are_whole
