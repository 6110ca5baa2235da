"""Looking back by weights: the share of positions, against scores written out in full."""

from typing import Any

import pytest
import torch
from torch import Tensor

from stagewise import models
from stagewise.architecture import Architecture
from stagewise.attention import Circuits
from stagewise.probes import QKOffset


@pytest.mark.parametrize("offset", [0, 1, 2])
def test_the_share_of_positions_is_that_of_the_scores_written_out(
    circuits: Circuits, written_out: tuple[Tensor, Tensor], offset: int
) -> None:
    (reading,) = QKOffset(offset).read_circuits(circuits)
    assert circuits.W_pos is not None
    scores = circuits.W_pos @ written_out[0] @ circuits.W_pos.T
    for layer, head in ((0, 0), (1, 3), (2, 2)):
        hits = [scores[layer, head, i, : i + 1].argmax().item() == i - offset for i in range(offset, 9)]
        assert reading.values[layer, head].item() == pytest.approx(sum(hits) / len(hits))


def test_a_head_whose_positions_ask_for_the_one_before_scores_one(sizes: dict[str, Any]) -> None:
    made = models.circuits(models.build(Architecture({**sizes, "d_head": 9, "d_model": 36})))
    position = torch.eye(36)[:9]
    query, key = position.T.roll(-1, 1), position.T
    qk = type(made.QK)(query.expand(3, 4, 36, 9), key.T.expand(3, 4, 9, 36))
    found = Circuits(qk, made.OV, made.W_E, made.W_U, position)
    assert QKOffset().read_circuits(found)[0].values.flatten().tolist() == [1.0] * 12
    assert QKOffset(offset=2).read_circuits(found)[0].values.flatten().tolist() == [0.0] * 12


def test_positions_that_are_not_there_are_refused(circuits: Circuits) -> None:
    with pytest.raises(ValueError, match="reads learned positions, this model has none"):
        QKOffset().read_circuits(Circuits(circuits.QK, circuits.OV, circuits.W_E, circuits.W_U, None))
    with pytest.raises(ValueError, match="expected 0 <= offset < positions <= 9; got 9 and 9"):
        QKOffset(9).read_circuits(circuits)
