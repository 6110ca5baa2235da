"""One checkpoint's readings: the same from lean passes as from hooks, and from slices as from the whole batch."""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import pandas as pd
import pytest
import torch
from torch import nn

from stagewise import models, probes
from stagewise.architecture import Architecture
from stagewise.checkpoints.series import CheckpointSeries
from stagewise.init import GaussianInit
from stagewise.measurement.engine import measure
from stagewise.papers.scan_and_snap.attention_freezing import AttentionFreezing
from stagewise.papers.scan_and_snap.growth_factor import GrowthFactor
from stagewise.probe import AbstractPatternProbe, AbstractProbe, Reading, View
from stagewise.probes import HeadAblation, MLPAblation, RestrictedContextKL
from stagewise.probes.default_probes import default_probes
from stagewise.tasks import RepeatedTokens

pytestmark = pytest.mark.usefixtures("unchecked")

SAME = 1e-5
"""The bound for every quantity of every probe."""

TASK = RepeatedTokens(32, length=12)
SIZES = {
    "n_layers": 2,
    "d_model": 16,
    "n_heads": 4,
    "d_head": 4,
    "n_ctx": 32,
    "d_vocab": 32,
    "act_fn": "gelu",
    "d_mlp": 8,
}
KINDS: dict[str, dict[str, Any]] = {
    "LN and MLP": {"act_fn": "gelu"},
    "attention only": {"attn_only": True, "normalization_type": None},
    "as Llama": {"normalization_type": "RMS", "gated_mlp": True, "act_fn": "silu", "n_key_value_heads": 2}
    | {"positional_embedding_type": "rotary"},
}
BRIDGED = ("GPT2", "GPTNeoX")


@pytest.fixture(scope="module", params=[*KINDS, *BRIDGED])
def series(request: pytest.FixtureRequest, hugging_face: Callable[..., nn.Module]) -> CheckpointSeries:
    """One checkpoint with random weights."""
    if request.param in KINDS:
        made = Architecture({**SIZES, **KINDS[request.param]}, GaussianInit(0.4))
        return CheckpointSeries("run", made, (3,), lambda step: models.weights(models.build(made, seed=step)))
    plain = hugging_face(request.param)
    return CheckpointSeries("run", models.described(plain), (3,), lambda step: plain.state_dict())


def measured(series: CheckpointSeries, probes: list[AbstractProbe] | None = None, **named: Any) -> pd.DataFrame:
    batch = TASK.probe_batch(4, seed=0)
    probes = probes or [
        *(probe for probe in default_probes(series.architecture, batch) if not isinstance(probe, HeadAblation)),
        HeadAblation(),
    ]
    return measure(series, probes, batch, progress=False, **named)


def assert_same(one: pd.DataFrame, other: pd.DataFrame) -> None:
    columns = [name for name in one.columns if name not in ("resamples", "value", "lo", "hi")]
    pd.testing.assert_frame_equal(one[columns], other[columns])
    for name in ("value", "lo", "hi"):
        pd.testing.assert_series_equal(one[name], other[name], atol=SAME, rtol=SAME)


@pytest.mark.one_of(3)
def test_lean_passes_and_slices_give_the_numbers_of_hooks_on_the_whole_batch(series: CheckpointSeries) -> None:
    by_hooks = measured(series, by_hooks=True)
    assert_same(measured(series), by_hooks)
    assert_same(measured(series, memory=1), by_hooks)


@pytest.mark.one_of(3)
def test_probes_that_read_no_predictions_give_the_same_rows_where_none_are_computed(series: CheckpointSeries) -> None:
    batch = TASK.probe_batch(4, seed=0)
    catalogue = [*vars(probes).values(), AttentionFreezing]
    kinds = [each for each in catalogue if isinstance(each, type) and issubclass(each, AbstractProbe)]
    needing: set[type[AbstractProbe]] = {probes.ValueAlignment}
    if not any(isinstance(each, probes.QKOffset) for each in default_probes(series.architecture, batch)):
        needing.add(probes.QKOffset)  # there are no learned positions
    chosen = [each() for each in kinds if not each.reads_predictions and each not in needing]
    assert len(chosen) > 12
    with_predictions = measured(series, [*chosen, probes.Loss()])
    alone = measure(series, chosen, batch, progress=False)
    expected = with_predictions[with_predictions["probe"] != "Loss"].dropna(axis=1, how="all")
    pd.testing.assert_frame_equal(alone, expected.reset_index(drop=True))


