"""Which probes are chosen: by what the batch holds, what the task says of itself, and the size of the model."""

import dataclasses
from collections.abc import Callable

import pytest
import torch

from stagewise import models
from stagewise.architecture import Architecture
from stagewise.architectures import full, minimal
from stagewise.checkpoints.series import open_series
from stagewise.criteria import StageCriteria
from stagewise.measurement.engine import measure
from stagewise.papers.tasks import AssociativeRecall, SequenceClasses, SparseRegression
from stagewise.probes import HeadAblation, HeadAttribution, MeanPattern, QKOffset, RestrictedContextKL, ValueAlignment
from stagewise.probes.default_probes import default_probes
from stagewise.task import AbstractTask, Batch
from stagewise.tasks import MarkovChain, RepeatedTokens

KINDS = {"AttentionTo", "RestrictedContextKL", "HeadAblation", "PatternClusters"}
NEXT = {"LossByPosition", "InContextLearning"}
PREDICTED = {"Accuracy", "KLToReference", "LossAgainstReferences"}
TASKS = (
    MarkovChain(),
    AssociativeRecall(3, 12),
    RepeatedTokens(16, 8),
    SequenceClasses(length=7),
    SparseRegression(6, 3),
)


def chosen(task: AbstractTask, normed: bool = True) -> dict[str, object]:
    build = full if normed else minimal
    batch = task.probe_batch(4, seed=0)
    return {type(probe).__name__: probe for probe in default_probes(build(task.d_vocab, task.n_ctx), batch, task)}


@pytest.mark.parametrize("task", TASKS[:-1], ids=lambda task: type(task).__name__)
def test_every_task_of_tokens_gets_the_four_kinds(task: AbstractTask) -> None:
    assert set(chosen(task)) >= KINDS | PREDICTED | {"HeadSpecialisation"}


def test_losses_by_position_are_read_where_every_target_is_the_next_token() -> None:
    with_positions = {type(task).__name__ for task in TASKS if set(chosen(task)) >= NEXT}
    assert with_positions == {"MarkovChain", "RepeatedTokens"}


def test_copying_is_read_where_the_scored_targets_came_before() -> None:
    assert [type(task).__name__ for task in TASKS if "Copying" in chosen(task)] == ["RepeatedTokens"]


def test_a_regression_gets_all_but_what_reads_tokens() -> None:
    names = set(chosen(TASKS[-1]))
    assert names >= {"Loss", "AttentionTo", "PatternClusters", "MeanPattern", "OffsetProfile"}
    assert names >= {"RestrictedContextKL", "HeadAblation", "KLToReference", "LossAgainstReferences"}
    assert not names & (NEXT | {"Accuracy", "OVCopying"})


def test_one_relation_is_no_choice_for_a_head() -> None:
    task = RepeatedTokens(16, 8)
    batch = task.probe_batch(4, seed=0)
    fewer = dataclasses.replace(batch, relations={"induction": batch.relations["induction"]}, references={})
    names = {type(probe).__name__ for probe in default_probes(full(16, task.n_ctx), fewer, task)}
    assert "AttentionTo" in names
    assert not names & {"HeadSpecialisation", "KLToReference", "LossAgainstReferences"}


@pytest.mark.parametrize(
    ("task", "contexts"),
    [
        (MarkovChain(), (1, 2, 4, 6, 8)),
        (MarkovChain(spans=(2, 3)), (1, 2, 5, 8)),
        (RepeatedTokens(16, 8), (1, 2, 4, 8)),
    ],
)
def test_contexts_are_those_of_the_task_and_one_beyond_or_powers_of_two(
    task: AbstractTask, contexts: tuple[int, ...]
) -> None:
    assert chosen(task)["RestrictedContextKL"] == RestrictedContextKL(contexts)


@pytest.mark.parametrize(("positions", "read"), [(8, False), (29, False), (30, True), (64, True)])
def test_a_share_of_positions_is_read_where_two_of_them_make_no_onset(positions: int, read: bool) -> None:
    task = RepeatedTokens(16, 8)
    probes = default_probes(full(16, positions), task.probe_batch(4, seed=0), task)
    assert read == any(isinstance(probe, QKOffset) for probe in probes)
    assert not read or 2 / (positions - 1) < StageCriteria().smallest


def test_value_maps_are_held_to_the_tasks_features_where_no_norm_stands_between() -> None:
    probe = chosen(MarkovChain(), normed=False)["ValueAlignment"]
    assert isinstance(probe, ValueAlignment)
    assert list(probe.features) == ["A*_1", "A*_2", "A*_3"]
    assert "ValueAlignment" not in chosen(MarkovChain()) | chosen(RepeatedTokens(16, 8), normed=False)


