"""The scan for one more transition: its squares are those of a regression, its best fit is the planted one."""

import sys

import numpy as np
import pytest

from stagewise.statistics import Noise
from stagewise.statistics import _scan as scan
from stagewise.statistics._noise.residual import KINDS, log_likelihood
from stagewise.statistics._scan import (
    bases,
    coefficients,
    design,
    floors,
    scanned,
    smooth_fits,
    transition_fits,
    whiten,
)

STEPS = tuple(np.arange(0.0, 1200, 40).tolist())
BASIS = bases(STEPS)
GENERATOR = np.random.default_rng(0)


def test_the_squares_left_are_those_of_a_regression_on_all_columns() -> None:
    noise, other = Noise(0.4, 0.0), BASIS.transitions[[5]]
    curve, transitions = GENERATOR.standard_normal(len(STEPS)), BASIS.transitions[[20, 40]]
    squares = scanned(curve[None], whiten(BASIS.coarse[:3], other, noise), transitions)[0]
    for b in range(3):
        for s in range(2):
            stack = np.concatenate([design(BASIS.coarse[b], other), transitions[[s]]])
            residual = noise.whitened(curve - coefficients(curve, stack, noise) @ stack)
            assert squares[b, s] == pytest.approx((residual**2).sum())


def test_the_grids_fit_beside_others_is_that_of_a_scan_of_all_its_transitions() -> None:
    others, curve = BASIS.transitions[[9, 33]], GENERATOR.standard_normal((1, len(STEPS)))
    fit = transition_fits(curve, BASIS, floors(curve), np.array([KINDS.index(Noise(0.7, 1.2))]), others)
    noise = KINDS[fit.kind[0]]
    squares = scanned(curve, whiten(BASIS.coarse, others, noise), BASIS.transitions)[0]
    likelihood = log_likelihood(squares + floors(curve), len(STEPS), noise.correlation)
    assert fit.likelihood[0] == pytest.approx(likelihood.max())
    assert likelihood[fit.background[0], fit.shape[0]] == pytest.approx(likelihood.max())


def test_a_background_or_transition_that_is_there_already_explains_no_more() -> None:
    other = BASIS.transitions[[9]]
    columns = whiten(np.concatenate([BASIS.coarse[:2], other]), other, KINDS[0])
    assert (columns.own[2] == 0).all()
    curve = GENERATOR.standard_normal((1, len(STEPS)))
    squares = scanned(curve, columns, BASIS.transitions[[9, 30]])[0]
    assert squares[:, 0] == pytest.approx(columns.remaining(KINDS[0].whitened(curve))[0])
    assert (squares[:2, 1] < squares[:2, 0]).all()


def test_a_planted_transition_is_the_best_fit_and_a_smooth_curve_needs_none() -> None:
    noise = 0.01 * GENERATOR.standard_normal((2, len(STEPS)))
    curves = np.array([0.6 * BASIS.transitions[30], 0.5 * BASIS.coarse[4]]) + noise
    null = smooth_fits(curves, BASIS, floors(curves))
    one = transition_fits(curves, BASIS, floors(curves), null.kind)
    gain = one.likelihood - null.likelihood
    assert gain[0] > 20 > gain[1]
    halves = BASIS.shapes.times()[:, 1]
    assert halves[one.shape[0]] == pytest.approx(halves[30], abs=0.1)
    assert one.correlation.tolist() == [KINDS[kind].correlation for kind in one.kind]


def test_a_thinned_grid_shares_the_transitions_of_the_whole() -> None:
    whole, thin = bases(STEPS), bases(STEPS, 3)
    assert thin.transitions is whole.transitions is bases(STEPS, 1).transitions
    assert thin.coarse.tolist() == whole.coarse[::3].tolist()
    np.testing.assert_array_equal(whole.transitions, whole.shapes.at(whole.u))


def test_what_is_remembered_of_a_search_is_let_go_of_where_it_is_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "KEPT", sys.maxsize)
    basis = bases((*STEPS, 2000.0))
    scan.forget()
    assert bases((*STEPS, 2000.0)) is basis
    monkeypatch.setattr(scan, "KEPT", 1000)
    scan.forget()
    assert bases((*STEPS, 2000.0)) is not basis


def test_the_last_results_stay_within_their_room_and_the_newest_however_large() -> None:
    room = scan.cache(3 * 80)
    for number in (1, 2, 3):
        room[number] = np.zeros(10)
    assert room[1].nbytes == 80
    room[4] = (np.zeros(10), "text")  # takes the room of 2, which was used least recently
    assert ([*room], room.currsize) == ([1, 3, 4], 240)
    room[5] = np.zeros(1000)
    assert ([*room], room.currsize) == ([5], 240)
