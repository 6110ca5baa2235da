"""The recipes of `docs/other-tools.md` hold the table's scores and the answer, as each tool itself reads them."""

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import stagewise
from stagewise import answer, recipe_for, schedules, train
from stagewise.checkpoints.logged_curves import read_log
from stagewise.checkpoints.run_folder import TABLE, write
from stagewise.checkpoints.series import CheckpointSeries
from stagewise.findings import Stages
from stagewise.plot.maps import patterns
from stagewise.probes import MeanPattern
from stagewise.saved_findings import save_stages
from stagewise.table import select, tidy
from stagewise.tasks import MarkovChain

PAGE = Path(__file__).parents[2] / "docs" / "other-tools.md"
BEGINNING, WANDB, TENSORBOARD, XARRAY, DEVINTERP, HEADS, PATH = re.findall(
    r"```py\n(.*?)```", PAGE.read_text(encoding="utf8"), re.DOTALL
)
HEAD = "AttentionTo/mass/induction/1/1"

pytestmark = pytest.mark.docs


@pytest.fixture(autouse=True)
def folder(both: pd.DataFrame, stages_of_both: Stages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write(tmp_path / "runs" / "markov" / TABLE, tidy([both]).to_parquet)
    save_stages(stages_of_both, tmp_path / "runs" / "markov")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def induction(both: pd.DataFrame) -> pd.DataFrame:
    return select(both, "AttentionTo", "mass", layer=1, head=1, relation="induction")


def test_tensorboard_reads_the_scores_and_the_transitions(induction: pd.DataFrame, stages_of_both: Stages) -> None:
    reader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    exec(BEGINNING + TENSORBOARD, {})
    curve = read_log("logs/markov").query("quantity == @HEAD")
    assert curve["step"].tolist() == induction["step"].tolist()
    assert curve["value"].tolist() == pytest.approx(induction["value"].tolist(), rel=1e-6)  # float32
    texts = reader.EventAccumulator("logs/markov").Reload().Tensors("transitions/text_summary")
    starts = stages_of_both.table["start"].tolist()[1:]
    assert [each.step for each in texts] == starts
    assert [each.tensor_proto.string_val[0].decode() for each in texts] == answer(stages_of_both)[1 : len(starts) + 1]


def test_an_array_has_the_axes_of_its_quantity(induction: pd.DataFrame, stages_of_both: Stages) -> None:
    xarray = pytest.importorskip("xarray")
    exec(BEGINNING + XARRAY, {})
    with xarray.open_dataarray("mass.nc", engine="scipy") as data:
        curve = data.sel(layer=1, head=1, relation="induction").to_series().dropna()
        assert curve.index.tolist() == induction["step"].tolist()
        assert curve.tolist() == induction["value"].tolist()
        assert data.attrs["answer"] == " ".join(answer(stages_of_both))


def test_wandb_gets_a_run_that_stays_here(
    folder: Path, stages_of_both: Stages, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_CONFIG_DIR", str(folder / "settings"))
    exec(BEGINNING + WANDB, {})
    (run,) = (folder / "wandb").glob("offline-run-*/*.wandb")
    assert HEAD.encode() in run.read_bytes()
    assert answer(stages_of_both)[1].encode() in run.read_bytes()
    (table,) = (folder / "wandb").rglob("*.table.json")
    starts = [row[0] for row in pd.read_json(table, typ="series")["data"]]
    assert starts == stages_of_both.table["start"].tolist()[1:]


@pytest.fixture
def run(folder: Path) -> CheckpointSeries:
    recipe = recipe_for(MarkovChain)
    plan = dataclasses.replace(recipe.plan, steps=16, batch_size=8, save=schedules.linear(every=8, stop=16))
    return train(dataclasses.replace(recipe, plan=plan), folder / "runs" / "markov", progress=False)


def test_devinterp_samples_each_checkpoint_of_a_run(run: CheckpointSeries) -> None:
    pytest.importorskip("devinterp")
    short = DEVINTERP.replace('"num_chains": 4, "num_draws": 200', '"num_chains": 2, "num_draws": 4')
    names: dict[str, Any] = {}
    exec(BEGINNING + short, names)
    batch, found = names["batch"], names["coefficients"]
    for step in found:
        logits = run.model(step)(batch.tokens)[:, :-1].flatten(0, 1)
        loss = torch.nn.functional.cross_entropy(logits, batch.tokens[:, 1:].flatten())
        assert float(found[step].init_loss) == pytest.approx(loss.item(), rel=0.05)  # of batches that are drawn


def test_circuitsvis_draws_the_attention_of_the_last_checkpoint(run: CheckpointSeries) -> None:
    names: dict[str, Any] = {"stagewise": stagewise}
    exec(HEADS.replace("attention_heads(cache", "view = attention_heads(cache"), names)
    shown = re.search(r"AttentionHeads,\s*(\{.*\})\s*\)\s*</script>", names["view"].cdn_src, re.DOTALL)
    assert shown is not None
    table = stagewise.measure(run[-1:], [MeanPattern()], MarkovChain().probe_batch(1, seed=0), progress=False)
    drawn = np.array(json.loads(shown[1])["attention"])
    np.testing.assert_allclose(drawn, patterns(table, run.steps[-1], 0), atol=1e-5)


def test_the_path_of_three_checkpoints_keeps_their_distances(run: CheckpointSeries) -> None:
    names: dict[str, Any] = {"stagewise": stagewise, "series": run}
    exec(PATH, names)
    for i, j in ((0, 1), (1, 2), (0, 2)):
        expected = np.linalg.norm(names["weights"][i] - names["weights"][j])
        assert np.linalg.norm(names["path"][i] - names["path"][j]) == pytest.approx(expected, rel=1e-3)
