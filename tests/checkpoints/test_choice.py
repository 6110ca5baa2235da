"""Which checkpoints of a series are taken."""

from pathlib import Path

import numpy as np
import pytest
import torch

from stagewise.architectures import full
from stagewise.checkpoints._choice import chosen_steps, continued
from stagewise.checkpoints._weight_files import Contents
from stagewise.checkpoints.audit import audit
from stagewise.checkpoints.findings import Kind
from stagewise.checkpoints.names import Coordinates
from stagewise.checkpoints.series import CheckpointSeries, find, open_series
from stagewise.checkpoints.sources import STEP, Entry, Source
from stagewise.models import build

PYTHIA = (0, *(2**k for k in range(10)), *range(1000, 144000, 1000))


@pytest.mark.parametrize("number", [2, 3, 20, 100, 153])
def test_a_number_of_checkpoints_is_that_many_with_both_ends_evenly_in_log(number: int) -> None:
    chosen = chosen_steps(PYTHIA, number, "pythia")
    assert len(chosen) == number
    assert (chosen[0], chosen[-1]) == (0, 143000)
    if number == 20:
        gaps = np.diff(np.log1p(chosen))
        assert gaps.max() < 1.7  # an even gap is 0.62, the widest one between two checkpoints ln 2
        assert sum(step <= 512 for step in chosen) == 11


def test_more_than_there_are_is_all() -> None:
    assert chosen_steps(PYTHIA, 500, "pythia") == list(PYTHIA)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0:4000:1000", [0, 1000, 2000, 3000, 4000]),
        ("0:2000:800", [0, 1000, 2000]),
        ("141500:", [142000, 143000]),
        (":4", [0, 1, 2, 4]),
        ("0, 512,1000", [0, 512, 1000]),
        ("143000", [143000]),
    ],
)
def test_a_text_names_steps(text: str, expected: list[int]) -> None:
    assert chosen_steps(PYTHIA, text, "pythia") == expected


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ("0,3", "pythia has no step 3; its steps are 154 from 0 to 143000"),
        ("600:900", "pythia has no step from 600 to 900"),
        ("early", "as 0:10000:1000"),
        ("5-7", "as 0:10000:1000"),
        (1, "the first and the last one at least, got 1"),
        ([], "`steps` names none"),
    ],
)
def test_what_chooses_nothing_is_refused(choice: str | int | list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        chosen_steps(PYTHIA, choice, "pythia")


def test_a_series_is_opened_at_the_chosen_steps(small_folder: object) -> None:
    assert open_series(str(small_folder), steps=2).steps == (0, 6)
    assert open_series(str(small_folder), steps="0:4:2").steps == (0, 2, 4)


def _states(*numbers: float) -> list[tuple[int, dict[str, torch.Tensor]]]:
    architecture = full(n_layers=1, n_heads=2, d_vocab=8, n_ctx=6)
    weights = [dict(build(architecture).state_dict()) for _ in numbers]
    return [
        (10 * k, {name: torch.full_like(weight, number) for name, weight in of.items()})
        for k, (number, of) in enumerate(zip(numbers, weights, strict=True))
    ]


def _first_number(series: CheckpointSeries, step: int) -> float:
    return float(next(iter(series.weights(step).values())).flatten()[0])


def test_a_post_training_goes_on_where_its_base_ended() -> None:
    architecture = full(n_layers=1, n_heads=2, d_vocab=8, n_ctx=6)
    series = open_series(_states(3.0, 4.0, 5.0), start=_states(1.0, 2.0, 3.0), architecture=architecture.config)
    assert series.steps == (0, 10, 20, 30, 40)
    assert [_first_number(series, step) for step in series.steps] == [1, 2, 3, 4, 5]
    assert series.source is not None
    assert series.source.begins == 20
    assert [entry.label for entry in series.source.entries][:3] == [f"models in memory/item {k}" for k in range(3)]
    alone = open_series(_states(3.0, 4.0), architecture=architecture.config)
    assert alone.source is not None
    assert (alone.source.begins, alone.steps) == (None, (0, 10))


def test_tokens_count_on_where_both_are_known_and_the_record_of_the_trainer_which_does_not_is_left() -> None:
    def source(name: str, *seen: int | None) -> Source:
        entries = [
            Entry(f"step{k}", Coordinates(k, tokens), lambda: Contents({}), lambda: None, record=lambda: {STEP: 7})
            for k, tokens in enumerate(seen)
        ]
        return Source(name, tuple(entries))

    both = continued(source("base", 0, 100), source("post", 0, 30, None))
    assert [entry.at for entry in both.entries] == [(0, 0, ""), (1, 100, ""), (2, 130, ""), (3, None, "")]
    assert [entry.recorded for entry in both.entries] == [{STEP: 7}, {STEP: 7}, {}, {}]
    assert both.name == "post"


@pytest.mark.parametrize("tied", [False, True])
def test_tokens_that_a_post_training_added_are_left_out_of_its_embeddings_alone(tmp_path: Path, tied: bool) -> None:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(vocab_size=13, n_positions=16, n_embd=16, n_layer=1, n_head=2, tie_word_embeddings=tied)
    model = GPT2LMHeadModel(config).eval()
    model.save_pretrained(tmp_path / "base")
    model.resize_token_embeddings(14, pad_to_multiple_of=16)  # as wide as the model is, and as many as its positions
    model.save_pretrained(tmp_path / "post" / "checkpoint-5")
    series = open_series(tmp_path / "post", start=tmp_path / "base")
    tokens = torch.arange(13)[None]
    with torch.no_grad():
        predicted = series.model(5)(tokens)
        torch.testing.assert_close(predicted, model(tokens).logits[..., :13])
    assert series.architecture.n_outputs == 13
    assert series.source is not None
    assert series.source.names == ("3 tokens of post that base has not are left out",)
    assert series.weights(5)["transformer.wpe.weight"].shape == (16, 16)


def test_the_steps_of_a_base_and_of_what_comes_after_it_are_no_one_schedule(tmp_path: Path) -> None:
    for folder, steps in (("base", (0, 1000, 2000)), ("post", (1, 2, 3))):
        for step in steps:
            (tmp_path / folder / f"checkpoint-{step}").mkdir(parents=True)
            torch.save({"w": torch.full((2,), float(step))}, tmp_path / folder / f"checkpoint-{step}" / "model.pt")
    (tmp_path / "base" / "checkpoint-1000").rename(tmp_path / "base" / "iter-1000")
    found = find(tmp_path / "post", start=tmp_path / "base")
    kinds = [one.kind for one in audit(found, weights=False).findings]
    assert not {Kind.MISSING_STEP, Kind.OTHER_NAMES, Kind.OUT_OF_ORDER, Kind.REPEATED_STEP} & {*kinds}
