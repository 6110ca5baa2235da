"""The numbers of the model: priors are probabilities, and each may be set."""

import dataclasses

import numpy as np
import pytest

from stagewise.statistics import EffectSettings, find_transitions

S = EffectSettings()


def test_priors_sum_to_one() -> None:
    assert sum(S.shares) == pytest.approx(1)
    assert sum(prior for _, prior in S.correlations) == pytest.approx(1)
    assert all(0 < prior < 1 for prior in (S.smooth, S.bursting))


def test_a_higher_threshold_tells_less() -> None:
    steps = np.arange(40.0)
    curve = np.where(steps > 19, 0.5, 0.1) + 0.03 * np.random.default_rng(0).standard_normal(40)
    strict = dataclasses.replace(S, threshold=(1e4, 1e4))
    told = [len(find_transitions(steps, curve[None], settings=each)[0].transitions) for each in (S, strict)]
    assert told == [1, 0]
