"""The engine: what a measurement costs, that probes share passes, and what is refused."""

import dataclasses
from collections import Counter
from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest
import torch

from stagewise import models as model
from stagewise.architecture import Architecture
from stagewise.checkpoints.series import CheckpointSeries
from stagewise.intervention import AblateHead, Edit
from stagewise.loss import cross_entropy, kl_divergence, mean_scored
from stagewise.measurement.engine import measure
from stagewise.probe import AbstractProbe, Reading, View
from stagewise.probes import (
    AttentionEntropy,
    AttentionTo,
    HeadAblation,
    HeadSpecialisation,
    KLToReference,
    Loss,
    MeanPattern,
    MLPAblation,
    OffsetProfile,
    PatternClusters,
    RestrictedContextKL,
)
from stagewise.task import Batch
from tests.conftest import unchecked_types

FLOAT32 = 1e-6
"""Means of losses of order one."""

Make = Callable[..., CheckpointSeries]

HEADS = 3
CONTEXTS = (1, 2)

EVERY_PROBE = [
    AttentionEntropy(),
    AttentionTo(),
    HeadAblation(),
    HeadSpecialisation(),
    KLToReference(),
    Loss(),
    MeanPattern(),
    OffsetProfile(),
    PatternClusters(max_clusters=3),
    RestrictedContextKL(CONTEXTS),
]


def test_a_checkpoint_costs_one_clean_pass(series_of: Make, batch: Batch, executions: Counter[int | str]) -> None:
    measure(series_of(steps=(3,)), EVERY_PROBE, batch, progress=False)
    assert executions == {"embed": 1, 0: 1, 1: 1}


def test_by_hooks_it_costs_a_pass_a_context_too_and_the_ablations_from_their_layer_up(
    series_of: Make, batch: Batch, executions: Counter[int | str]
) -> None:
    measure(series_of(steps=(3,)), EVERY_PROBE, batch, by_hooks=True, progress=False)
    ablations = HEADS * 3
    whole = 1 + len(CONTEXTS) + ablations
    assert executions == {"embed": 1, 0: whole, 1: whole + ablations}


def test_every_checkpoint_costs_the_same(series_of: Make, batch: Batch, executions: Counter[int | str]) -> None:
    measure(series_of(steps=(0, 1, 2, 3)), [Loss(), RestrictedContextKL((2,))], batch, progress=False)
    assert executions == {"embed": 4, 0: 4, 1: 4}


def test_ablations_of_the_second_layer_never_run_the_first(
    series_of: Make, batch: Batch, executions: Counter[int | str]
) -> None:
    probe = HeadAblation(heads=((1, 0),), kinds=("mean",))
    measure(series_of(steps=(3,)), [probe], batch, by_hooks=True, progress=False)
    assert executions == {"embed": 1, 0: 1, 1: 1 + HEADS}


def test_probes_that_only_look_cost_one_pass(series_of: Make, batch: Batch, executions: Counter[int | str]) -> None:
    looking = [probe for probe in EVERY_PROBE if not isinstance(probe, HeadAblation | RestrictedContextKL)]
    measure(series_of(steps=(3,)), looking, batch, progress=False)
    assert executions == {"embed": 1, 0: 1, 1: 1}


class OfOneHead(HeadAblation):
    """Another probe that asks for edits which the first one asks for too."""


def test_probes_that_ask_for_the_same_edit_share_its_pass(
    series_of: Make, batch: Batch, executions: Counter[int | str]
) -> None:
    probes = [
        HeadAblation(kinds=("zero", "mean")),
        OfOneHead(((0, 1),), ("zero",)),
        RestrictedContextKL((2, 2)),
    ]
    measure(series_of(steps=(3,)), probes, batch, by_hooks=True, progress=False)
    assert executions == {"embed": 1, 0: 1 + 1 + 2 * HEADS, 1: 1 + 1 + 4 * HEADS}


def test_a_kind_of_probe_that_comes_twice_is_refused(series_of: Make, batch: Batch) -> None:
    with pytest.raises(ValueError, match="HeadAblation came twice"):
        measure(series_of(), [HeadAblation(kinds=("zero",)), HeadAblation(kinds=("mean",))], batch)


@pytest.fixture(scope="module", params=[{}, {"n_layers": 1, "attn_only": True}], ids=["LN MLP", "attn-only"])
def together(series_of: Make, request: pytest.FixtureRequest, batch: Batch) -> tuple[CheckpointSeries, pd.DataFrame]:
    """A series, and the table of all probes on it, in another order."""
    series = series_of(**request.param, steps=(0, 9))
    return series, measure(series, EVERY_PROBE[::-1], batch, progress=False)


