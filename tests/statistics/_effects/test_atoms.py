"""The dictionary: each shape is in units of its change, has the times of its parts, and a prior that sums to one."""

import numpy as np
import pytest

from stagewise.statistics import EffectSettings
from stagewise.statistics._effects._atoms import PARTS, Kind, atoms_of

S = EffectSettings()
FINE = np.linspace(0, 3000, 160).round()
ATOMS = atoms_of(tuple(FINE.tolist()), S)
U = np.log1p(FINE)


@pytest.mark.parametrize("kind", [Kind.CHANGE, Kind.GRADUAL, Kind.EXCURSION])
def test_shapes_are_in_units_of_what_they_change(kind: Kind) -> None:
    assert np.ptp(ATOMS.columns[ATOMS.kind == kind], axis=1) == pytest.approx(1, abs=1e-5)


def test_there_is_a_jump_for_each_gap_with_the_gap_as_its_cell() -> None:
    jumps = ATOMS.columns[ATOMS.jumps]
    assert (np.diff(jumps, axis=1) == np.eye(len(FINE) - 1)).all()
    assert ATOMS.times[ATOMS.jumps, 1] == pytest.approx((U[1:] + U[:-1]) / 2)
    assert ATOMS.cell[ATOMS.jumps, 1] == pytest.approx(np.diff(U))


@pytest.mark.parametrize("part", range(3))
def test_the_times_of_a_change_are_those_at_which_its_shape_has_made_its_parts(part: int) -> None:
    early, half, late = ATOMS.times.T
    whole = (early - 2 * (half - early) > U[1]) & (late + 2 * (late - half) < U[-1])  # nearly all of it is in the run
    changes = np.flatnonzero((ATOMS.kind == Kind.CHANGE) & whole)
    assert len(changes) > 500
    for i in changes:
        place = int(np.searchsorted(U, ATOMS.times[i, part]))
        low, high = ATOMS.columns[i, [max(place - 2, 0), min(place + 1, len(U) - 1)]] - ATOMS.columns[i, 0]
        assert low - 0.02 <= PARTS[part] <= high + 0.02


def test_priors_of_a_family_and_of_other_shapes_sum_to_one() -> None:
    assert np.exp(ATOMS.prior[: ATOMS.first_change]).sum() == pytest.approx(1, rel=1e-4)
    for number in range(ATOMS.of_family.shape[1]):
        assert np.exp(ATOMS.prior[ATOMS.of_family[:, number] > 0]).sum() == pytest.approx(1, rel=1e-4)


def test_no_excursion_lasts_longer_than_it_may() -> None:
    lengths = (ATOMS.columns[ATOMS.kind == Kind.EXCURSION] != 0).sum(1)
    assert set(lengths.tolist()) == set(range(1, S.brief + 1))


def test_changes_are_the_last() -> None:
    assert ((ATOMS.kind == Kind.CHANGE) == (np.arange(len(ATOMS.kind)) >= ATOMS.first_change)).all()
