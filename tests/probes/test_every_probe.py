"""Laws that every probe of the catalogue keeps on a real model, and those of a paper: a new one needs no edit."""

import copy
import dataclasses
import doctest
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor

from stagewise import models, probes
from stagewise.architecture import Architecture
from stagewise.batch import Prompts
from stagewise.checkpoints.series import CheckpointSeries, State
from stagewise.init import GaussianInit
from stagewise.intervention import Attribution, Edit
from stagewise.measurement.engine import measure
from stagewise.papers.scan_and_snap.attention_by_token import AttentionByToken
from stagewise.papers.scan_and_snap.attention_freezing import AttentionFreezing
from stagewise.papers.scan_and_snap.growth_factor import GrowthFactor
from stagewise.papers.scan_and_snap.token_entropy import TokenEntropy
from stagewise.papers.scan_and_snap.token_recall import TokenRecall
from stagewise.probe import AbstractProbe, Reading, View
from stagewise.probes import HeadAblation, HeadAttribution, MLPAblation, OVCopying
from stagewise.recipe import describe, rebuild
from stagewise.table import VALUES
from stagewise.task import Batch
from stagewise.tasks import MarkovChain, RepeatedTokens

OF_A_PAPER: list[type[AbstractProbe]] = [AttentionByToken, AttentionFreezing, TokenEntropy, TokenRecall]
if models.has_hooked_transformer():  # scores of a native model hold the pattern, and are refused
    OF_A_PAPER.append(GrowthFactor)
CATALOGUE = [cls for cls in vars(probes).values() if isinstance(cls, type) and issubclass(cls, AbstractProbe)]
PROBES: dict[str, type[AbstractProbe]] = {cls.__name__: cls for cls in [*CATALOGUE, *OF_A_PAPER]}
PLAIN = sorted(name for name, cls in PROBES.items() if cls.__dataclass_params__.eq)  # type: ignore[attr-defined]
"""Those that are equal to another one with the same parameters."""

D_VOCAB, SEQUENCES = 12, 5
TASKS = {
    # Each has fifteen scored queries: no more than a probe of single queries shows.
    "repeated tokens": RepeatedTokens(D_VOCAB, length=8),
    "Markov chain": MarkovChain(D_VOCAB, spans=(2, 2), length=3),
}
SIZES = {"n_layers": 2, "n_heads": 3, "d_model": 12, "d_head": 4, "d_mlp": 8, "act_fn": "relu", "d_vocab": D_VOCAB}
HEADS = {0: [2, 0, 1], 1: [1, 2, 0]}
"""Where the heads of a layer come from when they are put in another order."""

FLOAT32 = 2e-5
"""Rounding of a two-layer model in float32, whose numbers are of order one."""

NUMBERED = {"cluster", "centroid", "silhouette"}
"""Quantities whose labels follow the order of the heads: clusters are numbered by first appearance."""


def probe_of(name: str, batch: Batch) -> AbstractProbe:
    """The probe with its defaults; those that need arguments, or others on this batch, get them here."""
    relation = next(iter(batch.relations))
    needed: dict[str, dict[str, Any]] = {
        "GrowthFactor": {"relation": relation},
        "TokenRecall": {"thresholds": (0.1, 0.3), "relation": relation},
        "ValueAlignment": {"features": {"copy": torch.eye(D_VOCAB), "next": torch.eye(D_VOCAB).roll(1, 0)}},
    }
    fields = dataclasses.fields(PROBES[name])  # type: ignore[arg-type]  # every leaf is a dataclass
    required = {field.name for field in fields if field.default is field.default_factory is dataclasses.MISSING}
    if missing := required - set(needed.get(name, {})):
        pytest.fail(f"{name} has no default for {', '.join(sorted(missing))}: give some in `needed`, here")
    return PROBES[name](**needed.get(name, {}))


class Recorder(AbstractProbe):
    """Lets probes read twice what the engine shows them, and keeps what they said, and whether the view was changed."""

    def __init__(self, probes: Mapping[str, AbstractProbe]) -> None:
        self.probes = probes
        self.readings: dict[str, tuple[list[Reading], list[Reading]]] = {}
        self.changed: dict[str, bool] = {}

    def hooks(self, architecture: Architecture) -> Iterable[str]:
        return {hook for probe in self.probes.values() for hook in probe.hooks(architecture)}

    def edits(self, architecture: Architecture) -> Iterable[Edit]:
        return [edit for probe in self.probes.values() for edit in probe.edits(architecture)]

    def attributions(self, architecture: Architecture) -> Iterable[Attribution]:
        return [request for probe in self.probes.values() for request in probe.attributions(architecture)]

    def read(self, view: View) -> list[Reading]:
        shown = [tensor.clone() for tensor in tensors(view)]
        assert len(shown) > 10
        for name, probe in self.probes.items():
            self.readings[name] = probe.read(view), probe.read(view)
            pairs = zip(shown, tensors(view), strict=True)
            self.changed[name] = not all(torch.equal(before, after) for before, after in pairs)
        return []


