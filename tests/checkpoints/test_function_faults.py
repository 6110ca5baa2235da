"""A checkpoint that computes something else than its neighbours is named, whatever its weights look like."""

import dataclasses
from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor

from stagewise import models
from stagewise.architecture import Architecture
from stagewise.checkpoints.audit import Deep, audit
from stagewise.checkpoints.findings import Kind
from stagewise.checkpoints.sources import Source, by_hand
from stagewise.init import GaussianInit
from stagewise.processes import map_elsewhere
from stagewise.tasks import RepeatedTokens
from tests.fixtures.runs import AtOnce

TASK = RepeatedTokens(12, length=6)
SIZES = {"n_layers": 2, "d_model": 16, "d_head": 4, "n_heads": 4, "d_vocab": TASK.d_vocab, "n_ctx": TASK.n_ctx}
MODEL = Architecture({**SIZES, "attn_only": True}, GaussianInit(0.3))
DEEP = Deep(MODEL, TASK.probe_batch(16, seed=0))
STEPS = range(0, 100, 10)

State = dict[str, Tensor]


@pytest.fixture(scope="module")
def path() -> dict[int, State]:
    """Models on a bent path from one model to another, in whose weights nothing is planted."""
    start, end, aside = (models.weights(models.build(MODEL, seed)) for seed in range(3))

    def at(t: float) -> State:
        return {name: (1 - t) * start[name] + t * end[name] + 0.5 * t * (1 - t) * aside[name] for name in start}

    return {step: at(step / 1000) for step in STEPS}


def source(states: dict[int, State]) -> Source:
    return by_hand("bent", tuple(states), states.__getitem__)


def permuted(state: State) -> State:
    return {**state, "embed.W_E": state["embed.W_E"].roll(1, 0)}


def layers_exchanged(state: State) -> State:
    names = {name: name.replace("blocks.0", "blocks.x").replace("blocks.1", "blocks.0") for name in state}
    return {name: state[names[name].replace("blocks.x", "blocks.1")] for name in state}


def negated(state: State) -> State:
    return {name: -weight if name == "unembed.W_U" else weight for name, weight in state.items()}


def found(states: dict[int, State]) -> list[tuple[Kind, tuple[int, ...]]]:
    findings = audit(source(states), weights=False, deep=DEEP).findings
    return [(one.kind, one.steps) for one in findings]


def test_a_smooth_path_has_no_faults(path: dict[int, State]) -> None:
    assert not found(path)


def test_the_same_is_found_by_the_workers_of_an_executor(path: dict[int, State]) -> None:
    states, elsewhere = (
        source({**path, 50: negated(path[50])}),
        DEEP._replace(elsewhere=partial(map_elsewhere, AtOnce())),
    )
    assert audit(states, weights=False, deep=elsewhere) == audit(states, weights=False, deep=DEEP)


def test_a_series_of_which_no_checkpoint_fits_is_not_called_clean(path: dict[int, State]) -> None:
    renamed = {step: {f"other.{name}": weight for name, weight in state.items()} for step, state in path.items()}
    with pytest.raises(
        ValueError, match=r"the weights do not fit the model: blocks.0.attn.W_K: missing; .*; and .* more$"
    ):
        found(renamed)


@pytest.mark.each_value
@pytest.mark.parametrize("step", [10, 50, 80])
@pytest.mark.parametrize("change", [permuted, layers_exchanged, negated])
def test_a_checkpoint_whose_function_lies_off_the_path_is_named(
    change: Callable[[State], State], step: int, path: dict[int, State]
) -> None:
    assert found({**path, step: change(path[step])}) == [(Kind.OUTLYING_FUNCTION, (step,))]


def test_the_sentence_says_how_far_and_what_the_losses_are(path: dict[int, State]) -> None:
    result = audit(source({**path, 50: permuted(path[50])}), weights=False, deep=DEEP)
    assert "outlying function: step 50: its predictions are" in str(result)
    assert "times as far from its neighbours' as theirs are apart (loss " in str(result)


def test_the_last_checkpoint_is_judged_by_its_loss() -> None:
    """Learnt ever better: the output grows towards the targets, and is turned away from them at the last step."""
    built = models.weights(models.build(MODEL))
    eye = torch.eye(12)
    silent = {name: weight * 0 if ".attn." in name else weight for name, weight in built.items()}
    W_E = torch.nn.functional.pad(eye, (0, 4))
    tokens = TASK.probe_batch(16, seed=0)
    batch = dataclasses.replace(tokens, targets=tokens.tokens)
    states = {
        step: {
            **silent,
            "embed.W_E": W_E,
            "pos_embed.W_pos": silent["pos_embed.W_pos"] * 0,
            "unembed.W_U": W_E.T * step / 20,
        }
        for step in STEPS
    }
    deep = Deep(MODEL, batch)
    assert not audit(source(states), weights=False, deep=deep).findings
    states[90] = negated(states[90])
    (finding,) = audit(source(states), weights=False, deep=deep).findings
    assert (finding.kind, finding.steps) == (Kind.OUTLYING_FUNCTION, (90,))
    assert "its predictions are worse than its neighbours' (loss " in finding.message


def test_what_does_not_fit_or_is_not_finite_is_left_to_the_weights(path: dict[int, State]) -> None:
    states = dict(path)
    states[20] = {name: weight for name, weight in path[20].items() if "W_E" not in name}
    states[60] = {name: weight * torch.nan for name, weight in path[60].items()}
    assert not found(states)


def test_a_batch_of_other_tokens_is_refused(path: dict[int, State]) -> None:
    deep = Deep(MODEL, dataclasses.replace(DEEP.batch, tokens=DEEP.batch.tokens + 12))
    with pytest.raises(ValueError, match="the series bent"):
        audit(source(path), weights=False, deep=deep)
