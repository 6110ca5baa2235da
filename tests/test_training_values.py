"""Training: what is computed, from which seeds, on which models; what is refused."""

import dataclasses
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from torch import Generator

from stagewise import architectures
from stagewise import models as model
from stagewise.architecture import Architecture
from stagewise.checkpoints.run_folder import METRICS
from stagewise.checkpoints.series import open_series
from stagewise.init import AbstractInit, Config, GaussianInit, InitialWeights, Shapes, WithoutPositions
from stagewise.recipe import Recipe, Seeds, TrainPlan
from stagewise.tasks import MarkovChain, Windows
from stagewise.training import descend, train

FLOAT32 = 1e-6
"""Weights of order one after a few float32 updates, sums in another order."""

LOGITS = 1e-4
"""Logits of order one after a few updates of AdamW, which divides by the gradient's size."""

TASK = MarkovChain(d_vocab=4, spans=(1, 1), length=3, n_sequences=40)
FULL = architectures.full(4, TASK.n_ctx, n_heads=2, d_model=8, d_mlp=6)
PLAN = TrainPlan(steps=8, batch_size=6, learning_rate=0.05, save=frozenset({3, 5}))


def by_hand(recipe: Recipe, optimiser: Callable[[Any], torch.optim.Optimizer]) -> dict[str, torch.Tensor]:
    """The same training with the hooked model, a plain loop and torch's own optimiser and warm-up."""
    plan, built = recipe.plan, model.build(recipe.architecture, recipe.plan.seeds.init)
    stepper, stream = optimiser(built), recipe.task.stream(plan.seeds.data)
    rates = torch.optim.lr_scheduler.LambdaLR(stepper, plan.rate_factor)
    for step in range(plan.steps):
        batch = stream(step, plan.batch_size)
        log_probs = built(batch.tokens).log_softmax(-1)
        loss = -log_probs.gather(-1, batch.targets[..., None])[..., 0][batch.scored].mean()
        stepper.zero_grad()
        loss.backward()
        gradients = [weight.grad for weight in built.parameters() if weight.grad is not None]
        norm = math.sqrt(sum(float(gradient.square().sum()) for gradient in gradients))
        for gradient in gradients:
            gradient.mul_(min(1.0, (plan.clip or math.inf) / (norm + 1e-6)))
        stepper.step()
        rates.step()
    return model.weights(built)


@pytest.mark.parametrize(
    ("changes", "optimiser"),
    [
        ({}, lambda m: torch.optim.AdamW(m.parameters(), lr=0.05, weight_decay=0.01)),
        ({"warmup": 3, "cooldown": 4}, lambda m: torch.optim.AdamW(m.parameters(), lr=0.05, weight_decay=0.01)),
        (
            {"clip": 0.01, "optimiser": "sgd"},
            lambda m: torch.optim.SGD(m.parameters(), lr=0.05, weight_decay=0.01),
        ),
        (
            {"clip": None, "optimiser": "sgd", "momentum": 0.9, "weight_decay": 0.0},
            lambda m: torch.optim.SGD(m.parameters(), lr=0.05, momentum=0.9),
        ),
        (
            {"optimiser": "sgd", "weight_decay": 0.0, "rates": {"*.W_Q": 0.5, "*attn*": 0.0}},
            lambda m: torch.optim.SGD(
                [
                    {"params": [weight], "lr": 0.5 if "W_Q" in name else 0.0 if "attn" in name else 0.05}
                    for name, weight in model.parameters(m).items()
                ]
            ),
        ),
    ],
    ids=["adamw", "warm-up", "clipped sgd", "momentum", "rates by name"],
)
def test_training_is_what_a_plain_loop_does(
    changes: dict[str, Any], optimiser: Callable[..., torch.optim.Optimizer], tmp_path: Path
) -> None:
    recipe = Recipe(TASK, FULL, dataclasses.replace(PLAN, **changes))
    trained = train(recipe, tmp_path, progress=False).weights(8)
    for name, expected in by_hand(recipe, optimiser).items():
        if name.endswith("b_K"):
            continue  # it shifts all scores of a query alike: its gradient is noise, which AdamW scales up
        torch.testing.assert_close(trained[name], expected, atol=20 * FLOAT32, rtol=0, msg=f"{name}: {{}}".format)


def test_a_parameter_with_rate_zero_stays_and_the_others_move(tmp_path: Path) -> None:
    plan = dataclasses.replace(PLAN, rates={"*.W_Q": 0.0})
    series = train(Recipe(TASK, FULL, plan), tmp_path, progress=False)
    first, last = series.weights(0), series.weights(8)
    assert torch.equal(first["blocks.0.attn.W_Q"], last["blocks.0.attn.W_Q"])
    assert not torch.equal(first["blocks.0.attn.W_V"], last["blocks.0.attn.W_V"])