def tensors(value: object) -> list[Tensor]:
    """All tensors in a view, in order."""
    if isinstance(value, Tensor):
        return [value]
    if dataclasses.is_dataclass(value):
        value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return [tensor for part in value.values() for tensor in tensors(part)]
    return [value.A, value.B] if hasattr(value, "A") and hasattr(value, "B") else []


@cache
def checkpoint(n_ctx: int, step: int) -> State:
    return models.weights(models.build(architecture(n_ctx), seed=step))


def architecture(n_ctx: int) -> Architecture:
    """Two layers, with weights so large that attention is far from uniform."""
    return Architecture({**SIZES, "n_ctx": n_ctx, "normalization_type": None}, GaussianInit(0.3))


def series(n_ctx: int, change: Callable[[State], State] = dict) -> CheckpointSeries:
    """Two unlike checkpoints."""
    return CheckpointSeries("run", architecture(n_ctx), (0, 1), lambda step: change(checkpoint(n_ctx, step)))


def heads_in_another_order(state: State) -> State:
    """The same model with the heads of each layer exchanged."""
    changed = dict(state)
    for layer, order in HEADS.items():
        for name in ("W_Q", "W_K", "W_V", "W_O", "b_Q", "b_K", "b_V"):
            changed[f"blocks.{layer}.attn.{name}"] = state[f"blocks.{layer}.attn.{name}"][order]
    return changed


def measured(chosen: list[AbstractProbe], batch: Batch, **change: Any) -> pd.DataFrame:
    return measure(series(batch.tokens.shape[1], **change), chosen, batch, resamples=20, progress=False)


def keyed(table: pd.DataFrame, without: tuple[str, ...] = ()) -> pd.Series:
    """The values by all that names them, in an order that does not depend on that of the rows."""
    names = sorted(set(table.columns) - {*VALUES, *without})
    keys = [name for name in names if table[name].notna().any()]
    plain = pd.DataFrame({name: table[name].astype(str) for name in keys}).assign(value=table["value"].to_numpy())
    return plain.sort_values([*keys, "value"]).set_index(keys)["value"]


def assert_same(one: pd.DataFrame, other: pd.DataFrame, without: tuple[str, ...] = ()) -> None:
    pd.testing.assert_series_equal(keyed(one, without), keyed(other, without), atol=FLOAT32, rtol=FLOAT32)


@pytest.fixture(scope="module", params=TASKS)
def batch(request: pytest.FixtureRequest) -> Batch:
    return with_answers(TASKS[request.param].probe_batch(SEQUENCES, seed=0))


def with_answers(batch: Batch) -> Prompts:
    """The sequences as prompts too, whose last target is right and another token wrong."""
    end = torch.full((SEQUENCES,), batch.tokens.shape[1] - 1)
    right = batch.targets[:, -1:]
    return Prompts(
        batch.tokens, batch.targets, batch.scored, batch.relations, batch.references, batch.nested, batch.contexts,
        right=right, wrong=(right + 1) % D_VOCAB, places={"END": end}, group=torch.zeros_like(end),
        commonest=torch.ones(SEQUENCES),
        others={"corrupted": dataclasses.replace(batch, tokens=batch.tokens.roll(1, 1))},
    )  # fmt: skip


@pytest.fixture(scope="module")
def catalogue(batch: Batch) -> dict[str, AbstractProbe]:
    return {name: probe_of(name, batch) for name in PROBES}


@pytest.fixture(scope="module")
def recorder(catalogue: dict[str, AbstractProbe]) -> Recorder:
    """Beside all probes while they measure; then it knows what each said of the last checkpoint."""
    return Recorder(catalogue)


@pytest.fixture(scope="module")
def together(batch: Batch, catalogue: dict[str, AbstractProbe], recorder: Recorder) -> pd.DataFrame:
    """What all probes say when they share the passes."""
    return measured([*catalogue.values(), recorder], batch)


@pytest.fixture(scope="module")
def reordered(batch: Batch, catalogue: dict[str, AbstractProbe]) -> pd.DataFrame:
    """What all say of the model whose heads are exchanged, each head by its old name."""
    table = measured(list(catalogue.values()), batch, change=heads_in_another_order)
    of_heads = table["head"].notna()
    old = [HEADS[layer][head] for layer, head in table.loc[of_heads, ["layer", "head"]].itertuples(index=False)]
    table.loc[of_heads, "head"] = old
    named = {f"L{layer}H{new}": f"L{layer}H{old}" for layer, order in HEADS.items() for new, old in enumerate(order)}
    return table.assign(source=table["source"].replace(named))


@pytest.fixture(scope="module")
def shuffled(batch: Batch, catalogue: dict[str, AbstractProbe]) -> pd.DataFrame:
    """What all say of the same sequences in another order."""
    return measured(list(catalogue.values()), batch[torch.tensor([3, 0, 4, 1, 2])])


def rows_of(table: pd.DataFrame, name: str) -> pd.DataFrame:
    own = table[table["probe"] == name]
    assert len(own)
    return own


every_probe = pytest.mark.parametrize("name", PROBES)


