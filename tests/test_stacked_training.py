"""Stacks: what one step changes of each run is what it changes of it alone."""

import dataclasses

import pytest
import torch

from stagewise import models
from stagewise._value_schedules import Steps
from stagewise.plan import Seeds
from stagewise.recipe import Recipe
from stagewise.stacked_training import Stack, rule_of
from stagewise.training import Training, prepare
from tests.fixtures.interruptible import FULL, PLAN, TASK

ROUNDING = 1e-6
"""Of weights of order one, after one step in float32 with sums in another order."""


def members(*rates: float) -> list[tuple[Recipe, Training]]:
    """Runs by SGD, whose step is the gradient itself, clipped to a tenth."""
    kind = dataclasses.replace(PLAN, optimiser="sgd", clip=0.1, weight_decay=0.0)
    plans = [
        dataclasses.replace(kind, learning_rate=rate, seeds=Seeds(seed, seed, seed)) for seed, rate in enumerate(rates)
    ]
    recipes = [Recipe(TASK, FULL, plan) for plan in plans]
    return [(recipe, prepare(recipe)) for recipe in recipes]


@pytest.mark.parametrize("rates", [(0.1, 0.1), (0.1, 0.02)])
def test_a_step_of_a_stack_is_a_step_of_each_run(rates: tuple[float, ...]) -> None:
    stacked, alone = members(*rates), members(*rates)
    stack = Stack(stacked, "float32")
    losses, norms = stack.update(0)
    for number, ((recipe, training), (_, own)) in enumerate(zip(stacked, alone, strict=True)):
        stack.take(number)
        loss = own.loss_at(0)
        gradients = torch.autograd.grad(loss, weights := list(models.parameters(own.model).values()), allow_unused=True)
        norm = torch.cat([each.flatten() for each in gradients if each is not None]).norm().item()
        assert (losses[number], norms[number]) == pytest.approx((loss.item(), norm), rel=1e-5)
        rate = recipe.plan.learning_rate * min(0.1 / norm, 1.0)
        for ours, weight, each in zip(models.parameters(training.model).values(), weights, gradients, strict=True):
            expected = weight if each is None else weight - rate * each
            torch.testing.assert_close(ours, expected, atol=ROUNDING, rtol=0)


def test_what_was_put_into_a_stack_is_taken_out_again() -> None:
    runs = members(0.1, 0.1)
    stack = Stack(runs, "float32")
    _, training = runs[1]
    with torch.no_grad():
        for weight in models.parameters(training.model).values():
            weight.fill_(2.0)
    stack.put(1)
    stack.take(0)
    stack.take(1)
    own, other = (models.parameters(each.model)["unembed.W_U"] for _, each in (runs[1], runs[0]))
    assert bool((own == 2).all())
    assert not bool((other == 2).any())


def test_runs_that_differ_in_seeds_share_a_rule_and_those_of_other_rates_do_not() -> None:
    (first, _), (second, _), (third, _) = members(0.1, 0.1, 0.02)
    assert rule_of(first) == rule_of(second) != rule_of(third)
    for path, other in (("plan.momentum", 0.9), ("plan.weight_decay", 0.1)):
        assert rule_of(dataclasses.replace(first, schedules={path: Steps((0.0, other), (3,))})) != rule_of(first)
    of_data = dataclasses.replace(first, schedules={"task.importance": Steps((1.7, 2.0), (3,))})
    assert rule_of(of_data) == rule_of(first)
