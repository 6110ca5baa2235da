"""Levels of stages: a convex fit beside what is known of it, and rows of several draws."""

import pytest
import torch

from stagewise.papers.incremental import _draws
from stagewise.papers.incremental._draws import _data, figure_draws, stage_levels
from stagewise.tasks import MarkovChain

pytestmark = pytest.mark.usefixtures("unchecked")

SMALL = MarkovChain(d_vocab=6, spans=(2, 1), length=8, temperature=0.5, n_sequences=None)


def test_counts_are_of_the_lags_of_each_group() -> None:
    batch = SMALL.sample(3, 0)
    counts, references = _data(SMALL, 3, 0, groups=2)
    row, position = (int(each[4]) for each in batch.scored.nonzero(as_tuple=True))
    last, before, third = (int(batch.tokens[row, position - lag]) for lag in range(3))
    expected = torch.zeros(12)
    expected[last] += 1
    expected[before] += 1
    expected[6 + third] += 1
    assert counts[4].tolist() == expected.tolist()
    assert len(references) == 2
    torch.testing.assert_close(references.exp().sum(-1), torch.ones(references.shape[:2]))


def test_the_best_model_of_all_groups_is_the_chain_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_draws, "SEQUENCES", 400)
    one, both = (stage_levels(SMALL, groups) for groups in (1, 2))
    assert both[-1] < 0.01
    assert one[-1] > 0.05
    assert both[0] > both[-1]


def test_every_level_has_its_interval_over_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_draws, "chain", lambda seed: MarkovChain(d_vocab=6, spans=(1, 1, 1), length=4, seed=seed))
    monkeypatch.setattr(_draws, "SEQUENCES", 20)
    numbers = figure_draws((0, 1, 2)).numbers
    levels, shares = numbers[:6], numbers[6:]
    assert (levels["remark"] == "3 draws").all()
    for row in levels.to_dict("records"):
        lo, hi = (float(end) for end in row["interval"].strip("[]").split(", "))
        assert lo <= float(row["ours"]) + 5e-3
        assert hi >= float(row["ours"]) - 5e-3
    assert shares["quantity"].str.startswith("share of draws below the published KL").sum() == 6
    assert set(shares["ours"]) <= {"0.00", "0.33", "0.67", "1.00"}
