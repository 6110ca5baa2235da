"""The loss by position: of every prediction, scored or not."""

import math
from collections.abc import Callable

import torch

from stagewise.probe import View
from stagewise.probes import LossByPosition


def test_every_position_has_its_loss(copying_view: Callable[[bool], View]) -> None:
    (reading,) = LossByPosition().read(copying_view(True))
    expected = torch.tensor([math.log(20)] * 6 + [0.0] * 5).expand(4, -1)
    torch.testing.assert_close(reading.values, expected)
    assert list(reading.labels["position"]) == list(range(11))
