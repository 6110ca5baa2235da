"""Figure 10 on a small text: entropies by rate, and that of the text."""

import math
from pathlib import Path

import pandas as pd
import pytest
import torch

from stagewise.checkpoints.series import open_series
from stagewise.papers.scan_and_snap._wikitext_model import BLOCK, Baseline
from stagewise.papers.scan_and_snap.figure_10 import SIZES, figure_10, text_entropy

pytestmark = pytest.mark.usefixtures("unchecked")


@pytest.mark.slow
def test_every_rate_has_its_run_and_its_row(letters: str, tmp_path: Path) -> None:
    result = figure_10(tmp_path, data=letters, steps=1, seeds=1, progress=False)
    table = pd.read_csv(tmp_path / "entropy.csv")
    assert table.groupby("rate")["seed"].nunique().to_dict() == dict.fromkeys(SIZES["small"].rates, 1)
    means = table.groupby("rate")["entropy"].mean()
    assert result.numbers["ours"].astype(float).tolist() == pytest.approx(means.tolist(), abs=1e-3)
    assert not list(tmp_path.glob("**/*.safetensors"))
    figure_10(tmp_path / "saved", data=letters, steps=1, seeds=1, checkpoints=2, progress=False)
    for rate in SIZES["small"].rates:
        series = open_series(tmp_path / "saved" / f"rate={rate:g}-seed=1")
        assert (series.steps, series.architecture.n_heads) == ((0, 1), 1)


@pytest.mark.slow
def test_two_processes_give_the_same_numbers(letters: str, tmp_path: Path) -> None:
    one, two = (
        figure_10(tmp_path / str(workers), data=letters, steps=1, seeds=2, workers=workers, progress=False).numbers
        for workers in (1, 2)
    )
    pd.testing.assert_frame_equal(one, two)


def test_the_entropy_of_uniform_attention_is_that_of_the_mean_over_positions() -> None:
    model = Baseline(8)
    with torch.no_grad():
        for name, weights in model.named_parameters():
            if "in_proj" in name:
                weights.zero_()
    rows = torch.randint(8, (2 * BLOCK + 1, 3), generator=torch.Generator().manual_seed(0))
    uniform = sum(math.log(n) for n in range(1, BLOCK + 1)) / BLOCK
    assert text_entropy(model, rows) == pytest.approx(uniform, abs=1e-5)
    assert text_entropy(model, rows, n_blocks=1) == pytest.approx(uniform, abs=1e-5)
