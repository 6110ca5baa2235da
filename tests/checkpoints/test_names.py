"""Names of checkpoints: every pattern seen in the wild, and what is no checkpoint."""

import numpy as np
import pytest
import torch

from stagewise.checkpoints.names import LARGEST, Coordinates, coordinates, parse, parse_file, parse_within, whole

NAMES = {
    "step1000": Coordinates(1000),
    "step0": Coordinates(0),
    "checkpoint-1000": Coordinates(1000),
    "checkpoint_0050000": Coordinates(50_000),
    "step_360": Coordinates(360),
    "stage1-step-40000": Coordinates(40_000, None, "stage1"),
    "stage1-step101000-tokens424B": Coordinates(101_000, 424 * 10**9, "stage1"),
    "stage2-ingredient1-step11931-tokens100B": Coordinates(11_931, 100 * 10**9, "stage2-ingredient1"),
    "step-480k-token-1007B": Coordinates(480_000, 1007 * 10**9),
    "seed_0-step_20k": Coordinates(20_000, None, "seed_0"),
    "iter_500": Coordinates(500),
    "ckpt-7": Coordinates(7),
    "ckpt_1M": Coordinates(10**6),
    "TinyLlama-1.1B-intermediate-step-240k-503b": Coordinates(240_000, 503 * 10**9, "TinyLlama-1.1B-intermediate"),
    "step-715k-1.5T": Coordinates(715_000, 1500 * 10**9),
    "step-1195k-token-2.5T": Coordinates(1_195_000, 2500 * 10**9),
    "epoch=3-step=400-v1": Coordinates(400),
    "epoch_3_step_400": Coordinates(400),
}


@pytest.mark.parametrize("name", NAMES)
def test_a_known_pattern_is_read(name: str) -> None:
    assert parse(name) == NAMES[name]


@pytest.mark.parametrize(
    "name", ["main", "v1.0", "step", "footstep", "step10-final", "step10-3", "fp16", "refs/pr/1", ""]
)
def test_other_names_are_no_checkpoints(name: str) -> None:
    assert parse(name) is None


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("model_300", 300),
        ("model.300", 300),
        ("run-1-300", 300),
        ("SoLU_2L_v10_000300", 300),
        ("step-00000012", 12),
        ("7", 7),
    ],
)
def test_a_files_step_is_the_number_at_its_end(name: str, step: int) -> None:
    found = parse_file(name)
    assert found is not None
    assert found.step == step


@pytest.mark.parametrize(
    "name", ["epoch=3-val_loss=0.52", "step-100-loss-2.31", "v1.0", "m_2024-01-31", "m_1e3", "m-v1"]
)
def test_decimals_and_days_at_the_end_of_a_files_name_are_no_steps(name: str) -> None:
    assert parse_file(name) is None


@pytest.mark.parametrize(
    "name", ["step-100-loss-2.31", "epoch=3-step=100-val_loss=0.52", "step100-unsharded", "iter_100k.b"]
)
def test_a_step_may_stand_anywhere_in_a_name(name: str) -> None:
    assert parse_within(name) == Coordinates(100_000 if "k." in name else 100)


@pytest.mark.parametrize("name", ["step_1_of_step_2", "footstep3-a", "step-1.5-a", "last-v1", "step100of500"])
def test_a_name_with_no_step_or_several_has_none(name: str) -> None:
    assert parse_within(name) is None


def test_tokens_that_a_files_name_counts_stand_for_its_steps() -> None:
    assert parse_file("model_tokens-1.5B") == Coordinates(15 * 10**8, 15 * 10**8)
    assert parse_file("tokens=4096") == Coordinates(4096, 4096)


def test_a_parser_of_ones_own_may_return_just_the_step() -> None:
    assert coordinates("e3", lambda name: 100 * int(name[1:])) == Coordinates(300)
    assert coordinates("e3", lambda name: Coordinates(3, 9)) == Coordinates(3, 9)
    assert coordinates("e3", lambda name: None) is None


@pytest.mark.parametrize("step", [3, np.int64(3), torch.tensor(3)], ids=str)
def test_a_step_of_any_whole_type_is_a_number(step: object) -> None:
    assert type(whole(step)) is int
    assert whole(step) == 3


@pytest.mark.parametrize("step", [-1, 0.5, 1.0, "7", None, True, torch.tensor(0.5), LARGEST + 1], ids=str)
def test_what_counts_no_updates_is_no_step(step: object) -> None:
    with pytest.raises(ValueError, match=r"a step is a whole number of optimiser updates, got"):
        whole(step)
