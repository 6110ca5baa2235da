"""Clamps: what is held does not move, everything else trains as if it were not there."""

import dataclasses
from pathlib import Path

import pytest
import torch
from torch import Tensor

from stagewise import architectures, models
from stagewise.architecture import Architecture
from stagewise.checkpoints.series import CheckpointSeries
from stagewise.init import GaussianInit
from stagewise.loss import training_loss
from stagewise.measurement.engine import measure
from stagewise.models import _native as native
from stagewise.models._clamps import _HELD, Clamps, targets
from stagewise.models._held_attention import held_keys
from stagewise.papers.tasks import AssociativeRecall
from stagewise.plan import ClampHead, TrainPlan
from stagewise.probes import AttentionTo, HeadAblation, RestrictedContextKL
from stagewise.recipe import Recipe
from stagewise.table import select
from stagewise.tasks import MarkovChain
from stagewise.training import train

pytestmark = pytest.mark.usefixtures("unchecked")

TASK = MarkovChain(d_vocab=4, spans=(1, 1), length=3, n_sequences=40)
FULL = architectures.full(4, TASK.n_ctx, n_layers=2, n_heads=2, d_model=8, d_mlp=6)
ROTARY = Architecture({**FULL.config, "positional_embedding_type": "rotary", "n_key_value_heads": 1})
MINIMAL = architectures.minimal(4, TASK.n_ctx, n_heads=3)
PLAN = TrainPlan(steps=8, batch_size=6, learning_rate=0.05, save=range(8), states=(4,))


def clamped_run(
    folder: Path, clamp: ClampHead | None, made: Architecture = FULL, plan: TrainPlan = PLAN
) -> CheckpointSeries:
    clamps = None if clamp is None else (clamp,)
    return train(Recipe(TASK, made, dataclasses.replace(plan, clamps=clamps)), folder, progress=False)