@pytest.mark.one_of(3)
@pytest.mark.each_value
@pytest.mark.parametrize("probe", EVERY_PROBE, ids=lambda probe: type(probe).__name__)
def test_a_probe_sees_the_same_numbers_alone_as_among_the_others(
    probe: AbstractProbe, together: tuple[CheckpointSeries, pd.DataFrame], batch: Batch
) -> None:
    series, table = together
    alone = measure(series, [probe], batch, progress=False)
    among = table[table["probe"] == type(probe).__name__].reset_index(drop=True)
    axes = [name for name in alone.columns if name != "resamples"]
    pd.testing.assert_frame_equal(alone[axes], among[axes], check_exact=True)
    assert among[among.columns.difference(alone.columns)].isna().all(axis=None)


def test_an_mlp_is_ablated_to_the_same_bits_whether_or_not_others_ask_for_what_heads_write(
    series_of: Make, batch: Batch
) -> None:
    alone = measure(series_of(), [MLPAblation()], batch, progress=False)
    among = measure(series_of(), [MLPAblation(), HeadAblation()], batch, progress=False)
    among = among[among["probe"] == "MLPAblation"]
    assert list(among["value"]) == list(alone["value"])


def test_loss_and_divergence_are_those_of_the_model_run_by_hand(series_of: Make, batch: Batch) -> None:
    series = series_of()
    table = measure(series, [Loss(), KLToReference()], batch, progress=False)
    for step, state in series:
        built = model.build(series.architecture)
        model.load(built, state)
        log_probs = built(batch.tokens).log_softmax(-1).detach()
        loss = cross_entropy(log_probs, batch.targets)[batch.scored].mean()
        here = table[table["step"] == step]
        assert here[here["quantity"] == "cross_entropy"]["value"].item() == pytest.approx(loss.item(), abs=FLOAT32)
        for name, reference in batch.references.items():
            expected = kl_divergence(reference, log_probs)[batch.scored].mean().item()
            assert here[here["reference"] == name]["value"].item() == pytest.approx(expected, abs=FLOAT32)


def test_ablations_are_those_of_the_model_run_by_hand(series_of: Make, batch: Batch) -> None:
    series = series_of(steps=(5,))
    table = measure(series, [HeadAblation(kinds=("zero",))], batch, progress=False)
    built = model.build(series.architecture)
    model.load(built, series.load(5))
    with torch.no_grad():
        clean = cross_entropy(built(batch.tokens).log_softmax(-1), batch.targets)
        built.blocks[1].attn.W_O[2] = 0.0
        ablated = cross_entropy(built(batch.tokens).log_softmax(-1), batch.targets)
    row = table.query("layer == 1 and head == 2 and control == 'head' and quantity == 'loss_change'")
    expected = mean_scored(ablated - clean, batch.scored).mean().item()
    assert row["value"].item() == pytest.approx(expected, abs=FLOAT32)


@pytest.mark.one_of(2)
@pytest.mark.parametrize("config", [{}, {"positional_embedding_type": "rotary", "rotary_dim": 4}])
def test_every_value_lies_in_its_interval(series_of: Make, config: dict[str, Any], batch: Batch) -> None:
    table = measure(series_of(**config), EVERY_PROBE, batch, progress=False).dropna(subset=["lo"])
    assert set(table["probe"]) == {type(probe).__name__ for probe in EVERY_PROBE} - {"MeanPattern"}
    assert ((table["lo"] <= table["value"]) & (table["value"] <= table["hi"])).all()
    assert table["n"].eq(len(batch)).all()


def test_resamples_are_of_the_same_sequences_at_every_step(series_of: Make, batch: Batch) -> None:
    one = series_of((1,))
    series = dataclasses.replace(one, steps=(0, 7), load=lambda step: one.load(1))
    first, second = measure(series, [Loss()], batch, progress=False).query("quantity == 'excess'")["resamples"]
    assert list(first) == list(second)


def test_rows_carry_run_step_and_probe(series_of: Make, batch: Batch) -> None:
    table = measure(series_of(name="mine"), [Loss(), AttentionTo()], batch, progress=False)
    assert set(table["run"]) == {"mine"}
    assert table["step"].drop_duplicates().tolist() == [0, 5, 9]
    assert set(table["probe"]) == {"Loss", "AttentionTo"}


def test_one_checkpoint_is_in_memory_at_a_time(series_of: Make, batch: Batch) -> None:
    import weakref

    alive: list[weakref.ref[Any]] = []
    series = series_of((0, 1, 2, 3))

    def load(step: int) -> dict[str, torch.Tensor]:
        assert sum(reference() is not None for reference in alive) <= 1
        state = series.load(step)
        alive.append(weakref.ref(state["embed.W_E"]))
        return dict(state)

    measure(dataclasses.replace(series, load=load), [Loss()], batch, progress=False)
    assert len(alive) == 4


def test_nothing_to_measure_is_refused(series_of: Make, batch: Batch) -> None:
    with pytest.raises(ValueError, match="nothing to measure: give at least one probe"):
        measure(series_of(), [], batch, progress=False)


