"""The scripts beside which each probe is timed alone give the probe's own numbers."""

from pathlib import Path
from typing import Any

import pytest
import torch

from evidence.bench.alone import LENGTH, SEQUENCES, by_hand, check, scripts
from stagewise.checkpoints.series import open_series
from stagewise.measurement.engine import measure
from stagewise.measurement.probe_batch import usable
from stagewise.tasks import RepeatedTokens

transformers = pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("checkpoints")
    _model().save_pretrained(folder / "checkpoint-1")
    return folder


def _model() -> Any:
    config = transformers.GPT2Config(
        n_layer=3, n_head=4, n_embd=48, vocab_size=60, n_positions=64, bos_token_id=0, eos_token_id=0,
        initializer_range=0.3,
    )  # fmt: skip
    return transformers.GPT2LMHeadModel(config).eval()


@pytest.mark.one_of(4)
@pytest.mark.parametrize("name", scripts())
def test_a_script_gives_the_numbers_of_its_probe(folder: Path, name: str) -> None:
    batch, script = usable(RepeatedTokens(60, length=LENGTH).probe_batch(SEQUENCES, 0)), scripts()[name]
    expected = by_hand(script, _model(), folder, batch, 1)
    table = measure(open_series(folder), [script.probe], batch, progress=False)
    check(script, table, expected)
    with pytest.raises(AssertionError):
        check(script, table, expected + 0.01)
