"""Series that tools saved: two ways are tried whole, a wrong file is told apart, and the page counts."""

import dataclasses
from pathlib import Path

import pytest
import torch

from evidence.saved_series.models import Model
from evidence.saved_series.page import page
from evidence.saved_series.trial import Row, tried
from evidence.saved_series.way import Way, each
from evidence.saved_series.ways import WAYS

BY_NAME = {(way.tool, way.name): way for way in WAYS}


@pytest.mark.parametrize(
    "way", [("torch.save", "a state dict of DataParallel"), ("peft", "adapters, by `save_pretrained`")]
)
def test_a_series_has_the_loss_of_its_tools_own_reload(way: tuple[str, str]) -> None:
    row = tried(BY_NAME[way], "Llama")
    assert (row.verdict, row.family) == ("equal", "Llama")
    assert float(row.said) < 1e-5


def test_a_series_that_cannot_be_opened_ends_in_its_line() -> None:
    row = tried(BY_NAME["peft", "DoRA"], "Llama")
    assert row.verdict == "refused"
    assert row.said.startswith("run/checkpoint-0 holds an adapter of the kind LORA with use_dora: save ")


def test_other_weights_and_other_steps_are_different() -> None:
    bare = BY_NAME["torch.save", "a state dict"]

    def save(model: Model, folder: Path, step: int) -> None:
        state = {name: 2 * weight for name, weight in model.state_dict().items()}
        torch.save(state, folder / f"step_{step}.pt")

    def load(folder: Path, step: int, model: Model) -> Model:
        state = torch.load(folder / f"step_{step}.pt")
        model.load_state_dict({name: weight / 2 for name, weight in state.items()})
        return model

    twice = tried(dataclasses.replace(bare, write=each(save), reload=load), "GPT2")
    assert twice.verdict == "different"
    assert float(twice.said) > 1e-2
    fewer = tried(dataclasses.replace(bare, steps=bare.steps[1:]), "GPT2")
    assert (fewer.verdict, fewer.said) == ("different", "steps [0, 2, 4], saved were [2, 4]")


def test_there_are_forty_ways_by_ten_writers_and_a_hundred_and_twenty_series() -> None:
    assert len(BY_NAME) == len(WAYS) >= 40
    assert len({way.tool for way in WAYS}) >= 10
    assert sum(len(way.families) for way in WAYS) >= 120


def test_the_page_has_a_row_for_each_way_and_verdict() -> None:
    rows = [
        Row("a file", "torch.save", "GPT2", "equal", "1e-07"),
        Row("a file", "torch.save", "Llama", "equal", "3e-07"),
        Row("DoRA", "peft", "Llama", "refused", "run | holds it"),
    ]
    written = page(rows)
    assert "**3 series, 2 ways, 2 writers: 2 equal, 1 refused, 0 different, 0 traceback.**" in written
    assert "| torch.save | a file | GPT2, Llama | equal | 3e-07 |" in written
    assert r"| peft | DoRA | Llama | refused | run \| holds it |" in written


def test_a_way_has_a_default_for_what_a_person_says() -> None:
    way = Way("a", "b", lambda model, folder: None, lambda folder, step, model: model)
    assert way.options(Path(), None) == {}
