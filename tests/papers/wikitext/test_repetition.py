"""Shares of windows that repeat: planted runs come back as the rows of their share; what cannot be run is refused."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from stagewise.checkpoints.run_folder import REPORT, read_table
from stagewise.papers.wikitext import repetition as wikitext_repetition
from stagewise.papers.wikitext.repetition import repetition
from stagewise.table import select

pytestmark = pytest.mark.usefixtures("unchecked")

STEPS = np.unique(np.geomspace(1, 5000, 40).round().astype(int))
INDUCTION = {0.0: {}, 0.3: {0: 700, 1: 2000}}
"""Share -> seed -> the step at which its induction head is half-way."""


def planted(case: Mapping[str, Any], *, folder: Path, sizes: Mapping[str, Any], progress: bool) -> pd.DataFrame:
    """A run whose induction head rises at its step, whose loss is that of its share and seed."""
    share, seed = case["repeating"], case["seed"]
    noise = 0.002 * np.random.default_rng(seed).standard_normal(len(STEPS))
    step = INDUCTION[share].get(seed)
    rises = {
        ("previous token", 0): 0.05 + 0.7 / (1 + (300 / STEPS) ** 6),
        ("induction", 1): np.full(len(STEPS), 0.05) if step is None else 0.05 + 0.6 / (1 + (step / STEPS) ** 6),
    }
    frames = [
        rows("AttentionTo", "along", values + noise, relation=relation, layer=layer, head=2)
        for (relation, layer), values in rises.items()
    ]
    frames.append(rows("Loss", "cross_entropy", 7 - STEPS / 1250 + share + seed / 10))
    for i, name in enumerate(("unigram", "bigram", "trigram")):
        frames.append(rows("LossAgainstReferences", "gap", np.full(len(STEPS), i - 1.0 + seed), reference=name))
        frames.append(rows("KLToReference", "kl", 1 + i - STEPS / 100 * i, reference=name))
    effect = rows("HeadAblation", "loss_change", np.full(len(STEPS), -0.25), kind="mean", layer=1, head=2)
    frames.append(effect.assign(lo=-0.3, hi=-0.2, control="head"))
    frames.append(effect.assign(value=9.0, control="random head"))
    return pd.concat(frames, ignore_index=True)


def rows(probe: str, quantity: str, values: np.ndarray, **axes: Any) -> pd.DataFrame:
    return pd.DataFrame({"step": STEPS, "value": values}).assign(run="run", probe=probe, quantity=quantity, **axes)


@pytest.fixture(scope="module")
def numbers() -> pd.DataFrame:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wikitext_repetition, "_table", planted)
        patch.setattr(wikitext_repetition, "_recipe", lambda *_: None)
        result = repetition(Path(), shares=(0.0, 0.3), seeds=2, progress=False)
    assert [len(ax.lines) for ax in result.figure.axes] == [2, 2]
    return result.numbers


def of(numbers: pd.DataFrame, start: str, share: str) -> str:
    ours: str = numbers.loc[
        numbers["quantity"].str.startswith(start) & numbers["quantity"].str.contains(share), "ours"
    ].item()
    return ours


def test_each_share_has_the_first_heads_of_its_seeds(numbers: pd.DataFrame) -> None:
    for seed, text in enumerate(of(numbers, "first induction head", "30%").split("; ")):
        name, step, lo, hi = text.replace("[", "").replace("]", "").replace(",", "").split()
        assert name == "L1H2"
        assert float(lo) <= INDUCTION[0.3][seed] <= float(hi)
        assert float(step) == pytest.approx(INDUCTION[0.3][seed], rel=0.05)
    assert of(numbers, "first induction head", " 0%") == "none, mass 0.05; none, mass 0.05"
    assert of(numbers, "first previous-token head", " 0%").startswith("L0H2 ")
    assert of(numbers, "loss change", "30%") == "-0.250 [-0.300, -0.200]; -0.250 [-0.300, -0.200]"
    assert of(numbers, "loss change", " 0%") == "none; none"


def test_losses_are_means_over_seeds_and_compared_seed_by_seed(numbers: pd.DataFrame) -> None:
    losses = numbers[numbers["quantity"].str.startswith("loss in the end, ")]
    assert losses["ours"].tolist() == ["3.050", "3.350"]
    assert losses["interval"].tolist() == ["[2.41, 3.69]", "[2.71, 3.99]"]
    assert of(numbers, "loss in the end less the bigram", "30%") == "0.500"
    change = numbers[numbers["quantity"].str.contains("seed by seed")]
    assert change["ours"].tolist() == ["0.300"]
    assert change["interval"].tolist() == [""]  # though the seeds differ
    assert of(numbers, "steps from which on the bigram", " 0%") == "98 to 122; 98 to 122"


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ({"shares": ()}, "at least one"),
        ({"shares": (0.1, 0.1)}, "each share of repeating windows once, .* got 0.1, 0.1"),
        ({"seeds": 0}, "take at least one, got 0"),
        ({"shares": (0.1, 1.5)}, "1.5"),
    ],
)
def test_what_cannot_be_run_is_refused_before_anything_trains(
    asked: dict[str, Any], reason: str, letters: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=reason):
        repetition(tmp_path, data=letters, tokenizer="plain", vocab_size=None, length=16, **asked)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_runs_lie_in_folders_of_their_own_and_are_not_made_twice(
    letters: str, few_sequences: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stagewise.analysis.report", lambda folder, **_: folder / "report.html")
    sizes: dict[str, Any] = {"data": letters, "tokenizer": "plain", "vocab_size": None, "length": 16, "steps": 6}
    result = repetition(tmp_path, shares=(0.0, 0.5), seeds=1, progress=False, **sizes)
    loss = select(read_table(tmp_path / "repeating=0.5-seed0"), "Loss", "cross_entropy")["value"].iloc[-1]
    assert of(result.numbers, "loss in the end, ", "50%") == f"{loss:.3f}"
    made = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.safetensors")}
    assert made
    for share in ("0", "0.5"):
        (tmp_path / f"repeating={share}-seed0" / REPORT).touch()  # that it has been drawn
    again = repetition(tmp_path, shares=(0.0, 0.5), seeds=1, progress=False, **sizes)
    pd.testing.assert_frame_equal(again.numbers, result.numbers)
    assert {path: path.stat().st_mtime_ns for path in made} == made
    with pytest.raises(ValueError, match="another recipe"):
        repetition(tmp_path, shares=(0.0, 0.5), seeds=1, progress=False, **{**sizes, "steps": 5})
