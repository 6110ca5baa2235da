"""Some scored positions: which they are, and that slices give what the whole batch gives."""

import pytest
import torch

from stagewise import models
from stagewise.architectures import minimal
from stagewise.measurement import _positions as positions
from stagewise.measurement._positions import Positions
from stagewise.tasks import MarkovChain

TASK = MarkovChain(d_vocab=4, spans=(1, 1), length=6)
BATCH = TASK.probe_batch(7, seed=0)
MADE = minimal(TASK.d_vocab, TASK.n_ctx)


def test_all_scored_positions_are_there_in_order_and_of_fewer_the_first_and_the_last() -> None:
    scored = BATCH.scored.nonzero().tolist()
    every, some = Positions.of(BATCH, 10**6), Positions.of(BATCH, 5)
    assert torch.stack([every.sequence, every.position], 1).tolist() == scored
    chosen = torch.stack([some.sequence, some.position], 1).tolist()
    assert len(some) == 5
    assert [chosen[0], chosen[-1]] == [scored[0], scored[-1]]
    assert chosen == sorted(chosen)


@pytest.mark.parametrize("most", [10**6, 9])
def test_slices_give_what_the_whole_batch_gives(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    model, chosen, hook = models.build(MADE), Positions.of(BATCH, most), "blocks.0.hook_resid_post"
    log_probs, clean = models.clean_pass(model, BATCH.tokens, [hook])
    monkeypatch.setattr(positions, "default_memory", lambda device: 1)
    predictions, activations = chosen.read(model, MADE, BATCH, [hook])
    rows = chosen.sequence, chosen.position
    torch.testing.assert_close(predictions, log_probs[rows])
    torch.testing.assert_close(activations[hook], clean[hook][rows])
