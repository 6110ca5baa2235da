"""Faults that the weights show: found in one reading, each named once, with what else is wrong beside it."""

import dataclasses
import functools
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import Tensor

from stagewise import models
from stagewise.architecture import Architecture
from stagewise.checkpoints._weight_faults import weight_faults
from stagewise.checkpoints._weight_files import Contents
from stagewise.checkpoints.audit import Deep, audit
from stagewise.checkpoints.findings import Audit, Kind
from stagewise.checkpoints.names import Coordinates
from stagewise.checkpoints.series import find
from stagewise.checkpoints.sources import Entry, Source, by_hand
from stagewise.init import GaussianInit
from stagewise.models import HELD_KEYS
from stagewise.processes import map_elsewhere
from stagewise.tasks import RepeatedTokens
from tests.checkpoints.walks import Series, series
from tests.fixtures.runs import AtOnce


def found_in(checkpoints: Series) -> Audit:
    return audit(find([(10 * k, one) for k, one in enumerate(checkpoints)]))


def kinds(found: Audit) -> set[tuple[Kind, tuple[int, ...]]]:
    return {(one.kind, one.steps) for one in found.findings}


@pytest.mark.one_of(3)
@pytest.mark.parametrize("kind", ["drift", "walk", "noise"])
def test_a_series_that_was_not_touched_has_none(kind: str) -> None:
    assert found_in(series(kind, n=20)).clean


def test_each_checkpoint_is_read_once_and_none_is_kept() -> None:
    checkpoints = series("walk", n=30)
    reads: list[int] = []
    held: list[dict[str, torch.Tensor]] = []

    def load(step: int) -> Callable[[], Contents]:
        def once() -> Contents:
            reads.append(step)
            held[:] = [checkpoints[step]]
            return Contents(held[0])

        return once

    entries = tuple(Entry(f"c{step}", Coordinates(step), load(step), lambda: None) for step in range(30))
    assert not [*weight_faults(Source("mine", entries), entries, set())]
    assert reads == [*range(30)]


def test_keys_that_a_clamp_holds_from_a_step_on_are_none() -> None:
    checkpoints = series("walk", n=20)
    for one in checkpoints[12:]:
        one[f"blocks.0.{HELD_KEYS}"] = torch.ones(2, 3, 3, dtype=torch.bool).tril()
    assert found_in(checkpoints).clean


def test_several_faults_are_found_side_by_side() -> None:
    checkpoints = series("walk", n=30)
    checkpoints[3], checkpoints[4] = checkpoints[4], checkpoints[3]
    checkpoints[10]["w1"] = -checkpoints[10]["w1"]
    checkpoints[15]["w2"] = checkpoints[14]["w2"]
    checkpoints[22] = checkpoints[21]
    assert kinds(found_in(checkpoints)) == {
        (Kind.EXCHANGED, (30, 40)),
        (Kind.OUTLYING_WEIGHTS, (100,)),
        (Kind.WEIGHTS_OF_ANOTHER_STEP, (150,)),
        (Kind.IDENTICAL_WEIGHTS, (210, 220)),
    }


def test_a_mask_of_infinities_that_never_changes_is_no_weight() -> None:
    checkpoints = series("walk")
    for one in checkpoints:
        one["mask"] = torch.full((8, 8), -torch.inf).triu(1)
    assert found_in(checkpoints).clean
    checkpoints[4]["mask"] = torch.full((8, 8), torch.nan)
    assert kinds(found_in(checkpoints)) >= {(Kind.NON_FINITE_WEIGHTS, (40,))}


def test_weights_that_are_nan_throughout_are_named() -> None:
    checkpoints = series("walk", n=4)
    for one in checkpoints:
        one["w0"] = torch.full((3, 3), torch.nan)
    assert kinds(found_in(checkpoints)) == {(Kind.NON_FINITE_WEIGHTS, (10 * k,)) for k in range(4)}


def test_weights_that_were_rounded_are_of_another_type() -> None:
    checkpoints = series("walk")
    checkpoints[6] = {name: weight.bfloat16().float() for name, weight in checkpoints[6].items()}
    (found,) = [one for one in found_in(checkpoints).findings if one.kind is Kind.OTHER_TYPES]
    assert found.steps == (60,)
    assert "w0 is torch.float32 rounded to bfloat16, usually torch.float32" in found.message


def test_branches_have_paths_of_their_own() -> None:
    paths = {"a": series("walk", seed=1), "b": series("walk", seed=2)}
    paths["b"][7]["w0"] = 3 * paths["b"][7]["w0"]
    entries = tuple(
        Entry(f"{branch}-{step}", Coordinates(step, branch=branch), functools.partial(Contents, one), lambda: None)
        for branch, path in paths.items()
        for step, one in enumerate(path)
    )
    (found,) = weight_faults(Source("mine", entries), entries, set())
    assert (found.branch, found.steps) == ("b", (7,))


@pytest.mark.parametrize("key", ["step", "global_step", "iter_num"])
def test_a_step_that_a_file_holds_itself_is_compared_with_its_name(key: str, tmp_path: Path) -> None:
    for step, one in enumerate(series("walk", n=6)):
        torch.save({"model": one, key: 10 * step if step != 4 else 30}, tmp_path / f"model_{10 * step}.pt")
    (found,) = audit(find(tmp_path)).findings
    assert (found.kind, found.steps, found.other_step) == (Kind.OTHER_STEP_RECORDED, (40,), 30)
    assert found.message == "model_40.pt: its name says step 40, its file 30"


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float16, torch.bfloat16, torch.float64])
def test_series_of_any_type_are_clean(dtype: torch.dtype) -> None:
    checkpoints = [{name: weight.to(dtype) for name, weight in one.items()} for one in series("walk")]
    found = found_in(checkpoints)
    assert found.clean, str(found)


@pytest.mark.one_of(5)
@pytest.mark.parametrize("equal", [12, 15, 19, 20, 21])
def test_copies_are_found_where_most_checkpoints_are_one(equal: int) -> None:
    checkpoints = series("walk", n=21)
    for one in checkpoints[:equal]:
        one |= checkpoints[0]
    found = weight_faults(Source("mine", ()), entries_of(checkpoints), set())
    assert [(one.kind, one.steps) for one in found] == [(Kind.IDENTICAL_WEIGHTS, (*range(0, 10 * equal, 10),))]


def test_copies_among_many_hide_no_other_fault() -> None:
    checkpoints = series("walk", n=40)
    for one in checkpoints[:22]:
        one |= checkpoints[0]
    checkpoints[30]["w1"] = -checkpoints[30]["w1"]
    found = [(one.kind, one.steps) for one in weight_faults(Source("mine", ()), entries_of(checkpoints), set())]
    assert found == [(Kind.IDENTICAL_WEIGHTS, (*range(0, 220, 10),)), (Kind.OUTLYING_WEIGHTS, (300,))]


def entries_of(checkpoints: Series) -> list[Entry]:
    """Checkpoints whose files are not the same, whatever their weights are."""
    return [
        Entry(f"c{k}", Coordinates(10 * k), functools.partial(Contents, one), lambda: None)
        for k, one in enumerate(checkpoints)
    ]


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