def equal(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return all(torch.equal(one[name], other[name]) for name in one)


@pytest.fixture(scope="module")
def free(tmp_path_factory: pytest.TempPathFactory) -> CheckpointSeries:
    return clamped_run(tmp_path_factory.mktemp("free"), None)


def clamp_of(kind: str, layer: int, head: int, start: int) -> ClampHead:
    return ClampHead(layer, head, start, kind, "I(2)" if kind == "relation" else None)  # type: ignore[arg-type]


@pytest.mark.one_of(3)
@pytest.mark.parametrize("kind", _HELD)
def test_a_clamped_run_is_the_free_one_up_to_its_start_and_another_after_it(
    kind: str, free: CheckpointSeries, tmp_path: Path
) -> None:
    clamped = clamped_run(tmp_path, clamp_of(kind, 1, 0, 3))
    assert free.weights(3).keys() == clamped.weights(3).keys()
    same = [equal(dict(free.weights(step)), dict(clamped.weights(step))) for step in range(9)]
    assert same == [True] * 4 + [False] * 5


@pytest.mark.each_value
@pytest.mark.parametrize("optimiser", ["adamw", "sgd"])
@pytest.mark.parametrize("kind", ["out", "weights", "pattern", "uniform"])
def test_what_is_held_stays_and_the_other_head_trains(kind: str, optimiser: str, tmp_path: Path) -> None:
    plan = dataclasses.replace(PLAN, optimiser=optimiser, momentum=0.9, weight_decay=0.1)  # type: ignore[arg-type]
    series = clamped_run(tmp_path, ClampHead(0, 1, 3, kind), plan=plan)  # type: ignore[arg-type]
    start, after, last = (series.weights(step) for step in (3, 4, 8))
    for part in _HELD[kind]:
        name = f"blocks.0.attn.{part}"
        is_zero = part == "W_O" if kind == "out" else kind == "uniform" and part in ("W_Q", "b_Q")
        expected = torch.zeros_like(start[name][1]) if is_zero else start[name][1]
        assert torch.equal(after[name][1], expected)
        assert torch.equal(last[name][1], expected)
        assert part == "b_K" or not torch.equal(last[name][0], start[name][0])  # softmax is blind to b_K
    free = {"W_Q", "W_K", "W_V", "W_O"} - set(_HELD[kind])
    assert all(not torch.equal(last[f"blocks.0.attn.{part}"][1], start[f"blocks.0.attn.{part}"][1]) for part in free)


@pytest.mark.one_of(2)
@pytest.mark.parametrize("made", [FULL, ROTARY], ids=["full", "rotary, shared keys"])
def test_a_head_held_at_uniform_attends_evenly_and_one_held_out_writes_nothing(
    made: Architecture, tmp_path: Path
) -> None:
    tokens = TASK.sample(5, seed=1).tokens
    model = models.build(made)
    models.load(model, clamped_run(tmp_path / "uniform", ClampHead(1, 1, 2, "uniform"), made).weights(8))
    _, found = models.clean_pass(model, tokens, ["blocks.1.attn.hook_pattern"])
    length = tokens.shape[1]
    even = torch.ones(length, length).tril() / torch.arange(1, length + 1)[:, None]
    torch.testing.assert_close(found["blocks.1.attn.hook_pattern"][:, 1], even.expand(5, -1, -1))
    models.load(model, clamped_run(tmp_path / "out", ClampHead(1, 1, 2), made).weights(8))
    clean, _ = models.clean_pass(model, tokens, [])
    weights = models.weights(model)
    for part in ("W_Q", "b_Q"):  # whatever it attends to, nothing comes of it
        weights[f"blocks.1.attn.{part}"][1] = torch.randn_like(weights[f"blocks.1.attn.{part}"][1])
    models.load(model, weights)
    torch.testing.assert_close(models.clean_pass(model, tokens, [])[0], clean)


def test_a_kick_has_the_norm_of_the_head_and_leaves_padding_alone() -> None:
    model = models.build(architectures.minimal(4, TASK.n_ctx, n_heads=2))
    name = "blocks.0.attn.W_V"
    start = models.weights(model)
    start[name][:, :4, :4] = torch.randn(2, 4, 4, generator=torch.Generator().manual_seed(0))
    models.load(model, start)
    before = models.weights(model)
    Clamps(model, [ClampHead(0, 1, 5, "kick")]).begin(5)
    change = models.weights(model)[name] - before[name]
    torch.testing.assert_close(change.norm(), before[name][1].norm())
    assert not change[before[name] == 0].any()


def test_a_kick_of_a_head_that_writes_nothing_yet_is_refused() -> None:
    made = dataclasses.replace(FULL, init=GaussianInit(stds={"*.W_O": 0.0}))
    model = models.build(made)
    with pytest.raises(ValueError, match=r"kick of L1H0 pushes by .* its W_O, which is zero at step 0.* later"):
        Clamps(model, [ClampHead(1, 0, 0, "kick")]).begin(0)


def test_a_kick_moves_the_values_that_heads_share_where_w_o_does_not_train() -> None:
    model = models.build(ROTARY)
    models.parameters(model)["blocks.1.attn.W_O"].requires_grad = False
    before = models.weights(model)
    Clamps(model, [ClampHead(1, 1, 5, "kick")]).begin(5)
    after = models.weights(model)
    change = after["blocks.1.attn._W_V"] - before["blocks.1.attn._W_V"]
    torch.testing.assert_close(change.norm(), before["blocks.1.attn._W_V"][0].norm())
    assert equal({name: after[name] for name in after if not name.endswith("1.attn._W_V")}, before)


@pytest.mark.parametrize("kind", ["out", "kick"])
def test_heads_that_are_one_by_symmetry_stay_one_but_for_those_that_a_clamp_parts(kind: str, tmp_path: Path) -> None:
    made = architectures.minimal(4, TASK.n_ctx, 3, architectures.OneHotInit(query_scale=0.0))
    plan = dataclasses.replace(PLAN, optimiser="sgd", learning_rate=1.0, weight_decay=0.0, clip=None)
    series = clamped_run(tmp_path, clamp_of(kind, 0, 1, 3), made, plan)
    model = models.build(made)
    models.load(model, dict(series.weights(3)))
    Clamps(model, [clamp_of(kind, 0, 1, 3)]).begin(3)
    start = models.weights(model)["blocks.0.attn.W_V"]
    batch = TASK.stream(plan.seeds.data)(3, plan.batch_size)
    loss = training_loss(model(batch.tokens)[batch.scored], batch.targets[batch.scored])
    loss.backward()
    named, native_model = models.parameters(model)["blocks.0.attn.W_V"], models.is_native(model)
    assert named.grad is not None
    gradient = native.hooked("blocks.0.attn.W_V", named.grad, model.cfg) if native_model else named.grad
    if kind == "out":
        gradient = torch.stack([gradient[[0, 2]].mean(0), torch.zeros_like(gradient[1]), gradient[[0, 2]].mean(0)])
    torch.testing.assert_close(series.weights(4)["blocks.0.attn.W_V"], start - gradient)


@pytest.mark.one_of(2)
@pytest.mark.parametrize("kind", ["out", "relation"])
def test_a_clamped_run_that_was_interrupted_resumes_with_the_same_bits(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clamp = clamp_of(kind, 0, 0, 3)
    whole = clamped_run(tmp_path / "whole", clamp)
    for stopped in (3, 5):
        with monkeypatch.context() as patch:
            patch.setattr("stagewise.training._check_model", stop_at(stopped))
            with pytest.raises(KeyboardInterrupt):
                clamped_run(tmp_path / "cut", clamp)
    resumed = clamped_run(tmp_path / "cut", clamp)
    assert all(equal(dict(whole.weights(step)), dict(resumed.weights(step))) for step in range(9))


def stop_at(step: int) -> object:
    def check(reached: int, *_: object) -> None:
        if reached == step:
            raise KeyboardInterrupt

    return check


def test_a_head_that_the_model_does_not_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no head L2H0: the model has 2 layers of 2 heads"):
        clamped_run(tmp_path, ClampHead(2, 0, 3))
    assert not tmp_path.joinpath("run.json").exists()


def test_a_clamp_that_starts_when_training_has_ended_is_refused() -> None:
    with pytest.raises(ValueError, match=r"starts before step 8, the last one \(`steps`\), got 8"):
        dataclasses.replace(PLAN, clamps=(ClampHead(0, 0, 8),))


@pytest.mark.one_of(3)
@pytest.mark.parametrize("made", [FULL, ROTARY, MINIMAL], ids=["full", "rotary, shared keys", "minimal"])
def test_after_its_start_a_head_held_at_a_relation_attends_to_that_and_before_it_as_it_has_learnt(
    made: Architecture, tmp_path: Path
) -> None:
    layer = made.n_layers - 1
    series, batch = clamped_run(tmp_path, clamp_of("relation", layer, 1, 3), made), TASK.probe_batch(6, 0)
    model, name = models.build(made), f"blocks.{layer}.attn.hook_pattern"
    relation = batch.relations["I(2)"]
    starts = relation.any(-1)
    for step in (*range(3, 9), 3):  # the last one opens without the clamp again
        models.load(model, series.weights(step))
        pattern = models.clean_pass(model, batch.tokens, [name])[1][name]
        is_held = torch.equal(pattern[:, 1][starts], relation[starts].float())  # I(2) is a single lag
        assert is_held == (step > 3)
        assert not torch.equal(pattern[:, 0][starts], relation[starts].float())


def test_every_probe_reads_a_held_head_with_lean_passes_and_with_hooks(tmp_path: Path) -> None:
    series, batch = clamped_run(tmp_path, clamp_of("relation", 1, 1, 3))[3:], TASK.probe_batch(30, 0)
    probes = [AttentionTo(), RestrictedContextKL(), HeadAblation()]
    tables = [measure(series, probes, batch, by_hooks=by_hooks, progress=False) for by_hooks in (False, True)]
    for quantity in ("mass", "along"):
        mass = select(tables[0], "AttentionTo", quantity, relation="I(2)", layer=1, head=1).set_index("step")["value"]
        assert mass[3] < 0.9
        assert (mass[4:] == 1).all()
    for one, other in zip(*(table["value"] for table in tables), strict=True):
        assert one == pytest.approx(other, abs=1e-5)


def test_several_relations_of_one_layer_are_held_and_the_later_one_of_a_head(tmp_path: Path) -> None:
    model = models.build(FULL)
    plan = [ClampHead(1, 0, 4, "relation", "I(2)"), ClampHead(1, 0, 2, "relation", "I(1)"), clamp_of("out", 0, 0, 1)]
    plan.append(ClampHead(1, 1, 3, "relation", "I(1)"))
    clamps = Clamps(model, plan, (relations := targets(TASK, plan)))
    expected = {1: (), 2: ("I(1)", None), 3: ("I(1)", "I(1)"), 4: ("I(2)", "I(1)")}
    for step, names in expected.items():
        clamps.begin(step)
        nothing = torch.zeros(TASK.n_ctx, TASK.n_ctx, dtype=torch.bool)
        keys = [relations.get(name or "", nothing) for name in names]
        assert torch.equal(held_keys(model).get(1, torch.zeros(0)), torch.stack(keys) if keys else torch.zeros(0))


def test_a_relation_that_cannot_be_held_is_refused_and_those_that_can_are_named(tmp_path: Path) -> None:
    recall = AssociativeRecall(n_pairs=2, n_tokens=6)
    known = "'value to key', 'previous token'"
    with pytest.raises(ValueError, match=rf"'query to value' .* other keys in each sequence, .* held at are {known}"):
        targets(recall, [ClampHead(0, 0, 3, "relation", "query to value")])
    with pytest.raises(ValueError, match=r"MarkovChain has no relation 'I\(9\)' .* are 'I\(1\)', 'I\(2\)'"):
        train(Recipe(TASK, FULL, dataclasses.replace(PLAN, clamps=(ClampHead(0, 0, 3, "relation", "I(9)"),))), tmp_path)
    assert not tmp_path.joinpath("run.json").exists()
    for wrong in ({"kind": "relation"}, {"relation": "I(1)"}):
        with pytest.raises(ValueError, match='of the kind "relation" names one, and no other does'):
            ClampHead(0, 0, 3, **wrong)  # type: ignore[arg-type]
