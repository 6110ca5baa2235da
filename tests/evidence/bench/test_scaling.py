"""What a suite costs is the sum of its checkpoints, and more workers are bounded by the line."""

import pytest

from evidence.bench.scaling import LINE, MEASURED, SIZES, Cost, cost, products


def test_the_measured_size_costs_what_was_measured_and_seeds_multiply() -> None:
    name, seconds = MEASURED
    one, ten = cost((name,), 1), cost((name,), 10)
    assert one.hours == pytest.approx(154 * seconds / 3600)
    assert [ten.hours, ten.size] == pytest.approx([10 * one.hours, 10 * one.size])


def test_a_larger_model_takes_more() -> None:
    assert products(SIZES["14m"]) < products(SIZES["70m"]) < products(SIZES["160m"])


def test_more_workers_take_the_passes_share_until_the_line_bounds_them() -> None:
    one = Cost(hours=100.0, longest=0.5, size=10 * 3600 * LINE)
    assert [one.on(workers) for workers in (1, 4, 50)] == [(100.0, "passes"), (25.5, "passes"), (10.0, "line")]
