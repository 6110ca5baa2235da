"""What is known of a run's probe batch: from its record, or nothing."""

import json
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from stagewise.checkpoints.run_folder import BATCH, RUN, TABLE, write
from stagewise.recipe import Recipe
from stagewise.reporting._measured import _known_of, axis_in, read_measured, write_batch
from stagewise.task import Batch
from stagewise.tasks import MarkovChain

TASK = MarkovChain(spans=(1, 1), length=3)


def known(batch: Batch, folder: Path) -> dict[str, Any]:
    write_batch(folder, batch)
    return _known_of(json.loads((folder / BATCH).read_text()))


def test_without_a_record_of_the_batch_nothing_is_outlined(
    small_folder: Path, one_onset: pd.DataFrame, tmp_path: Path
) -> None:
    shutil.copy(small_folder / RUN, tmp_path / RUN)
    write(tmp_path / TABLE, lambda partial: one_onset.to_parquet(partial, index=False))
    measured = read_measured(tmp_path)
    assert (dict(measured.relations), measured.first_query, measured.references) == ({}, 0, ())


def test_what_a_record_says_of_its_batch_needs_no_task(tmp_path: Path) -> None:
    batch = TASK.probe_batch(3, seed=0)
    outline = known(batch, tmp_path)
    assert outline["references"] == list(batch.references)
    assert outline["first_query"] == int(batch.scored[0].int().argmax())
    for name, mask in batch.relations.items():
        assert (outline["relations"][name] == mask[0].numpy()).all()


def test_a_relation_that_lies_elsewhere_in_every_sequence_has_no_outline(tmp_path: Path) -> None:
    tokens = torch.zeros(2, 3, dtype=torch.int64)
    still = torch.eye(3, dtype=torch.bool).expand(2, -1, -1)
    moving = torch.stack([torch.eye(3), torch.eye(3).flip(0)]).bool()
    batch = Batch(tokens, tokens, torch.ones(2, 3, dtype=torch.bool), {"still": still, "moving": moving})
    assert list(known(batch, tmp_path)["relations"]) == ["still"]


def test_a_run_that_was_trained_here_saw_so_many_sequences_times_positions(
    small_folder: Path, small_recipe: Recipe, one_onset: pd.DataFrame, tmp_path: Path
) -> None:
    shutil.copy(small_folder / RUN, tmp_path / RUN)
    write(tmp_path / TABLE, lambda partial: one_onset.to_parquet(partial, index=False))
    axis = axis_in(tmp_path, "tokens")
    assert axis is not None
    assert axis.tokens_at(3) == 3 * small_recipe.plan.batch_size * small_recipe.task.n_ctx
    given = axis_in(tmp_path, "tokens", tokens_per_step=5)
    assert given is not None
    assert (given.tokens_at(3), axis_in(tmp_path, "steps")) == (15, None)