@pytest.mark.one_of(2)
@pytest.mark.each_value
@every_probe
def test_every_number_is_declared_and_in_its_range(name: str, together: pd.DataFrame) -> None:
    own = rows_of(together, name)
    assert set(own["quantity"]) <= set(PROBES[name].quantities)
    for quantity, rows in own.groupby("quantity"):
        lo, hi = PROBES[name].quantities[str(quantity)].range
        values = rows[["value", "lo", "hi"]].to_numpy(dtype=float)
        if rows["map"].notna().all():  # a row a map: its cells are the values
            values = np.concatenate(rows["map"].to_list())[:, None]
        assert np.isfinite(values[:, 0]).all()
        assert lo is None or np.nanmin(values) >= lo - FLOAT32
        assert hi is None or np.nanmax(values) <= hi + FLOAT32


@every_probe
@pytest.mark.usefixtures("together")
def test_every_axis_has_a_label_for_each_entry(name: str, recorder: Recorder) -> None:
    readings, _ = recorder.readings[name]
    assert readings
    for reading in readings:
        sizes = dict(zip(reading.axes.split(), reading.values.shape, strict=False))
        expected = {"batch": SEQUENCES, "layer": 2, "head": 3, **{k: len(v) for k, v in reading.labels.items()}}
        if reading.statistic is None:
            assert sizes == {axis: expected[axis] for axis in sizes}
        assert all(len(set(labels)) == len(labels) for labels in reading.labels.values())


@every_probe
@pytest.mark.usefixtures("together")
def test_reading_twice_gives_the_same_numbers(name: str, recorder: Recorder) -> None:
    for one, other in zip(*recorder.readings[name], strict=True):
        assert (one.axes, one.quantity) == (other.axes, other.quantity)
        assert [list(labels) for labels in one.labels.values()] == [list(labels) for labels in other.labels.values()]
        assert torch.equal(one.values, other.values)


@every_probe
@pytest.mark.usefixtures("together")
def test_reading_leaves_the_view_as_it_was(name: str, recorder: Recorder) -> None:
    assert recorder.changed[name] is False


@pytest.mark.one_of(3)
@pytest.mark.each_value
@every_probe
def test_a_probe_says_the_same_alone_and_beside_all_others(
    name: str, batch: Batch, catalogue: dict[str, AbstractProbe], together: pd.DataFrame
) -> None:
    assert_same(measured([catalogue[name]], batch), rows_of(together, name))


@pytest.mark.one_of(3)
@pytest.mark.each_value
@every_probe
def test_the_order_of_the_sequences_does_not_matter(name: str, together: pd.DataFrame, shuffled: pd.DataFrame) -> None:
    one, other = rows_of(together, name), rows_of(shuffled, name)
    if name == "HeadAblation":  # resampling takes the output of the next sequence
        one, other = one[one["kind"] != "resample"], other[other["kind"] != "resample"]
    assert_same(one, other, without=("row",))


@pytest.mark.one_of(3)
@pytest.mark.each_value
@every_probe
def test_heads_in_another_order_have_the_same_numbers_by_name(
    name: str, together: pd.DataFrame, reordered: pd.DataFrame
) -> None:
    one, other = (
        rows[~rows["quantity"].isin(NUMBERED)] for rows in (rows_of(together, name), rows_of(reordered, name))
    )
    assert_same(one, other)


def test_a_head_under_another_name_would_be_seen(together: pd.DataFrame) -> None:
    own = rows_of(together, "AttentionDistance")
    with pytest.raises(AssertionError, match="are different"):
        assert_same(own, own.assign(head=(own["head"] + 1) % 3))


def test_the_numbers_of_a_sequence_are_its_own(batch: Batch, catalogue: dict[str, AbstractProbe]) -> None:
    # Means, and another sequence's output, are of the whole batch; edges are between means and what is there.
    own = {name: probe for name, probe in catalogue.items() if name not in ("EdgeAttribution", "BehaviourHeads")}
    own |= {"HeadAblation": HeadAblation(kinds=("zero",)), "HeadAttribution": HeadAttribution("zero")}
    own |= {"MLPAblation": MLPAblation(kinds=("zero",))}
    rows = torch.tensor([4, 1])
    whole, part = Recorder(own), Recorder(own)
    for recorder, sequences in ((whole, batch), (part, batch[rows])):
        measured([OVCopying(), recorder], sequences)  # without a probe of circuits a view has none
    for name in own:
        for one, other in zip(whole.readings[name][0], part.readings[name][0], strict=True):
            if one.axes.startswith("batch"):
                torch.testing.assert_close(one.values[rows], other.values, atol=FLOAT32, rtol=FLOAT32)


@every_probe
def test_the_example_of_a_probe_shows_a_reading(name: str) -> None:
    examples = doctest.DocTestFinder(recurse=False).find(PROBES[name], name)
    assert any(
        verb in example.source for test in examples for example in test.examples for verb in (".read", ".across")
    )


@pytest.mark.parametrize("name", PLAIN)
def test_a_probe_comes_back_from_its_record_and_from_what_it_prints(name: str, batch: Batch) -> None:
    probe = probe_of(name, batch)
    assert rebuild(describe(probe), PROBES.values()) == probe
    assert eval(repr(probe), dict(PROBES)) == probe
    assert copy.copy(probe) == probe
