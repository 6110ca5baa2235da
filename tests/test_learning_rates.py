"""Jumps of a learning rate are named, schedules that change steadily are not."""

import math

import numpy as np
import pytest

from stagewise.learning_rates import is_rate, of_log

STEPS = np.arange(0, 2000, 20)
SCHEDULES = {
    "constant": np.ones(100),
    "warm-up, then constant": np.minimum(1, (1 + np.arange(100)) / 7),
    "warm-up, then linear decay": np.minimum((1 + np.arange(100)) / 7, np.linspace(1.05, 0, 100)),
    "cosine": np.cos(np.linspace(0, np.pi / 2, 100)),
    "inverse root": 1 / np.sqrt(1 + np.arange(100)),
    "exponential": 0.97 ** np.arange(100),
}


def logged(rates: np.ndarray) -> list[dict[str, object]]:
    entries: list[dict[str, object]] = [
        {"step": int(step), "learning_rate": float(rate)} for step, rate in zip(STEPS, rates, strict=True)
    ]
    return [*entries, {"step": 40, "eval_loss": 1.0}, {"learning_rate": "high"}, {}]


WARM_UP = {"warm-up, then constant": (0, 120), "warm-up, then linear decay": (0, 120)}


@pytest.mark.parametrize("name", SCHEDULES)
def test_of_a_schedule_that_changes_steadily_the_warm_up_alone_is_a_cause(name: str) -> None:
    causes = {"the learning rate's warm-up": WARM_UP[name]} if name in WARM_UP else {}
    assert of_log(logged(SCHEDULES[name])) == causes


def test_a_rate_that_rises_to_the_end_or_hardly_at_first_has_no_warm_up() -> None:
    for rates in (np.linspace(0.1, 1, 100), np.minimum(1, np.linspace(0.9, 1.5, 100)), np.ones(100)):
        assert of_log(logged(rates)) == {}


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize(("factor", "kind"), [(0.1, "drop"), (0.5, "drop"), (3.0, "rise")])
def test_a_jump_is_named_between_the_entries_around_it(name: str, factor: float, kind: str) -> None:
    rates = SCHEDULES[name] * np.where(STEPS >= 1000, factor, 1)
    *_, (cause, step) = of_log(logged(rates)).items()
    assert len(of_log(logged(rates))) == 1 + (name in WARM_UP)
    assert cause.startswith(f"the learning rate's {kind} to ")
    assert step == 990


def test_every_restart_of_a_schedule_is_named() -> None:
    def rate(step: int) -> float:
        return 5e-4 * (1 + math.cos(math.pi * (step % 1000) / 1000))

    history = [{"step": step, "learning_rate": rate(step)} for step in range(0, 3500, 50)]
    assert of_log(history) == {
        "the learning rate's rise to 0.001": 975,
        "the learning rate's rise to 0.001 (number 2)": 1975,
        "the learning rate's rise to 0.001 (number 3)": 2975,
    }


def test_a_log_without_rates_has_no_cause() -> None:
    assert of_log([]) == of_log([{"step": 3, "loss": 1.0}]) == {}


RATES = "lr_0,train_lr,current_lr,optim.lr,learning rate,Learning Rate,learning-rate,lr_scheduler,learningRate,x/lr0"
OTHERS = "clr,color,learning_curve,rate,lr/loss,loss_lr_0.1,learning/win rate,lrs - loss,lr - accuracy,lr_0.1/f1"


def test_the_learning_rate_is_known_by_a_word_of_its_name() -> None:
    assert [name for name in RATES.split(",") if not is_rate(name)] == []
    assert [name for name in OTHERS.split(",") if is_rate(name)] == []
