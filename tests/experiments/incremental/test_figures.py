"""Figure 10, drawn from its equation."""

import numpy as np

from stagewise.experiments.incremental import figures as incremental_figures
from stagewise.theory.competitive import plateau_losses
from stagewise.theory.tensor_factorisation import TensorFactorisation


def test_figure_10_shows_the_loss_and_every_head() -> None:
    assert len(incremental_figures.ode(until=50).get_axes()) == 4


def test_figure_10_marks_the_plateaus_of_its_theory() -> None:
    theory = TensorFactorisation()
    lines = incremental_figures.ode(theory, until=20).get_axes()[0].get_lines()
    marked = [float(np.asarray(line.get_ydata())[0]) for line in lines if line.get_label() == "_plateau"]
    np.testing.assert_allclose(marked, plateau_losses(theory))
