"""Figure 10 and the theorems: what is drawn, and the numbers beside the published ones."""

import numpy as np
import pytest

from stagewise.papers.incremental._flow import (
    NOISES,
    _sampled_descent,
    competitive_rows,
    figure_10,
    figure_theorems,
    sampled_rows,
    slowest,
)
from stagewise.papers.theory.competitive import plateau_losses
from stagewise.papers.theory.tensor_factorisation import TensorFactorisation

pytestmark = pytest.mark.usefixtures("unchecked")


@pytest.mark.slow
def test_figure_10_shows_the_loss_and_every_head() -> None:
    result = figure_10()
    assert len(result.figure.get_axes()) == 4
    ours = result.numbers.set_index("quantity")["ours"]
    halves = [float(value) for name, value in ours.items() if "halved" in str(name)]
    assert halves == pytest.approx([4.6, 43.8, 200.3], rel=0.02)  # earlier solutions of the same equations
    for group, masses in ((1, (0.2, 0.8, 0)), (2, (0.52, 0, 0.48)), (0, (1, 0, 0))):
        (row,) = [text for name, text in ours.items() if str(name).startswith(f"head of group {group + 1}:")]
        assert [float(part) for part in row.split(";")[0].split(",")] == pytest.approx(masses, abs=0.015)


def test_figure_10_marks_the_plateaus_of_its_theory() -> None:
    theory = TensorFactorisation(noise=1e-1)
    lines = figure_10(theory, until=100).figure.get_axes()[0].get_lines()
    marked = [float(np.asarray(line.get_ydata())[0]) for line in lines if line.get_label() == "_plateau"]
    np.testing.assert_allclose(marked, plateau_losses(theory))


def test_a_plateau_is_where_the_loss_falls_most_slowly() -> None:
    theory = TensorFactorisation(noise=1e-8)
    assert slowest(theory, 400, 1.945, 0.5) == pytest.approx(1.945, abs=5e-3)


@pytest.mark.slow
def test_the_closer_heads_start_the_later_they_part() -> None:
    result = figure_theorems()
    rows = result.numbers[result.numbers["quantity"].str.startswith("time until")]
    times = rows["ours"].astype(float).tolist()
    assert len(times) == len(NOISES)
    assert times == sorted(times)
    assert np.isfinite(times).all()


def test_the_sampled_regression_has_the_loss_of_the_tensor_and_its_descent_with_noise_too() -> None:
    rows = sampled_rows()
    assert len(rows) == 3
    for row in rows:
        lo, hi = (float(end) for end in row["interval"].strip("[]").split(", "))
        assert lo <= 1.001
        assert hi >= 0.999
        assert hi - lo < 0.04


def test_without_noise_the_mean_descent_of_one_sample_of_each_input_is_the_flows() -> None:
    """Inputs e_p at one position and feature each, over all of them, are white: the mean is exact."""
    theory, d = TensorFactorisation(n_positions=4), 2
    features = np.linalg.qr(np.random.default_rng(1).standard_normal((d * d, 3)))[0].T.reshape(3, d, d)
    state = np.random.default_rng(2).standard_normal(theory.initial_state().shape)
    heads = theory.heads(state)
    inputs = np.sqrt(4 * d) * np.eye(4 * d).reshape(4 * d, 4, d)
    errors = np.einsum("kp,koi,npi->no", theory.residual(heads), features, inputs)
    np.testing.assert_allclose(_sampled_descent(heads, features, inputs, errors).mean(0), theory.velocity(state))


def test_heads_that_start_equal_end_at_the_competitive_fixed_point() -> None:
    for row in competitive_rows(400):
        assert float(row["ours"]) == pytest.approx(float(row["published"].split()[0]), abs=0.01)
