"""Generalisation: sequences beyond the trained length and of other chains, and a row for each model and kind."""

import dataclasses
from pathlib import Path

import pytest
import torch

from stagewise.papers.incremental import _generalisation as generalisation
from stagewise.papers.incremental._generalisation import BEYOND, FACTORS, TRAINED, batches_of, recipe_of
from stagewise.recipe import Recipe


def short(depth: int, positions: str, seed: int, setting: str = "small") -> Recipe:
    """Return the run of two updates."""
    made = recipe_of(depth, positions, seed, setting)
    return dataclasses.replace(made, plan=dataclasses.replace(made.plan, steps=2, batch_size=8, save=(0, 2)))


def test_sequences_are_beyond_the_trained_length_or_of_a_chain_with_other_importances() -> None:
    recipe = recipe_of(1, "rotary", seed=0)
    batches, trained = batches_of(recipe), recipe.task.n_ctx
    assert recipe.architecture.config["n_ctx"] == 2 * trained
    assert batches[BEYOND].scored.any(0).tolist() == [position >= trained for position in range(2 * trained)]
    assert not torch.equal(batches[TRAINED].tokens, batches["I(1) counts more"].tokens)
    exact = {name: generalisation._exact(recipe, batch) for name, batch in batches.items()}
    assert exact[TRAINED] == exact[BEYOND] == 0
    assert min(exact[name] for name in FACTORS) > 0.1


def test_every_model_has_a_row_for_each_kind_of_sequences(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generalisation, "recipe_of", short)
    monkeypatch.setattr(generalisation, "DEPTHS", (1, 2))
    monkeypatch.setattr(generalisation, "SEQUENCES", 4)
    found = generalisation.figure_generalisation(tmp_path, seeds=(0,), progress=False)
    assert len(found.numbers) == 2 * 2 * 4 + 2
    assert "2 layers, rotary positions: KL to the law, beyond the trained length, nats" in [*found.numbers["quantity"]]
    assert found.figure.axes[0].get_yscale() == "log"
