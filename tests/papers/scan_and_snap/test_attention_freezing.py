"""Freezing: total variation between checkpoints, one for attention that jumps, none for attention that stays."""

from collections.abc import Callable

import pandas as pd
import pytest
import torch
from torch import Tensor

from stagewise.measurement._rows import bootstrap_weights, rows
from stagewise.measurement.engine import measure
from stagewise.papers.scan_and_snap._synthetic import moments_of_syn_small
from stagewise.papers.scan_and_snap.attention_freezing import AttentionFreezing
from stagewise.papers.scan_and_snap.published_data import population_batch
from stagewise.papers.scan_and_snap.yz_hooked import series_of
from stagewise.papers.scan_and_snap.yz_training import Rates
from stagewise.papers.tasks import syn_small
from stagewise.probe import View
from stagewise.table import select, tidy


def table_of(probe: AttentionFreezing, views: list[View]) -> pd.DataFrame:
    frames = [
        rows(reading, bootstrap_weights(1, 2)).assign(run="run", step=view.step, probe="AttentionFreezing")
        for view in views
        for reading in probe.read(view)
    ]
    return probe.across(tidy(frames))


def test_attention_that_jumps_changes_by_one_and_attention_that_stays_by_nothing(
    view_of: Callable[..., View], looking_back: Callable[[int, int], Tensor]
) -> None:
    scored = torch.arange(6).expand(2, -1) >= 2
    views = [
        view_of(
            torch.stack([looking_back(6, k), looking_back(6, 1)]).expand(2, 1, -1, -1, -1), scored=scored, step=step
        )
        for step, k in ((0, 1), (4, 2), (9, 2))
    ]
    change = table_of(AttentionFreezing(rows=20), views).set_index(["step", "head"])["value"]
    assert change.to_dict() == {(4, 0): 1.0, (4, 1): 0.0, (9, 0): 0.0, (9, 1): 0.0}


def test_half_of_the_attention_moved_is_a_change_of_a_half(view_of: Callable[..., View]) -> None:
    before, after = torch.tensor([[[1.0, 0], [0.5, 0.5]], [[1.0, 0], [0.0, 1.0]]])
    views = [view_of(pattern.expand(1, 1, 1, -1, -1), step=step) for step, pattern in enumerate((before, after))]
    assert table_of(AttentionFreezing(), views)["value"].tolist() == [pytest.approx(0.25)]


@pytest.mark.hooked_only("a native bridge does not compute with the scores that (Y, Z) edits")
def test_the_attention_of_syn_small_freezes_as_in_the_notes() -> None:
    steps = (8, 12, 30, 40, 50, 100)
    moments = ((m.step, m.weights) for m in moments_of_syn_small([Rates(1.0, 1.0)]) if m.step in steps)
    batch = population_batch(syn_small())
    table = measure(series_of("run", moments, 156), [AttentionFreezing(rows=1)], batch, progress=False)
    change = select(table, "AttentionFreezing", "change").set_index("step")["value"]
    assert change[[12, 40, 50, 100]].tolist() == pytest.approx([0.073, 0.017, 0.006, 0.003], abs=1e-3)


def test_no_rows_are_refused() -> None:
    with pytest.raises(ValueError, match="rows must be at least one scored query, got 0"):
        AttentionFreezing(0)