@pytest.mark.parametrize(
    ("resources", "message"),
    [
        ({"memory": 0}, "memory is a number of bytes, .* got 0"),
        ({"memory": -1}, "memory is a number of bytes, .* got -1"),
        ({"resamples": -1}, "resamples are a number, 0 for no intervals, got -1"),
        ({"device": "gpu"}, 'torch sees no device "gpu" here'),
    ],
    ids=str,
)
def test_resources_that_are_none_are_refused(
    resources: dict[str, Any], message: str, series_of: Make, batch: Batch
) -> None:
    with pytest.raises(ValueError, match=message):
        measure(series_of(), [Loss()], batch, progress=False, **resources)


def test_without_resamples_there_are_no_intervals(series_of: Make, batch: Batch) -> None:
    probes = [Loss(), HeadAblation(), HeadSpecialisation()]
    bare, whole = (measure(series_of(), probes, batch, resamples=each, progress=False) for each in (0, 5))
    interval = ["lo", "hi", "n", "resamples"]
    assert bool(bare[interval].isna().all(axis=None))
    pd.testing.assert_frame_equal(bare.drop(columns=interval), whole.drop(columns=interval))


def test_what_is_no_list_of_probes_or_no_batch_is_refused(series_of: Make, batch: Batch) -> None:
    with unchecked_types():
        with pytest.raises(ValueError, match=r"probes are a list, as in \[Loss\(\)\], got one alone"):
            measure(series_of(), Loss(), batch)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match=r"which `Batch.from_tokens` makes of sequences, got Tensor"):
            measure(series_of(), [Loss()], batch.tokens)  # type: ignore[arg-type]


def test_a_class_in_place_of_a_probe_is_refused(series_of: Make, batch: Batch) -> None:
    with (
        unchecked_types(),
        pytest.raises(ValueError, match=r"probes are instances, as in \[Loss\(\), .*\], got <class .*\.Loss'>"),
    ):
        measure(series_of(), [Loss], batch, progress=False)  # type: ignore[list-item]


def test_a_sequence_without_scored_positions_is_refused(series_of: Make, batch: Batch) -> None:
    scored = batch.scored.clone()
    scored[[3, 7]] = False
    with pytest.raises(ValueError, match=r"sequences 3, 7 of the batch have no scored position"):
        measure(series_of(), [Loss()], dataclasses.replace(batch, scored=scored), progress=False)


def test_a_hook_that_the_model_does_not_have_is_refused(series_of: Make, batch: Batch) -> None:
    with pytest.raises(ValueError, match=r"has no hook blocks\.0\.attn\.hook_nothing; it has .* others"):
        measure(series_of(), [Curious()], batch, progress=False)


@dataclasses.dataclass(frozen=True)
class Curious(AbstractProbe):
    """A user's probe that misspells a hook."""

    def hooks(self, architecture: Architecture) -> tuple[str, ...]:
        return ("blocks.0.attn.hook_nothing",)

    def read(self, view: View) -> list[Reading]:
        return []


def test_an_edit_that_the_model_does_not_allow_is_refused_before_any_pass(
    series_of: Make, batch: Batch, executions: Counter[int | str]
) -> None:
    with pytest.raises(ValueError, match="there is no head L0H7: the model has 2 layers of 3 heads"):
        measure(series_of(), [Loss(), HeadAblation(heads=((0, 7),))], batch, progress=False)
    assert not executions


@dataclasses.dataclass(frozen=True)
class Own(AbstractProbe):
    """A user's probe, with an edit that names a head that is not there."""

    def edits(self, architecture: Architecture) -> list[Edit]:
        return [(AblateHead(5, 0),)]

    def read(self, view: View) -> list[Reading]:
        return []


def test_a_users_edit_of_a_layer_that_does_not_exist_is_refused(series_of: Make, batch: Batch) -> None:
    with pytest.raises(ValueError, match="there is no head L5H0: the model has 2 layers of 3 heads"):
        measure(series_of(), [Own()], batch, progress=False)


def test_weights_of_another_model_are_refused(series_of: Make, batch: Batch) -> None:
    narrow = series_of(d_model=8)
    series = dataclasses.replace(series_of(), load=narrow.load)
    with pytest.raises(ValueError, match="the weights do not fit the model"):
        measure(series, [Loss()], batch, progress=False)


class OneName(AbstractProbe):
    """Forgets the list around its hook."""

    def hooks(self, architecture: Architecture) -> str:
        return "ln_final.hook_normalized"

    def read(self, view: View) -> list[Reading]:
        return []


@pytest.mark.usefixtures("unchecked")
def test_a_name_of_a_hook_without_its_list_is_refused_with_the_list(series_of: Make, batch: Batch) -> None:
    with pytest.raises(ValueError, match=r"OneName.hooks lists names: return \['ln_final.hook_normalized'\]"):
        measure(series_of(), [OneName()], batch, progress=False)
