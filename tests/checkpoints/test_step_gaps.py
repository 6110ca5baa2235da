"""Missing steps: none in ordinary schedules, and each that is taken out where its neighbours tell."""

import pytest

from stagewise.checkpoints._step_gaps import missing_steps
from stagewise.schedules import linear, logarithmic

PYTHIA = [0, *(2**k for k in range(10)), *range(1000, 144_000, 1000)]


@pytest.mark.parametrize(
    "steps",
    [PYTHIA, range(0, 900, 15), [0, 1, 3, 7, 20, 55, 148], [5], [5, 9], [0, 1, 2, 4, 6, 9, 13, 20, 28, 40, 60, 80]],
)
def test_ordinary_schedules_miss_nothing(steps: list[int]) -> None:
    assert missing_steps(list(steps)) == []


@pytest.mark.parametrize("gone", [1, 8, 9, 11, 12, 20, 100, len(PYTHIA) - 2])
def test_a_step_taken_out_of_a_suite_is_missed(gone: int) -> None:
    there = [step for step in PYTHIA if step != PYTHIA[gone]]
    changes_there = gone in (1, 9, 11, 12)  # where the spacing changes nothing can be said
    assert missing_steps(there) == ([] if changes_there else [PYTHIA[gone]])


def test_no_schedule_of_this_library_misses_a_step() -> None:
    for per_decade in range(1, 13):
        for stop in (100, 1000, 20_000):
            dense = logarithmic(per_decade, stop)
            for steps in (dense, dense | {0, stop}, dense | {0} | linear(stop // 10, stop)):
                assert missing_steps(sorted(steps)) == [], (per_decade, stop)


@pytest.mark.parametrize("per_decade", [3, 5, 8, 12])
def test_a_step_taken_out_of_a_rounded_logarithmic_schedule_is_missed(per_decade: int) -> None:
    steps = sorted(logarithmic(per_decade, 20_000) | {0})
    inner = [step for step in steps[:-2] if step >= 100]
    for gone in inner:
        (found,) = missing_steps([step for step in steps if step != gone])
        assert found == pytest.approx(gone, rel=0.01)


@pytest.mark.parametrize("gone", [(300, 500), (300, 600), (400, 500), (300, 500, 800)])
def test_gaps_near_each_other_are_missed(gone: tuple[int, ...]) -> None:
    assert missing_steps([step for step in range(0, 1300, 100) if step not in gone]) == list(gone)


@pytest.mark.parametrize(
    "steps",
    [
        [0, 10, 20, 30, 50, 70, 100, 130, 160, 200, 240],
        [0, 100, 200, 400, 600, 1000, 1400],
        [*range(0, 50, 10), *range(50, 200, 50), *range(200, 1000, 100)],
        [0, 1, 2, 3, 4, 8, 12, 16, 32, 48, 64],
    ],
)
def test_a_spacing_that_widens_misses_nothing(steps: list[int]) -> None:
    assert missing_steps(steps) == []


@pytest.mark.parametrize(
    "steps",
    [
        [0, 1, 2, 3, 150, 300, 301, 302],
        [*range(10), *range(20, 30), *range(40, 50), *range(60, 70)],
        [*range(0, 50, 10), *range(1000, 1050, 10)],
        [0, 1, 2, 3, 10**15, 10**15 + 1, 10**15 + 2],
    ],
)
def test_steps_in_clumps_miss_nothing_between_them(steps: list[int]) -> None:
    assert missing_steps(steps) == []


def test_a_block_of_steps_that_is_gone_is_missed() -> None:
    assert missing_steps([step for step in range(0, 3000, 100) if not 900 < step < 1900]) == [*range(1000, 1900, 100)]