def test_the_three_seeds_decide_their_own_parts(tmp_path: Path) -> None:
    def states(name: str, **seeds: int) -> tuple[torch.Tensor, torch.Tensor]:
        plan = dataclasses.replace(PLAN, seeds=Seeds(**seeds))
        series = train(Recipe(TASK, FULL, plan), tmp_path / name, progress=False)
        return series.weights(0)["embed.W_E"], series.weights(8)["embed.W_E"]

    base, data, init = states("base"), states("data", data=1), states("init", init=1)
    evaluation = states("evaluation", evaluation=1)
    assert torch.equal(base[0], data[0])
    assert not torch.equal(base[1], data[1])
    assert not torch.equal(base[0], init[0])
    assert torch.equal(base[1], evaluation[1])


def test_training_leaves_the_global_generator_alone(tmp_path: Path) -> None:
    state = torch.get_rng_state()
    train(Recipe(dataclasses.replace(TASK, n_sequences=None), FULL, PLAN), tmp_path, progress=False)
    assert torch.equal(state, torch.get_rng_state())


def test_a_rate_that_names_no_parameter_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    plan = dataclasses.replace(PLAN, rates={"*.W_X": 0.1})
    with pytest.raises(ValueError, match=r"no parameter is called '\*\.W_X'; there are .*blocks.0.attn.W_Q"):
        train(Recipe(TASK, FULL, plan), tmp_path / "run", progress=False)
    assert not (tmp_path / "run").exists()


def test_a_config_that_cannot_be_built_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    broken = Architecture({**FULL.config, "act_fn": "no_such_function"})
    with pytest.raises(ValueError, match="TransformerLens refuses this config"):
        train(Recipe(TASK, broken, PLAN), tmp_path / "run", progress=False)
    assert not (tmp_path / "run").exists()


def test_a_loss_that_is_not_finite_stops_and_leaves_the_checkpoints_before_it(tmp_path: Path) -> None:
    plan = TrainPlan(steps=8, batch_size=6, optimiser="sgd", learning_rate=1e30, clip=None, save=frozenset(range(8)))
    with pytest.raises(FloatingPointError, match=r"the loss is (nan|inf) .* lower the learning rate .*are in"):
        train(Recipe(TASK, FULL, plan), tmp_path, progress=False)
    series = open_series(tmp_path)
    assert series.steps[0] == 0
    assert all(weight.isfinite().all() for _, state in series for weight in state.values())


@pytest.mark.each_value
@pytest.mark.parametrize("rate", [1e30, 3e38], ids=["the loss overflows", "the weights do"])
@pytest.mark.parametrize(("steps", "save"), [(1, ()), (3, (1, 2)), (3, (0, 3))], ids=["last", "every", "late"])
def test_a_model_that_is_not_finite_is_never_saved_not_even_after_the_last_update(
    steps: int, save: tuple[int, ...], rate: float, tmp_path: Path
) -> None:
    plan = TrainPlan(steps=steps, batch_size=6, optimiser="sgd", learning_rate=rate, clip=None, save=save)
    with pytest.raises(FloatingPointError, match=r"finite at step 1|the loss is (nan|inf) ") as caught:
        train(Recipe(TASK, FULL, plan), tmp_path, progress=False)
    assert str(caught.value).endswith(f"The checkpoints up to step 0 are in {tmp_path}")
    assert open_series(tmp_path).steps == (0,)
    with pytest.raises(FloatingPointError, match="step 0 are in"):  # again: the first one is still good
        train(Recipe(TASK, FULL, plan), tmp_path, progress=False)


def test_a_model_that_starts_with_an_infinite_weight_saves_nothing(tmp_path: Path) -> None:
    recipe = Recipe(TASK, dataclasses.replace(FULL, init=GaussianInit(std=1e39)), PLAN)
    with pytest.raises(FloatingPointError, match=r"is not finite at step 0; .* Nothing was saved"):
        train(recipe, tmp_path, progress=False)
    assert not (tmp_path / "checkpoints").exists()


USERS_MODELS = {
    "two layers": {"n_layers": 2},
    "rotary": {"positional_embedding_type": "rotary", "rotary_dim": 4},
    "gated MLP": {"gated_mlp": True, "act_fn": "silu", "normalization_type": "RMS"},
    "grouped queries": {"n_heads": 4, "n_key_value_heads": 2},
    "attn-only LNPre": {"attn_only": True, "normalization_type": "LNPre"},
    "larger than needed": {"n_ctx": 30, "d_vocab": 50},
    "its own seed": {"seed": 3},
}
if model.has_hooked_transformer():  # what transformer-lens 4 would ignore is refused there
    USERS_MODELS |= {
        "parallel": {"parallel_attn_mlp": True},
        "local attention": {"use_local_attn": True, "window_size": 2, "attn_types": ["local"]},
    }


