"""Scan and Snap's experiments against the recorded numbers: the replay exactly, fresh seeds within their spread."""

import functools
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from stagewise.papers.scan_and_snap import _synthetic as experiment
from stagewise.papers.scan_and_snap._synthetic import CELL, attention_by_class, distinct_entropy
from stagewise.papers.scan_and_snap.yz_training import Rates
from stagewise.papers.tasks import syn_medium, syn_small
from stagewise.papers.theory.scan_and_snap import growth_factor

pytestmark = pytest.mark.usefixtures("unchecked")

TASK = syn_small()
RECORDED = 0.001
"""Nats, in the mean and in the standard deviation of a cell: the recorded numbers have three decimals."""

SLOW, FAST = Rates(y=1.0, z=1.0), Rates(y=10.0, z=1.0)


@functools.cache
def figure_6(n_queries: int, published: bool) -> tuple[pd.DataFrame, pd.DataFrame]:
    return experiment.figure_6_runs((n_queries,), published=published, progress=False)


def entropies(n_queries: tuple[int, ...], published: bool = True) -> pd.DataFrame:
    return experiment.cells(pd.concat(figure_6(n, published)[0] for n in n_queries))


def attention_through_training(rates: list[Rates], seed: int = 2, optimiser: str = "sgd") -> dict[int, torch.Tensor]:
    moments = experiment.moments_of_syn_small(rates, seed, optimiser)
    return {m.step: attention_by_class(TASK, m.weights.z) for m in moments}


def test_the_replayed_attention_of_syn_small_is_the_one_in_the_notes() -> None:
    c = {step: by_run[0, 0] for step, by_run in attention_through_training([SLOW]).items()}
    dominant = {0: 0.0645, 4: 0.0660, 8: 0.0845, 10: 0.0999, 48: 0.2005, 100: 0.2015}
    common = {0: 0.0645, 4: 0.0643, 8: 0.0596, 10: 0.0558, 48: 0.0363, 100: 0.0359}
    assert {step: c[step][19].item() for step in dominant} == pytest.approx(dominant, abs=1e-4)
    assert {step: c[step][:10].mean().item() for step in common} == pytest.approx(common, abs=1e-4)


def test_the_replayed_growth_factor_of_syn_small_is_the_one_in_the_notes() -> None:
    moments = experiment.moments_of_syn_small([SLOW])
    z = {m.step: m.weights.z[0, TASK.queries[0], 19].item() for m in moments}
    recorded = {4: 1.046, 8: 1.712, 10: 2.421, 48: 12.90, 100: 13.13}
    assert {step: growth_factor(z[step], z[0]).item() for step in recorded} == pytest.approx(recorded, rel=1e-3)


def test_attention_freezes_after_the_phase_transition() -> None:
    c = {step: by_run[0, 0] for step, by_run in attention_through_training([SLOW]).items()}
    recorded = {(8, 12): 0.073, (30, 40): 0.017, (40, 50): 0.006, (50, 100): 0.003}
    change = {(a, b): (c[a] - c[b]).abs().sum().item() / 2 for a, b in recorded}
    assert change == pytest.approx(recorded, abs=1e-3)


@pytest.mark.one_of(3)
@pytest.mark.parametrize("seed", [2, 3, 4])
def test_frequent_distinct_tokens_win_and_a_larger_ratio_ends_denser(seed: int) -> None:
    # Check T10.
    steps = attention_through_training([SLOW, FAST], seed)
    own = steps[100].gather(2, TASK.distinct_tokens.expand(2, -1, -1))
    assert (own.diff(dim=2) > 0).all()
    assert (steps[100][..., :10].sum(-1) < steps[0][..., :10].sum(-1)).all()
    sparse, dense = distinct_entropy(TASK, steps[100]).tolist()
    assert sparse == pytest.approx(1.93, abs=0.03)
    assert dense == pytest.approx(2.08, abs=0.04)


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [10, 20])
def test_adam_attends_to_more_frequent_tokens_at_larger_rates(seeds: int) -> None:
    # Check T11.
    rates = [Rates(rate, rate) for rate in (0.1, 0.5, 1.0)]
    winners = []
    for seed in range(seeds):
        *_, last = experiment.moments_of_syn_small(rates, seed, "adam")
        c = attention_by_class(TASK, last.weights.z)
        winners.append(c.gather(2, TASK.distinct_tokens.expand(3, -1, -1))[:, 0].argmax(1))
    for rate, allowed in enumerate(((2, 3), (4, 5, 6), (8, 9))):
        assert sum(int(winner[rate]) in allowed for winner in winners) >= 0.9 * seeds


