"""Attention by token: keys with the same token count together, and the population batch gives the paper's c_n."""

from collections.abc import Callable

import pytest
import torch

from stagewise.measurement.engine import measure
from stagewise.papers.scan_and_snap._synthetic import attention_by_class, moments_of_syn_small
from stagewise.papers.scan_and_snap.attention_by_token import AttentionByToken
from stagewise.papers.scan_and_snap.published_data import population_batch
from stagewise.papers.scan_and_snap.yz_hooked import series_of
from stagewise.papers.scan_and_snap.yz_training import Rates
from stagewise.papers.tasks import syn_small
from stagewise.probe import View
from stagewise.table import select
from stagewise.task import Batch

FLOAT32 = 1e-6
PATTERN = torch.tensor([[1.0, 0, 0, 0], [0.4, 0.6, 0, 0], [0.5, 0.2, 0.3, 0], [0.1, 0.2, 0.3, 0.4]])


def with_tokens(view: View, tokens: list[int]) -> View:
    batch = view.batch
    values = torch.tensor([tokens]).expand(len(batch), -1)
    return View(
        view.step,
        view.architecture,
        Batch(values, values, batch.scored, batch.relations),
        view.log_probs,
        view.activations,
        {},
        {},
    )


def test_keys_of_the_same_token_count_together(view_of: Callable[..., View]) -> None:
    view = with_tokens(view_of(PATTERN.expand(2, 1, 1, -1, -1)), [5, 3, 5, 9])
    (reading,) = AttentionByToken(rows=4).read(view)
    assert list(reading.labels["token"]) == [3, 5, 9]
    expected = [[0, 1, 0], [0.6, 0.4, 0], [0.2, 0.8, 0], [0.2, 0.4, 0.4]]
    torch.testing.assert_close(reading.values[0, 0], torch.tensor(expected), atol=FLOAT32, rtol=0)


def test_rows_are_the_scored_queries_alone(view_of: Callable[..., View]) -> None:
    scored = torch.tensor([[False, False, False, True]]).expand(3, -1)
    view = with_tokens(view_of(PATTERN.expand(3, 2, 2, -1, -1), scored=scored), [0, 1, 2, 3])
    (reading,) = AttentionByToken(rows=2).read(view)
    torch.testing.assert_close(reading.values, PATTERN[3].expand(2, 2, 2, -1))


@pytest.mark.hooked_only("a native bridge does not compute with the scores that (Y, Z) edits")
def test_the_population_batch_gives_the_attention_of_figure_4() -> None:
    task = syn_small()
    moments = [(m.step, m.weights) for m in moments_of_syn_small([Rates(1.0, 1.0)]) if m.step == 10]
    expected = attention_by_class(task, moments[0][1].z)[0]
    batch = population_batch(task)
    series = series_of("run", moments, batch.tokens.shape[1])
    rows = select(measure(series, [AttentionByToken()], batch, progress=False), "AttentionByToken", row=1)
    own = rows.set_index("token")["value"].loc[task.support[1].tolist()]
    assert own.tolist() == pytest.approx(expected[1, task.support[1]].tolist(), abs=FLOAT32)


def test_no_rows_are_refused() -> None:
    with pytest.raises(ValueError, match="rows must be at least one scored query, got 0"):
        AttentionByToken(0)
