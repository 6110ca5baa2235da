"""What a measurement refuses before any pass, and what it marks."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from stagewise import models
from stagewise.architecture import Architecture
from stagewise.architectures import full
from stagewise.checkpoints.series import open_series
from stagewise.intervention import AblateHead, RestrictContext
from stagewise.measurement._inputs import _NOT_FINITE, check_batch, checked_readings, unmeasured
from stagewise.measurement.comparing import compare_checkpoints
from stagewise.measurement.engine import measure
from stagewise.measurement.learning_coefficient import measure_learning_coefficients
from stagewise.measurement.trajectory import measure_trajectory
from stagewise.probe import Reading
from stagewise.probes import EdgeAttribution, HeadAttribution, Loss
from stagewise.task import Batch
from tests.conftest import unchecked_types

FULL = full(5, 4, n_heads=2, d_model=8, d_mlp=6)


def batch(n: int = 2, low: int = 0, high: int = 4, target: int = 1, length: int = 4) -> Batch:
    tokens = torch.zeros(n, length, dtype=torch.long)
    tokens[0, 0], tokens[0, 1] = low, high
    return Batch(tokens, torch.full_like(tokens, target), torch.ones_like(tokens, dtype=torch.bool))


@pytest.mark.parametrize("verb", [measure_trajectory, compare_checkpoints, measure_learning_coefficients, measure])
def test_a_path_in_place_of_a_series_is_refused(verb: Callable[..., object]) -> None:
    given = ([Loss()], batch()) if verb is measure else (batch(),)
    with unchecked_types(), pytest.raises(ValueError, match=r"a series is what `stagewise.open_series` returns, got "):
        verb(Path("runs/mine"), *given)


def test_a_batch_that_fits_is_taken() -> None:
    check_batch(batch(), FULL, [(AblateHead(0, 0, "mean"),), (RestrictContext(1),)])
    check_batch(batch(1), FULL, [(AblateHead(0, 0),), (RestrictContext(1),)])


@pytest.mark.parametrize("kind", ["mean", "resample"])
def test_one_sequence_is_no_batch_to_average_over(kind: str) -> None:
    with pytest.raises(
        ValueError,
        match=rf"{kind} ablation replaces .* of other sequences, and the batch has one.*--without HeadAblation",
    ):
        check_batch(batch(1), FULL, [(AblateHead(0, 0), AblateHead(0, 1, kind))])  # type: ignore[arg-type]


@pytest.mark.parametrize("probe", [HeadAttribution(), EdgeAttribution(exact=False)])
def test_one_sequence_has_no_mean_to_attribute_to(probe: HeadAttribution | EdgeAttribution) -> None:
    two_layers = full(5, 4, n_layers=2, n_heads=2, d_model=8, d_mlp=6)
    with pytest.raises(ValueError, match=r"mean ablation replaces .* of other sequences, and the batch has one"):
        measure(open_series([(0, models.build(two_layers))]), [probe], batch(1))
    kinds = HeadAttribution("zero").attributions(two_layers)
    check_batch(batch(1), two_layers, [], attributions=kinds)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"low": -1}, "the batch holds token -1, and the series has 5 tokens, counted from 0"),
        ({"high": 5}, "the batch holds token 5, and the series has 5 tokens"),
        ({"target": 5}, "the batch holds target 5"),
        ({"target": -100}, "the batch holds target -100, .*: put any token where no prediction counts, and False"),
        ({"length": 5}, "the batch has 5 positions, and the series has 4: shorten it"),
    ],
    ids=str,
)
def test_a_batch_that_the_models_cannot_read_is_refused(given: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_batch(batch(**given), FULL, [], "the series")


def test_targets_are_the_tokens_that_the_model_predicts() -> None:
    more, fewer = (Architecture({**FULL.config, "d_vocab_out": outputs}) for outputs in (8, 3))
    check_batch(batch(target=7), more, [])
    with pytest.raises(ValueError, match="the batch holds target 4, and the model has 3 tokens"):
        check_batch(batch(target=4), fewer, [])


def test_parts_of_a_batch_that_are_of_another_size_are_named() -> None:
    uniform, mask = torch.zeros(2, 4, 6).log_softmax(-1), torch.ones(2, 4, 5, dtype=torch.bool)
    wrong = {
        r"its reference 'padded' should be of the shape \(2, 4, 5\), got \(2, 4, 6\)": {
            "references": {"padded": uniform}
        },
        r"its relation 'cut' should be of the shape \(2, 4, 4\), got \(2, 4, 5\)": {"relations": {"cut": mask}},
        r"its targets should be of the shape \(2, 4, 5\), got \(2, 4, 3\)": {"targets": torch.zeros(2, 4, 3)},
        r"its input vectors should be of the shape \(2, 4, 5\), got \(2, 4, 1\)": {"tokens": torch.zeros(2, 4, 1)},
    }
    for message, part in wrong.items():
        with pytest.raises(ValueError, match=message):
            check_batch(dataclasses.replace(batch(), **part), FULL, [])  # type: ignore[arg-type]


def test_a_sequence_without_a_scored_position_is_named() -> None:
    whole = batch(3)
    whole.scored[1] = False
    with pytest.raises(ValueError, match="sequences 1 of the batch have no scored position"):
        check_batch(whole, FULL, [])


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_a_checkpoint_that_is_not_finite_is_marked_and_named(value: float) -> None:
    state = {"W_Q": torch.ones(3), "attn.IGNORE": torch.tensor(-float("inf"))}
    assert unmeasured(state, "step 3") is None
    state["W_Q"][1] = value
    with pytest.warns(UserWarning, match=r"step 3 holds nan or infinity \(W_Q\): nothing is measured there"):
        marker = unmeasured(state, "step 3")
    assert marker is not None
    assert marker[["quantity", "value"]].values.tolist() == [[_NOT_FINITE, 1.0]]


def test_readings_may_come_one_after_the_other() -> None:
    readings = [Reading("batch", torch.zeros(2), "loss"), Reading("layer", torch.zeros(3), "norm")]
    assert checked_readings(Loss(), iter(readings), 2) == readings


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (Reading("batch", torch.zeros(2), "loss"), r"Loss\.read returns a list of readings, got Reading"),
        (None, r"Loss\.read returns a list of readings, got NoneType"),
        ([torch.zeros(2)], r"Loss\.read returns a list of readings, got list"),
        ([Reading("batch", torch.zeros(3), "loss")], r"Loss reads 'loss' of 3 sequences, and `view\.batch` has 2"),
    ],
    ids=str,
)
def test_what_is_no_reading_of_the_batch_is_refused_by_the_probes_name(given: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        checked_readings(Loss(), given, 2)