@pytest.mark.parametrize("task", TASKS, ids=lambda task: type(task).__name__)
def test_features_have_the_size_of_a_value_map(task: AbstractTask) -> None:
    targets = task.sample(1, 0).targets
    outputs = targets.shape[-1] if targets.is_floating_point() else task.d_vocab
    assert all(tuple(matrix.shape) == (outputs, task.d_vocab) for matrix in task.value_features().values())


@pytest.mark.parametrize("heads", [2, 20])
def test_one_sequence_alone_is_measured_with_heads_ablated_by_zero(heads: int) -> None:
    architecture = full(16, 12, n_layers=2, n_heads=heads, d_model=40)
    batch = RepeatedTokens(16, 8).probe_batch(1, seed=0)
    probes = default_probes(architecture, batch)
    series = open_series([(0, models.build(architecture))])
    table = measure(series, probes, batch, resamples=0, progress=False)
    assert set(table["kind"].dropna()) == {"zero"}
    assert {"HeadAttribution"} & set(table["probe"]) == ({"HeadAttribution"} if heads == 20 else set())


@pytest.mark.one_of(2)
@pytest.mark.parametrize(
    ("kind", "without"), [("GPT2", set()), ("GPTNeoX", {"QKOffset"}), ("Llama", {"QKOffset"}), ("Gemma2", {"QKOffset"})]
)
def test_every_default_probe_reads_every_kind_of_model(
    kind: str, without: set[str], hugging_face: Callable[..., torch.nn.Module]
) -> None:
    series = open_series([(0, hugging_face(kind))])
    batch = RepeatedTokens.for_model(series.architecture).probe_batch(4, seed=0)
    table = measure(series, default_probes(series.architecture, batch), batch, progress=False)
    scores = {"AttentionTo", "OffsetProfile", "AttentionEntropy"}
    scores |= {
        "AttentionDistance",
        "InContextLearning",
        "LossByPosition",
        "Copying",
        "MeanPattern",
    }
    weights = {"OVCopying", "QKOffset"}
    assert set(table["probe"]) >= (scores | weights) - without
    assert not set(table["probe"]) & without
    assert (table["value"].notna() | table["map"].notna()).all()
    relations = {"previous token", "duplicate token", "induction", "first token", "self"}
    assert set(table.loc[table["probe"] == "AttentionTo", "relation"]) == relations
    shares = table[table["quantity"].isin(["mass", "share"])]["value"]
    assert shares.between(-1e-6, 1 + 1e-6).all()


def test_nothing_is_left_out_because_a_model_is_large() -> None:
    batch = RepeatedTokens(64, length=24).probe_batch(8, seed=0)
    sizes = {"n_layers": 12, "d_model": 768, "d_head": 64, "n_heads": 12, "n_ctx": 1024}
    large = {type(p): p for p in default_probes(Architecture({**sizes, "d_vocab": 50_257}), batch)}
    small = {
        type(p): p for p in default_probes(Architecture({**sizes, "n_layers": 2, "n_heads": 2, "d_vocab": 64}), batch)
    }
    assert [kind for kind in large if kind is not HeadAttribution] == list(small)
    assert HeadAttribution in large
    assert large[HeadAblation] == HeadAblation(kinds=("mean",), exact=False)
    assert small[HeadAblation] == HeadAblation()
    assert small[MeanPattern] == MeanPattern()
    assert large[MeanPattern] == MeanPattern(20)  # 144 maps of 20 positions are 57,600 numbers


@pytest.mark.parametrize("outputs", [3, 20])
def test_a_model_that_predicts_other_tokens_than_it_reads_is_measured(outputs: int) -> None:
    config = {**full(12, 32, n_heads=2, d_model=8).config, "d_vocab_out": outputs}
    tokens = torch.randint(12, (4, 8), generator=torch.Generator().manual_seed(0))
    targets, scored = tokens % outputs + max(0, outputs - 12), torch.ones(4, 8, dtype=torch.bool)
    batch = Batch(tokens, targets, scored, {"itself": torch.eye(8, dtype=torch.bool).expand(4, 8, 8)})
    series = open_series([(0, models.build(Architecture(config)))])
    chosen = default_probes(series.architecture, batch)
    table = measure(series, chosen, batch, resamples=0, progress=False)
    assert set(table["probe"]) == {type(probe).__name__ for probe in chosen} >= {"Loss", "HeadAblation", "QKOffset"}
