"""Attention progress: 0 at the start, 1 on the target, by the closed form of a mixture in between."""

from collections.abc import Callable

import pandas as pd
import pytest
import torch
from torch import Tensor

from stagewise.measurement._rows import bootstrap_weights, rows
from stagewise.probe import View
from stagewise.probes import AttentionProgress
from stagewise.table import tidy

LENGTH = 5
BACK = torch.ones(LENGTH, LENGTH).tril(-1).triu(-1).bool()


def uniform() -> Tensor:
    pattern = torch.ones(LENGTH, LENGTH).tril()
    return pattern / pattern.sum(-1, keepdim=True)


def progress(view_of: Callable[..., View], patterns: list[Tensor], probe: AttentionProgress) -> list[float]:
    frames = []
    for step, pattern in enumerate(patterns):
        view = view_of(pattern.expand(3, 1, 1, -1, -1), {"back": BACK}, step=step)
        (reading,) = probe.read(view)
        frames.append(rows(reading, bootstrap_weights(3, 10)).assign(run="run", step=step, probe="AttentionProgress"))
    return probe.across(tidy(frames))["value"].tolist()


@pytest.mark.parametrize("explicit", [False, True])
def test_progress_is_zero_at_first_and_one_on_the_target(explicit: bool, view_of: Callable[..., View]) -> None:
    probe = AttentionProgress({"mine": BACK.float()}) if explicit else AttentionProgress(relations=("back",))
    target = torch.where(BACK.any(-1, keepdim=True), BACK.float(), uniform())
    patterns = [uniform(), 0.5 * uniform() + 0.5 * target, target]
    found = progress(view_of, patterns, probe)
    cosines = [
        torch.stack([torch.nn.functional.cosine_similarity(p[q], BACK[q].float(), dim=0) for q in range(1, LENGTH)])
        for p in patterns
    ]
    start, middle, _ = (float(cosine.mean()) for cosine in cosines)
    assert found == pytest.approx([0, (middle - start) / (1 - start), 1], abs=1e-5)


def test_a_head_that_moves_away_has_negative_progress_and_one_that_was_there_has_one(
    view_of: Callable[..., View], looking_back: Callable[[int, int], Tensor]
) -> None:
    probe = AttentionProgress()
    assert progress(view_of, [uniform(), looking_back(LENGTH, 0)], probe)[1] < 0
    assert progress(view_of, [looking_back(LENGTH, 1)] * 2, probe) == [1, 1]


@pytest.mark.parametrize(
    ("probe", "message"),
    [
        (AttentionProgress({"mine": torch.ones(2, 2)}), r"'mine' must be attention .* of 5 positions"),
        (AttentionProgress({"mine": -torch.ones(5, 5)}), "none below zero"),
        (AttentionProgress({"mine": torch.zeros(5, 5)}), "the target 'mine' is zero everywhere: no query has one"),
        (AttentionProgress(relations=("there",)), "no relation 'there'"),
    ],
)
def test_targets_that_do_not_fit_are_refused(
    probe: AttentionProgress, message: str, view_of: Callable[..., View]
) -> None:
    with pytest.raises(ValueError, match=message):
        probe.read(view_of(uniform().expand(2, 1, 1, -1, -1), {"back": BACK}))


def test_targets_and_relations_together_are_refused() -> None:
    with pytest.raises(ValueError, match="not both"):
        AttentionProgress({"mine": torch.eye(5)}, ("back",))


def test_the_progress_rows_have_no_interval(view_of: Callable[..., View]) -> None:
    (reading,) = AttentionProgress().read(view_of(uniform().expand(3, 1, 1, -1, -1), {"back": BACK}))
    frame = rows(reading, bootstrap_weights(3, 10)).assign(run="run", step=0, probe="AttentionProgress")
    table: pd.DataFrame = tidy([frame])
    assert "lo" not in AttentionProgress().across(table)
