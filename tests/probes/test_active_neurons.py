"""Active neurons: counted at the scored positions, above a threshold."""

import pytest

from stagewise.architectures import minimal
from stagewise.probe import example_view
from stagewise.probes import ActiveNeurons
from stagewise.probes.active_neurons import _silent

NEURONS = {"blocks.0.mlp.hook_post": [[0.0, 2.0, 0.0, 0.1], [0.0, 1.0, 3.0, 0.1], [5.0, 5.0, 5.0, 5.0]]}
PATTERN = [[[1, 0, 0], [0, 1, 0], [0, 0, 1]]]


@pytest.mark.parametrize(("threshold", "active", "silent"), [(0.0, 5 / 8, 1 / 4), (0.5, 3 / 8, 2 / 4), (9.0, 0, 1)])
def test_shares_are_of_the_scored_positions(threshold: float, active: float, silent: float) -> None:
    view = example_view(PATTERN, activations=NEURONS, scored=[True, True, False])
    share, never = ActiveNeurons(threshold).read(view)
    assert share.values.item() == pytest.approx(active)
    assert _silent(never.values.numpy()).tolist() == [silent]


def test_a_model_without_mlps_is_refused() -> None:
    with pytest.raises(ValueError, match="has no MLPs"):
        list(ActiveNeurons().hooks(minimal(4, 5)))