def test_entropy_of_the_law_is_the_recorded_one_and_recall_starts_as_a_step() -> None:
    task = syn_medium(3)
    z = torch.zeros(1, task.d_vocab, task.d_vocab, dtype=torch.float64)
    assert distinct_entropy(task, attention_by_class(task, z)).item() == pytest.approx(2.151282, abs=1e-6)
    uniform = 1 / task.d_vocab
    assert experiment.recall(task, z, [0.99 * uniform, 1.01 * uniform]).tolist() == [[1.0, 0.0]]


def test_recall_counts_the_distinct_tokens_of_all_classes_of_a_query() -> None:
    task = syn_medium(1)
    z = torch.zeros(1, task.d_vocab, task.d_vocab)
    z[0, task.queries[0], task.distinct_tokens[0, :4]] = 3.0
    assert experiment.recall(task, z, [1.5 / task.d_vocab]).item() == pytest.approx(4 / 20)


@pytest.mark.slow
@pytest.mark.parametrize("n_queries", [1, 5])
def test_the_replay_of_figure_6_agrees_with_every_recorded_cell(n_queries: int, scan_data: Path) -> None:
    # Check T6.
    recorded = pd.read_csv(scan_data / "fig6_entropy.csv").query(f"num_last == {n_queries}")
    both = entropies((n_queries,)).merge(recorded, on=CELL, suffixes=("", "_recorded"))
    assert len(both) == 16
    assert (both["entropy_mean"] - both["entropy_mean_recorded"]).abs().max() < RECORDED
    assert (both["entropy_std"] - both["entropy_pm"]).abs().max() < RECORDED


@pytest.mark.slow
@pytest.mark.parametrize("n_queries", [1, 5])
def test_the_replayed_recall_agrees_with_the_reference(n_queries: int, scan_data: Path) -> None:
    # Check T12.
    recorded = pd.read_csv(scan_data / "recall_threshold_replay.csv").query(f"num_last == {n_queries}")
    _, runs = figure_6(n_queries, True)
    found = runs.groupby([*CELL, "threshold"], as_index=False)["recall"].mean()
    both = found.merge(recorded, on=["num_last", "eta_z", "ratio", "threshold"])
    assert len(both) == len(recorded)
    assert (both["recall"] - both["recall_mean"]).abs().max() < 0.01


@pytest.mark.slow
def test_fresh_seeds_agree_with_the_recorded_cells_within_their_spread(scan_data: Path) -> None:
    # Check T6'.
    recorded = pd.read_csv(scan_data / "fig6_entropy.csv")
    both = entropies((1, 5), published=False).merge(recorded, on=CELL, suffixes=("", "_recorded"))
    difference = both["entropy_mean"] - both["entropy_mean_recorded"]
    z = difference / np.sqrt((both["entropy_std"] ** 2 + both["entropy_pm"] ** 2) / 10)
    assert np.sqrt((z**2).mean()) <= 1.5
    assert z.abs().max() <= 5
    assert difference[both["entropy_pm"] <= 0.03].abs().max() <= 0.035


@pytest.mark.slow
def test_fresh_seeds_agree_with_the_reference_recall(scan_data: Path) -> None:
    # Check T12.
    recorded = pd.read_csv(scan_data / "recall_threshold_replay.csv").query("num_last == 5")
    found = figure_6(5, False)[1].groupby([*CELL, "threshold"], as_index=False)["recall"].mean()
    both = found.merge(recorded, on=["num_last", "eta_z", "ratio", "threshold"])
    assert len(both) == len(recorded)
    assert (both["recall"] - both["recall_mean"]).abs().max() < 0.06


@pytest.mark.slow
def test_the_trends_of_figure_6_hold() -> None:
    # Check T7.
    wide = entropies(experiment.N_QUERIES).pivot(index=["num_next", "eta_z"], columns="ratio", values="entropy_mean")
    falls = wide.groupby("num_next").apply(lambda rows: (rows.diff().iloc[1:] < 0).all())
    assert falls.to_numpy().sum() == 16
    alone = wide.index.get_level_values("num_next") == 2
    assert (wide[2] < wide[1])[~alone].sum() == 12
    assert (wide[2] > wide[1])[alone].sum() == 4
    assert ((wide[5] > wide[2]) & (wide[10] > wide[5])).sum() >= 13


def test_a_size_that_figure_6_does_not_have_is_refused() -> None:
    with pytest.raises(ValueError, match="1, 3, 5 or 10 query tokens, got 2"):
        experiment.figure_6_runs((1, 2))
