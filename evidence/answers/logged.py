"""Curves as a training logs them, with a planted truth: jumps, spikes, ends, drops of the rate, and none of these."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from evidence.answers.case import Case, Change, Truth
from evidence.answers.planting import LAST, Generator, correlated, generator, logistic
from evidence.answers.told import CAUSE, DIVERGED, GROKKING, OVERFITTING, SPIKE
from stagewise import read_log

NOISE = 0.01
"""Deviation of the noise of a logged accuracy; a loss has twice as much."""

EVEN = np.arange(0.0, LAST + 1, 50)
"""An evaluation every fifty steps."""

WIDTH = 0.06
"""Of a jump, in e-folds of steps, which is a fifth between 10 and 90 %."""

Columns = Mapping[str, np.ndarray]
Make = Callable[[Generator, np.ndarray], Columns]


class Log(NamedTuple):
    """A log to plant: the truth, its columns, and the steps at which they were logged."""

    sentence: str
    make: Make
    truth: Truth = Truth()
    steps: np.ndarray = EVEN


def accuracy(g: Generator, t: np.ndarray, *at: float, before: float = 0.1, after: float = 0.9) -> np.ndarray:
    """Return an accuracy that rises at these steps, by as much at each."""
    rises = sum((logistic(t, one, WIDTH) for one in at), 0 * t)
    return np.asarray(before + (after - before) / max(len(at), 1) * rises + NOISE * g.standard_normal(len(t)))


def loss(g: Generator, t: np.ndarray, *at: float, fall: float = 1.5) -> np.ndarray:
    """Return a loss that falls as a power of the step, and by so much at these steps."""
    smooth = 1.5 + 2.5 * (1 + t / 20) ** -0.5
    falls = sum((fall * logistic(t, one, WIDTH) for one in at), 0 * t) / max(len(at), 1)
    return np.asarray(smooth - falls + _noise(g, t))


def _noise(g: Generator, t: np.ndarray) -> np.ndarray:
    return 2 * NOISE * g.standard_normal(len(t))


def one(*at: float, lost: bool = False, cause: bool = False) -> Truth:
    """Return the truth of changes at these steps."""
    return Truth(tuple(Change(step, step, lost=lost, cause=cause) for step in at))


def kind(*names: str) -> Truth:
    """Return the truth of a run without transitions of which this has to be told."""
    return Truth(kinds=frozenset(names))


def _spike(height: float, at: float, width: float) -> Make:
    return lambda g, t: {"loss": loss(g, t) + height * np.exp(-np.maximum(t - at, 0) / width) * (t >= at)}


def _overfitted(g: Generator, t: np.ndarray) -> Columns:
    late = np.maximum(t - 1200, 0) / 1000
    return {"train_loss": 0.2 + 3 * (1 + t / 100) ** -0.8 + _noise(g, t), "val_loss": loss(g, t) + 0.4 * late**1.3}


def _until_nan(g: Generator, t: np.ndarray) -> Columns:
    return {"loss": np.where(t > 2400, np.nan, loss(g, t)), "grad_norm": np.where(t > 2400, np.nan, 1 + _noise(g, t))}


def _until_infinite(g: Generator, t: np.ndarray) -> Columns:
    grown = loss(g, t) + np.exp(np.clip((t - 2000) / 40, 0, 12)) - 1
    return {"loss": np.where(t > 2400, np.inf, grown)}


def _dropped_rate(g: Generator, t: np.ndarray) -> Columns:
    after = np.maximum(t - 1500, 0)
    return {
        "loss": 2 + 2 * (1 + np.minimum(t, 1500) / 20) ** -0.4 - 0.5 * (1 - np.exp(-after / 60)) + _noise(g, t),
        "learning_rate": np.where(t < 1500, 1e-3, 1e-4),
    }


def _warmed_up(g: Generator, t: np.ndarray) -> Columns:
    return {"loss": loss(g, t), "learning_rate": 1e-3 * np.minimum(t / 300, 1)}


def _jump_in_warm_up(g: Generator, t: np.ndarray) -> Columns:
    return {
        "accuracy": accuracy(g, t, 700),
        "loss": loss(g, t, 700),
        "learning_rate": 1e-3 * np.minimum(t / 1200, 1),
    }


def _grokked(g: Generator, t: np.ndarray) -> Columns:
    return {
        "train_accuracy": accuracy(g, t, 400, before=0.02, after=0.99),
        "test_accuracy": accuracy(g, t, 2000, before=0.02, after=0.99),
    }


def _forgotten(g: Generator, t: np.ndarray) -> Columns:
    skill = logistic(t, 500, WIDTH) - logistic(t, 1900, WIDTH / 2)
    return {
        "accuracy": 0.1 + 0.8 * skill + NOISE * g.standard_normal(len(t)),
        "loss": 3.5 - 2 * skill + _noise(g, t),
    }


def _suite(g: Generator, t: np.ndarray) -> Columns:
    ends = g.uniform(0.5, 0.9, 8)
    rise = logistic(t, 900, 0.15)
    return {f"task_{i}": g.binomial(500, 0.05 + (end - 0.05) * rise) / 500 for i, end in enumerate(ends)}


def _units(g: Generator, t: np.ndarray) -> Columns:
    return {"loss_bytes": 1000 * loss(g, t, 1100), "perplexity": np.exp(loss(g, t, 1100))}


def _both(*at: float) -> Make:
    return lambda g, t: {"accuracy": accuracy(g, t, *at), "loss": loss(g, t, *at)}


def _clumps(*starts: float) -> np.ndarray:
    return np.concatenate([[0.0], *(start + np.arange(0, 120.0, 10) for start in starts), [LAST]])


LOGARITHMIC = np.unique(np.concatenate([[0.0], np.geomspace(1, LAST, 60).round()]))
UNEVEN = np.unique(np.sort(np.random.default_rng(4).choice(np.arange(0.0, LAST + 1, 10), 60, replace=False)))
FORGOTTEN = Truth((Change(500, 500), Change(1900, 1900, lost=True)))

LOGS: Mapping[str, Log] = {
    "jump of an accuracy": Log(
        "One jump, half-way at step 1200.", lambda g, t: {"accuracy": accuracy(g, t, 1200)}, one(1200)
    ),
    "jump of accuracy and loss": Log("One event at step 1200, seen by two curves.", _both(1200), one(1200)),
    "jump of eight tasks": Log("One event at step 900, seen by eight accuracies of 500 answers.", _suite, one(900)),
    "jump in other units": Log("One fall at step 1100, in millinats and as perplexity.", _units, one(1100)),
    "jump beside noise": Log(
        "One jump at step 1500; eleven other curves hold noise alone.",
        lambda g, t: {"accuracy": accuracy(g, t, 1500), **{f"noise_{i}": g.standard_normal(len(t)) for i in range(11)}},
        one(1500),
    ),
    "two jumps": Log(
        "Two events, at steps 500 and 1800, each seen by accuracy and loss.", _both(500, 1800), one(500, 1800)
    ),
    "three jumps": Log(
        "Three events, at steps 300, 900 and 2000.",
        lambda g, t: {"accuracy": accuracy(g, t, 300, 900, 2000)},
        one(300, 900, 2000),
    ),
    "grokking": Log(
        "Training accuracy rises at step 400, test accuracy long after, at 2000.",
        _grokked,
        one(400, 2000)._replace(kinds=frozenset({GROKKING})),
    ),
    "skill lost again": Log("A skill is learned at step 500 and lost at 1900.", _forgotten, FORGOTTEN),
    "spike of three nats": Log(
        "A smooth loss with a spike of three nats at step 1800, gone after two evaluations.",
        _spike(3, 1800, 25),
        kind(SPIKE),
    ),
    "spike of one evaluation": Log(
        "A smooth loss with one value too high by 1.5, at step 900.", _spike(1.5, 900, 5), kind(SPIKE)
    ),
    "validation turns up": Log(
        "No transition: the training loss falls on, the validation loss turns up from step 1200 on: overfitting.",
        _overfitted,
        kind(OVERFITTING),
    ),
    "ends in NaN": Log("A smooth loss, which is no number after step 2400.", _until_nan, kind(DIVERGED)),
    "ends in infinity": Log(
        "A smooth loss that blows up after step 2000 and is infinite after 2400.", _until_infinite, kind(DIVERGED)
    ),
    "learning rate drops": Log(
        "No transition: the loss falls by .5 when the learning rate drops at step 1500, and slows down.",
        _dropped_rate,
        kind(CAUSE),
    ),
    "warm-up": Log("No transition: a smooth loss; the warm-up ends at step 300.", _warmed_up),
    "jump within a warm-up": Log(
        "One event at step 700, within a warm-up of 1200 steps.",
        _jump_in_warm_up,
        one(700, cause=True),
    ),
    "power law": Log("A smooth power law.", lambda g, t: {"loss": loss(g, t)}),
    "line": Log("A straight line.", lambda g, t: {"score": 0.1 + 0.7 * t / LAST + NOISE * g.standard_normal(len(t))}),
    "noise": Log("Noise about a constant.", lambda g, t: {"score": 0.3 + NOISE * g.standard_normal(len(t))}),
    "ten curves of noise": Log(
        "Noise about constants, in ten curves.",
        lambda g, t: {f"noise_{i}": g.standard_normal(len(t)) for i in range(10)},
    ),
    "slow noise": Log(
        "Correlated noise about a constant.", lambda g, t: {"score": 0.3 + correlated(g, len(t), 0.6, 0.03)}
    ),
    "exponential approach": Log(
        "An accuracy that approaches its level exponentially from the start on.",
        lambda g, t: {"accuracy": 0.9 * (1 - np.exp(-t / 500)) + NOISE * g.standard_normal(len(t))},
    ),
    "logarithmic drift": Log(
        "A score that grows with the logarithm of the step.",
        lambda g, t: {"score": 0.05 + 0.1 * np.log1p(t) + NOISE * g.standard_normal(len(t))},
        steps=LOGARITHMIC,
    ),
    "six evaluations": Log(
        "A jump between two of six evaluations, which cannot be told from noise.",
        _both(1500),
        Truth(unknown=True),
        np.linspace(0, LAST, 6).round(),
    ),
    "twelve evaluations": Log(
        "One jump at step 1500, seen by accuracy and loss.", _both(1500), one(1500), np.linspace(0, LAST, 12).round()
    ),
    "uneven evaluations": Log("One jump at step 1200; evaluations at random steps.", _both(1200), one(1200), UNEVEN),
    "logarithmic evaluations": Log(
        "Two jumps, at steps 60 and 900; evaluations evenly in the logarithm.",
        _both(60, 900),
        one(60, 900),
        LOGARITHMIC,
    ),
    "jump within a clump": Log(
        "One jump at step 1240; three clumps of evaluations, one around it.",
        _both(1240),
        one(1240),
        _clumps(300, 1180, 2400),
    ),
    "jump between clumps": Log(
        "One jump at step 800, between two clumps of evaluations.", _both(800), one(800), _clumps(200, 1300, 2400)
    ),
}


def cases() -> Iterator[Case]:
    """Yield the planted logs."""
    for name, log in LOGS.items():
        yield Case(f"log: {name}", log.sentence, _table(name, log), log.truth)


def _table(name: str, log: Log) -> Callable[[Path], pd.DataFrame]:
    return lambda folder: read_log({"step": log.steps.astype(int), **log.make(generator(name), log.steps)}, run=name)
