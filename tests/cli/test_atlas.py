"""`stagewise series atlas`: a family that trained on text, measured and on one page."""

import json
from pathlib import Path

import pandas as pd
import pytest
import torch
from typer.testing import CliRunner

from stagewise.checkpoints.suites import suites
from stagewise.cli._atlas import names_of
from stagewise.cli.app import app
from tests.fixtures.family import SIZES, TOKENS_PER_STEP, letters, train_family

PROBES = ("Loss", "AttentionTo", "HeadSpecialisation", "InContextLearning")


def call(folder: Path, sizes: str, seeds: str, *more: str) -> str:
    named = [f"{folder}/{{size}}-{{seed}}", "--sizes", sizes, "--seeds", seeds, "--out", str(folder / "atlas")]
    counted = ["--tokens-per-step", str(TOKENS_PER_STEP), "--quiet"]
    result = CliRunner().invoke(app, ["series", "atlas", *named, *counted, *more])
    assert result.exit_code == 0, result.output
    return result.output


def test_two_sizes_are_measured_and_their_page_and_data_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    train_family(tmp_path, ("16", "32"), (0,), checkpoints=6, last=8)
    printed = call(tmp_path, "16,32", "0", "--only", "Loss", "--checkpoints", "5")
    assert f"report: {tmp_path / 'atlas' / 'report.html'}" in printed
    data = json.loads((tmp_path / "atlas" / "atlas.json").read_text())
    assert (data["format"], data["axis"], data["sizes"]) == (1, "tokens", ["16", "32"])
    assert [(run["run"], run["size"], run["transitions"]) for run in data["runs"]] == [
        ("16-0", "16", []),
        ("32-0", "32", []),
    ]
    assert {"size", "run", "event", "time", "lo", "hi", "loss"} <= {*pd.read_parquet(tmp_path / "atlas/atlas.parquet")}


@pytest.mark.slow
def test_three_sizes_of_three_seeds_are_told_in_tokens_and_the_larger_the_lower_the_loss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    train_family(tmp_path, SIZES, (0, 1, 2), checkpoints=20, last=600)
    torch.save(letters()[: 32 * 64].view(32, 64), tmp_path / "text.pt")
    only = [each for name in PROBES for each in ("--only", name)]
    printed = call(tmp_path, ",".join(SIZES), "0,1,2", "--tokens", str(tmp_path / "text.pt"), *only)
    data = json.loads((tmp_path / "atlas" / "atlas.json").read_text())
    sizes_of = pd.DataFrame(data["over_seeds"]).groupby("event")["size"].nunique()
    in_common = [name for name in sizes_of[sizes_of > 1].index if f"{name[1:]}: " in printed]
    assert bool(in_common) == (sizes_of > 1).any() == ("tokens (loss " in printed)
    assert in_common or "no event is common to two sizes" in printed.lower()
    losses = [[run["loss"] for run in data["runs"] if run["size"] == size] for size in SIZES]
    assert [len(each) for each in losses] == [3, 3, 3]
    assert min(losses[0]) > max(losses[1]) > min(losses[1]) > max(losses[2])
    events = pd.read_parquet(tmp_path / "atlas" / "atlas.parquet")
    assert (events["time"].between(events["lo"], events["hi"]) & (events["time"] <= 600 * TOKENS_PER_STEP)).all()
    assert sum(row["seeds"] for row in data["over_seeds"]) == len(events)
    heads = pd.DataFrame(data["heads"]).groupby("size").agg({"heads": "sum", "of": "max"})
    assert heads["heads"].to_dict() == pytest.approx(heads["of"].to_dict())
    page = (tmp_path / "atlas" / "report.html").read_text(encoding="utf8")
    titles = ("What came when", "In tokens and in loss", "The loss", "Heads by role", "The seeds&#x27; spread")
    assert all(title in page for title in titles)


@pytest.mark.parametrize(
    ("family", "seeds", "why"),
    [
        ("zebra", (), "no suite is known as 'zebra': give the names of the models with {size} in them"),
        ("mine/{size}", ("1",), "mine/{size} has no place for --seeds: write {seed}"),
        ("mine/{size}-{seed}", (), "has a place for seeds: give them"),
    ],
)
def test_a_family_whose_models_cannot_be_named_is_refused(family: str, seeds: tuple[str, ...], why: str) -> None:
    with pytest.raises(ValueError, match=why.replace("{", r"\{")):
        names_of(family, ("1b",), seeds)


def test_a_known_suite_is_named_by_its_models() -> None:
    assert names_of("pythia", ("14m",), ()) == {"14m": ["EleutherAI/pythia-14m"]}


def test_the_command_lists_them() -> None:
    result = CliRunner().invoke(app, ["series", "suites"])
    assert "HuggingFaceTB/SmolLM3-3B-checkpoints" in result.output
    assert "2,359,296 tokens a step; stage1 and stage2 and stage3 are one count" in result.output
    assert len(json.loads(CliRunner().invoke(app, ["series", "suites", "--json"]).output)) == len(suites())