@pytest.mark.one_of(3)
@pytest.mark.parametrize("change", USERS_MODELS.values(), ids=USERS_MODELS.keys())
def test_any_config_of_transformer_lens_trains_and_reopens(change: dict[str, Any], tmp_path: Path) -> None:
    config = {
        "n_layers": 1,
        "d_model": 8,
        "d_head": 4,
        "n_ctx": TASK.n_ctx,
        "d_vocab": 4,
        "act_fn": "relu",
        **change,
    }
    recipe = Recipe(TASK, config, dataclasses.replace(PLAN, steps=30))
    series = train(recipe, tmp_path, progress=False)
    loss = pd.read_parquet(tmp_path / METRICS)["loss"]
    assert loss[-5:].mean() < loss[:5].mean()
    assert open_series(tmp_path).architecture.n_heads == series.architecture.n_heads
    reopened = model.build(open_series(tmp_path).architecture)
    model.load(reopened, series.weights(30))


IDS = {"vocab_size": 4, "bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0}
WIDTHS = {"num_hidden_layers": 2, "num_attention_heads": 2, "hidden_size": 16, "intermediate_size": 24}


@pytest.mark.one_of(2)
@pytest.mark.parametrize("kind", ["GPT2", "GPTNeoX", "Llama", "Gemma2"])
def test_a_hugging_face_config_trains_as_plain_transformers_does(kind: str, tmp_path: Path) -> None:
    import transformers

    # Not AdamW: it divides a gradient that is rounding alone by its own size, and moves that weight by the whole rate.
    plan = dataclasses.replace(PLAN, optimiser="sgd", momentum=0.9)
    sizes = {"n_layer": 2, "n_head": 2, "n_embd": 16, "n_positions": 8} if kind == "GPT2" else WIDTHS
    sizes = {**sizes, "head_dim": 8, "num_key_value_heads": 1} if kind == "Gemma2" else sizes
    config = getattr(transformers, f"{kind}Config")(**IDS, **sizes)
    series = train(Recipe(TASK, config, plan), tmp_path, progress=False)
    torch.manual_seed(plan.seeds.init)
    plain = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
    optimiser = torch.optim.SGD(plain.parameters(), lr=plan.learning_rate, momentum=0.9, weight_decay=plan.weight_decay)
    stream = TASK.stream(plan.seeds.data)
    for step in range(plan.steps):
        batch = stream(step, plan.batch_size)
        loss = torch.nn.functional.cross_entropy(plain(batch.tokens).logits[batch.scored], batch.targets[batch.scored])
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(plain.parameters(), plan.clip or math.inf)
        optimiser.step()
    tokens = TASK.sample(4, 0).tokens
    with torch.no_grad():
        expected = plain(tokens).logits
        assert (series.model(0)(tokens) - expected).abs().max() > 100 * LOGITS
        torch.testing.assert_close(series.model(plan.steps)(tokens), expected, atol=LOGITS, rtol=0)


def test_windows_train_too(tmp_path: Path) -> None:
    task = Windows(TASK, 2)
    assert train(Recipe(task, architectures.minimal(4, 2), PLAN), tmp_path, progress=False).steps == (
        0,
        3,
        5,
        8,
    )


@dataclasses.dataclass(frozen=True)
class ConstantInit(AbstractInit):
    value: float = 0.1

    def initial(self, cfg: Config, shapes: Shapes, generator: Generator) -> InitialWeights:
        return InitialWeights({name: torch.full(tuple(shape), self.value) for name, shape in shapes.items()})


def test_a_users_own_initialisation_trains_and_reopens(tmp_path: Path) -> None:
    recipe = Recipe(TASK, Architecture(FULL.config, ConstantInit(0.2)), PLAN)
    series = train(recipe, tmp_path, progress=False)
    assert (series.weights(0)["embed.W_E"] == torch.tensor(0.2)).all()
    assert open_series(tmp_path, classes=[ConstantInit]).architecture == recipe.architecture
    assert open_series(tmp_path).architecture == recipe.architecture  # the record says where the class is


@dataclasses.dataclass(frozen=True)
class TrainedElsewhere(ConstantInit):
    @property
    def trained_by(self) -> str:
        return "`another command`"


@pytest.mark.parametrize("init", [TrainedElsewhere(), WithoutPositions(TrainedElsewhere())], ids=["it", "wrapped"])
def test_a_model_that_another_command_trains_is_refused(init: AbstractInit, tmp_path: Path) -> None:
    recipe = Recipe(TASK, Architecture(FULL.config, init), PLAN)
    with pytest.raises(ValueError, match="is trained by `another command` alone"):
        train(recipe, tmp_path, progress=False)
    assert not (tmp_path / "run.json").exists()


def test_training_takes_one_step_after_the_other_and_stops_where_the_loop_is_left() -> None:
    weight = torch.nn.Parameter(torch.tensor(1.0))
    seen = {step: weight.item() for step in descend(torch.optim.SGD([weight], 0.5), lambda _: weight**2 / 2, 2, 5)}
    assert seen == {2: 1.0, 3: 0.5, 4: 0.25, 5: 0.125}