def test_probes_of_scored_predictions_read_no_others(series: CheckpointSeries) -> None:
    """Where they were asked of these alone, the others are nan."""
    kinds = [each for each in vars(probes).values() if isinstance(each, type) and issubclass(each, AbstractProbe)]
    needing = {probes.BehaviourCurve, probes.BehaviourHeads}  # prompts
    if series.architecture.config.get("attn_only"):
        needing.add(MLPAblation)
    chosen = [each() for each in kinds if not each.reads_unscored and each not in needing]
    assert len(chosen) > 8
    among = measured(series, [*chosen, probes.LossByPosition()])
    alone = measured(series, chosen)
    expected = among[among["probe"] != "LossByPosition"].dropna(axis=1, how="all")
    pd.testing.assert_frame_equal(alone.dropna(axis=1, how="all"), expected.reset_index(drop=True), check_exact=True)
    assert alone["value"].notna().all()


@pytest.mark.one_of(5)
def test_controls_and_mlps_too(series: CheckpointSeries) -> None:
    controls = HeadAblation(kinds=("zero", "mean", "resample"))
    probes = [controls, *([] if series.architecture.config.get("attn_only") else [MLPAblation()])]
    by_hooks = measured(series, probes, by_hooks=True)
    assert_same(measured(series, probes), by_hooks)
    assert_same(measured(series, probes, memory=1), by_hooks)


@dataclasses.dataclass(frozen=True)
class LargestLoss(AbstractProbe):
    """What no mean of slices gives; and the edited predictions themselves."""

    def edits(self, architecture: Architecture) -> Any:
        return RestrictedContextKL((2,)).edits(architecture)

    def read(self, view: View) -> list[Reading]:
        ((_, edited),) = view.edited.items()
        chances = edited.log_probs.exp().sum(-1)
        return [Reading("", -view.log_probs.min(), "loss"), Reading("", chances.max(), "sum")]


