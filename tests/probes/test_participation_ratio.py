"""The participation ratio: that of the variances of orthogonal sines."""

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest
import torch

from stagewise.probe import View
from stagewise.probes import ParticipationRatio


@pytest.mark.parametrize("variances", [(1.0, 0.0, 0.0), (1.0, 1.0, 1.0), (2.0, 1.0, 0.0), (0.0, 0.0, 0.0)])
def test_the_participation_ratio_is_that_of_the_variances(
    variances: tuple[float, ...], view_of: Callable[..., View]
) -> None:
    made = view_of(torch.ones(2, 1, 1, 6, 6))
    # Sines of different frequencies over twelve points are orthogonal, and of mean zero.
    angle = 2 * torch.pi * torch.arange(12) / 12
    basis = torch.stack([torch.sin(angle), torch.sin(2 * angle), torch.cos(angle)], -1)
    z = (basis * torch.tensor(variances).sqrt()).view(2, 6, 1, 3) + 5
    (reading,) = ParticipationRatio().read(dataclasses.replace(made, activations={"blocks.0.attn.hook_z": z}))
    total, squares = sum(variances), sum(np.square(variances))
    expected = total**2 / squares if squares else 0.0
    assert reading.statistic is not None
    assert reading.statistic(reading.values.numpy()).item() == pytest.approx(expected, abs=1e-5)
