"""The exponent of N_pairs by batch size: known laws come back, and censored runs give bounds."""

import math
from pathlib import Path

import pandas as pd
import pytest

from stagewise.papers.emergence import figures
from stagewise.papers.emergence._recall_batches import PUBLISHED, exponents
from stagewise.papers.emergence.recipes import published_recall
from stagewise.papers.published import Result


def runs(power: dict[int, float]) -> pd.DataFrame:
    """Runs of 8 and 16 pairs, two seeds, whose steps are a power of the pairs by batch size."""
    rows = [
        {"batch_size": batch, "n_pairs": n, "seed": seed, "lo_50": (seed + 9) * n**k, "hi_50": (seed + 9) * n**k}
        for batch, k in power.items()
        for n in (8, 16)
        for seed in (0, 1)
    ]
    return pd.DataFrame(rows)


def test_the_exponent_of_each_batch_size_and_seed_comes_back() -> None:
    found = exponents(runs({8: 2.5, 128: 1.5}), 8, 16, "_50")
    assert found["exponent"].tolist() == pytest.approx([2.5, 2.5, 1.5, 1.5])
    assert not found["bound"].any()


def test_a_run_that_has_not_emerged_gives_the_least_exponent() -> None:
    times = runs({8: 2.0})
    times.loc[(times["n_pairs"] == 16) & (times["seed"] == 1), "hi_50"] = math.inf
    found = exponents(times, 8, 16, "_50")
    assert found["bound"].tolist() == [False, True]
    assert found["exponent"].tolist() == pytest.approx([2.0, 2.0])
    times["hi_50"] = math.inf
    assert exponents(times, 8, 16, "_50").empty


def test_the_published_exponent_is_that_of_its_law() -> None:
    assert math.log2(published_recall(16, 64) / published_recall(8, 64)) == pytest.approx(PUBLISHED)


def test_several_batch_sizes_are_a_figure_of_their_own(tmp_path: Path) -> None:
    axes = {"N_pairs": [2, 4], "N_tokens": [32], "batch": [4, 8], "seed": [0]}
    result: Result = figures.run(4, folder=tmp_path, grid=axes, budget=20, workers=1, progress=False)
    steps = result.numbers.query("quantity.str.startswith('steps to accuracy .5')")
    assert steps["ours"].tolist() == ["> 20"] * 4
    assert [ax.get_xlabel() for ax in result.figure.axes][1:] == ["N_pairs", "batch size, sequences"]


def test_batch_sizes_are_compared_at_one_number_of_tokens(tmp_path: Path) -> None:
    axes = {"N_pairs": [2, 4], "N_tokens": [16, 32], "batch": [4, 8], "seed": [0]}
    with pytest.raises(ValueError, match="this figure takes one N_tokens, got 16, 32"):
        figures.run(4, folder=tmp_path, grid=axes, budget=100, workers=1, progress=False)