@pytest.mark.parametrize(("memory", "passed"), [(2**30, 8), (1, 8 + 8 + 7)], ids=["one slice", "slices"])
def test_ablations_that_follow_start_from_clean_passes_that_were_made(
    memory: int, passed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, seen = Architecture(SIZES, GaussianInit(0.4)), list[int]()
    series = CheckpointSeries("run", made, (3,), lambda step: models.weights(models.build(made, seed=step)))

    def counted(run: Callable[..., Any], model: models.Model, tokens: torch.Tensor, *rest: Any, **how: Any) -> Any:
        seen.append(len(tokens))
        return run(model, tokens, *rest, **how)

    for name in ("scored_pass", "activations_alone"):
        monkeypatch.setattr(models, name, partial(counted, getattr(models, name)))
    batch = TASK.probe_batch(8, 0)
    table = measure(series, [HeadAblation(kinds=("mean",), exact=False)], batch, memory=memory, progress=False)
    assert sum(seen) == passed  # in slices once for the means, and but for the first once more
    assert int(table["n"].max()) == 8


def test_a_probe_of_the_whole_batch_is_given_the_whole_batch() -> None:
    made = Architecture({**SIZES, "act_fn": "relu"}, GaussianInit(0.4))
    series = CheckpointSeries("run", made, (3, 4), lambda step: models.weights(models.build(made, seed=step)))
    table = measured(series, [LargestLoss()], memory=1)
    assert_same(table, measured(series, [LargestLoss()]))
    assert table.loc[table["quantity"] == "sum", "value"].tolist() == pytest.approx([1, 1])
    for step in (3, 4):
        model = models.build(made, seed=step)
        log_probs, _ = models.clean_pass(model, TASK.probe_batch(4, seed=0).tokens, ())
        (largest,) = table.query("step == @step and quantity == 'loss'")["value"]
        assert largest == pytest.approx(-torch.min(log_probs).item(), abs=SAME)


def test_slices_that_are_all_the_same_are_not_the_whole_batch() -> None:
    """Uniform attention of the last query: the same in every sequence, of which each is a row."""
    made = Architecture({**SIZES, "act_fn": "relu"}, GaussianInit(stds={"*.W_Q": 0.0}))
    series = CheckpointSeries("run", made, (3,), lambda step: models.weights(models.build(made, seed=step)))
    last = dataclasses.replace(TASK.probe_batch(4, seed=0), scored=torch.arange(17).expand(4, 17) == 16)
    table = measure(series, [OwnPattern(), AttentionFreezing()], last, memory=1, resamples=0, progress=False)
    assert len(table.query("probe == 'OwnPattern'")) == 4
    assert table.query("probe == 'AttentionFreezing'")["row"].nunique() == 4


@dataclasses.dataclass(frozen=True)
class FromTheMean(AbstractProbe):
    """How far a sequence's largest probability is from the mean of all sequences'."""

    def read(self, view: View) -> list[Reading]:
        largest = view.log_probs.exp().amax((1, 2))
        return [Reading("batch", (largest - largest.mean()).abs(), "distance")]


@dataclasses.dataclass(frozen=True)
class Ranked(AbstractProbe):
    """The rank of a sequence's loss among all, refused of too few."""

    def read(self, view: View) -> list[Reading]:
        if len(view.batch) < 4:
            raise ValueError("too few sequences to rank")
        return [Reading("batch", view.log_probs.sum((1, 2)).argsort().argsort().double(), "rank")]


@dataclasses.dataclass(frozen=True)
class OfEach(AbstractProbe):
    """A number of each sequence by itself, and how many were seen at once."""

    seen: ClassVar[list[int]] = []

    def read(self, view: View) -> list[Reading]:
        self.seen.append(len(view.batch))
        return [Reading("batch", view.log_probs.exp().amax((1, 2)), "largest")]


def test_probes_that_compare_sequences_give_the_same_numbers_whatever_memory_is_free() -> None:
    made = Architecture({**SIZES, "act_fn": "relu"}, GaussianInit(0.4))
    series = CheckpointSeries("run", made, (3, 4), lambda step: models.weights(models.build(made, seed=step)))
    batch, probes = TASK.probe_batch(9, seed=0), [FromTheMean(), Ranked(), OfEach()]
    tables = [measure(series, probes, batch, memory=memory, progress=False) for memory in (1, 2**18, 2**30)]
    assert tables[0].query("probe == 'FromTheMean'")["value"].gt(1e-3).all()
    assert_same(tables[0], tables[2])
    assert_same(tables[1], tables[2])


def test_a_probe_of_each_sequence_by_itself_is_read_in_slices() -> None:
    made = Architecture({**SIZES, "act_fn": "relu"}, GaussianInit(0.4))
    series = CheckpointSeries("run", made, (3,), lambda step: models.weights(models.build(made, seed=step)))
    OfEach.seen.clear()
    measure(series, [OfEach()], TASK.probe_batch(9, seed=0), memory=1, progress=False)
    assert OfEach.seen == [4, 2, 2, *[1] * 9]


@dataclasses.dataclass(frozen=True)
class OwnPattern(AbstractPatternProbe):
    """The attention of the first head's last query to itself, a row a sequence."""

    def read(self, view: View) -> list[Reading]:
        own = view.patterns[:, 0, 0, -1, -1]
        return [Reading("row", own, "own", {"row": range(len(own))})]


@dataclasses.dataclass(frozen=True)
class InPlace(AbstractPatternProbe):
    """A probe that edits what it is given."""

    edited: str = "activations"

    def read(self, view: View) -> list[Reading]:
        shared = {
            "activations": view.activations["blocks.0.attn.hook_pattern"],
            "patterns": view.patterns,
            "tokens": view.batch.tokens,
            "weights": view.weights["embed.W_E"],
        }
        shared[self.edited].mul_(0)
        return [Reading("batch", view.loss, "loss")]


@pytest.mark.parametrize("edited", ["activations", "patterns", "tokens", "weights"])
def test_a_probe_that_edits_in_place_what_others_read_is_refused_by_its_name(edited: str) -> None:
    made = Architecture({**SIZES, "act_fn": "relu"}, GaussianInit(0.4))
    series = CheckpointSeries("run", made, (3,), lambda step: models.weights(models.build(made, seed=step)))
    with pytest.raises(ValueError, match="InPlace edits in place what probes share: clone it first"):
        measure(series, [InPlace(edited), probes.Loss()], TASK.probe_batch(4, seed=0), progress=False)


@pytest.mark.hooked_only("hook_attn_scores of a native model holds the pattern, and is refused")
def test_a_slice_without_a_key_to_follow_does_not_stop_a_growth_factor() -> None:
    made = Architecture({**SIZES, "act_fn": "relu"}, GaussianInit(0.4))
    series = CheckpointSeries("run", made, (3,), lambda step: models.weights(models.build(made, seed=step)))
    whole = TASK.probe_batch(4, seed=0)
    one = {"one": (torch.arange(4) == 2)[:, None, None] & torch.eye(17, dtype=torch.bool)}
    batch = dataclasses.replace(whole, relations=one)
    tables = [measure(series, [GrowthFactor("one")], batch, memory=memory, progress=False) for memory in (1, 2**30)]
    assert len(tables[0]) > 0
    assert_same(*tables)


def test_edges_are_of_the_models_own_parameters_alone(series: CheckpointSeries) -> None:
    with pytest.raises(ValueError, match="edges between heads are computed from the weights alone: leave one of both"):
        measured(series, [probes.EdgeAttribution()], by_hooks=True)
