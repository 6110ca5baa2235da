"""The behaviour's curve: what a hand-made prediction prefers, and what knows less beside it."""

import dataclasses

import pytest
import torch

from stagewise import models
from stagewise.architectures import full
from stagewise.checkpoints.series import open_series
from stagewise.measurement.engine import measure
from stagewise.probe import View, example_view
from stagewise.probes import BehaviourCurve
from stagewise.task import Batch

ROWS = [{"prompt": "0 1", "right": "1", "wrong": "2", "corrupted": "0 2"}] * 3 + [
    {"prompt": "0 1", "right": "2", "wrong": "1", "corrupted": "0 2"}
]


def digits(text: str) -> list[int]:
    return list(map(int, text.split()))


def view() -> View:
    batch = Batch.from_pairs(ROWS, digits)
    log_probs = torch.tensor([0.2, 0.6, 0.2]).log().expand(4, 2, 3)
    corrupted = dataclasses.replace(example_view(probs=[[1.0]]), batch=batch, log_probs=log_probs.flip(-1))
    return dataclasses.replace(
        example_view(probs=[[1.0]]), batch=batch, log_probs=log_probs, others={"corrupted": corrupted}
    )


def test_the_difference_of_logits_its_sign_and_the_rank_are_of_each_prompt() -> None:
    found = {reading.quantity: reading.values for reading in BehaviourCurve().read(view())}
    expected = torch.tensor([1.0, 1, 1, -1]) * torch.tensor(3.0).log()
    torch.testing.assert_close(found["difference"], expected)
    assert found["accuracy"].tolist() == [1, 1, 1, 0]
    torch.testing.assert_close(found["probability"], torch.tensor([0.6, 0.6, 0.6, 0.2]))
    assert found["rank"].tolist() == [1, 1, 1, 2]


def test_what_knows_less_stands_beside_it() -> None:
    baseline = next(reading for reading in BehaviourCurve().read(view()) if reading.quantity == "baseline")
    assert list(baseline.labels["control"]) == ["chance", "more frequent answer", "corrupted prompt"]
    assert baseline.values.mean(0).tolist() == [0.5, 0.75, 0.75]


def test_a_batch_without_answers_says_how_to_get_some() -> None:
    with pytest.raises(ValueError, match=r"measure on --pairs FILE, or Batch\.from_pairs"):
        BehaviourCurve().read(example_view(probs=[[1.0]]))


@pytest.mark.parametrize("memory", [None, 1])
def test_whole_answers_are_compared_by_their_summed_log_probability(memory: int | None) -> None:
    rows = [{"sentence_good": f"{a} 4 5", "sentence_bad": f"{a} 4 4 6"} for a in range(4)]
    batch = Batch.from_pairs(rows, digits)
    model = models.build(full(8, 6, n_layers=1, n_heads=2, d_model=8, d_mlp=6), seed=1)
    table = measure(open_series([(0, model)]), [BehaviourCurve()], batch, memory=memory, progress=False)
    sums = []
    for name in ("good", "bad"):
        ids = torch.tensor([digits(row[f"sentence_{name}"]) for row in rows])
        log_probs = model(ids).log_softmax(-1)[:, :-1].gather(2, ids[:, 1:, None]).sum((1, 2))
        sums.append(log_probs.detach())
    value = table.loc[table["quantity"] == "difference", "value"].item()
    assert value == pytest.approx(float((sums[0] - sums[1]).mean()), abs=1e-5)
    assert "rank" not in set(table["quantity"])
