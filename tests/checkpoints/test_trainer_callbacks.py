"""The lines of the docs save under Lightning by a schedule, counting optimiser steps."""

from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from stagewise import models as model
from stagewise.architecture import Architecture
from stagewise.checkpoints.audit import audit
from stagewise.checkpoints.series import find, open_series
from tests.test_pages import ROOT, blocks

CONFIG = {"n_layers": 1, "d_model": 8, "d_head": 4, "n_ctx": 6, "d_vocab": 5, "act_fn": "relu"}


def fit(make: Callable[[], Any], callback: Any, optimisers: int = 1, **arguments: Any) -> Any:
    """Train the module's `net` on five batches of random tokens; return the LightningModule."""
    pl = pytest.importorskip("lightning.pytorch", reason="Lightning is not installed: pip install lightning")

    class Trained(pl.LightningModule):  # type: ignore[misc, name-defined]  # where Lightning is installed
        def __init__(self) -> None:
            super().__init__()
            self.net = make()
            self.automatic_optimization = optimisers == 1

        def configure_optimizers(self) -> list[torch.optim.Optimizer]:
            return [torch.optim.SGD(self.net.parameters(), lr=0.1) for _ in range(optimisers)]

        def training_step(self, batch: list[torch.Tensor], index: int) -> torch.Tensor:
            output = self.net(batch[0])
            loss = (output if isinstance(output, torch.Tensor) else output.logits).square().mean()
            if optimisers > 1:
                self.manual_backward(loss)
                for optimiser in self.optimizers():
                    optimiser.step()
            return loss

    data = torch.utils.data.TensorDataset(torch.randint(5, (10, 6), generator=torch.Generator().manual_seed(0)))
    quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    trainer = pl.Trainer(**quiet, accelerator="cpu", callbacks=[callback], **arguments)
    module = Trained()
    trainer.fit(module, torch.utils.data.DataLoader(data, batch_size=2))
    return module


def hooked() -> Any:
    return model.build(Architecture(CONFIG))


def save_on(schedule: Iterable[int]) -> Any:
    """Return the callback of the docs, with a schedule in place of theirs."""
    (code,) = (one.code for one in blocks(ROOT / "docs" / "your-model.md") if "import Callback" in one.code)
    names: dict[str, Any] = {"schedules": SimpleNamespace(linear=lambda *_: schedule)}
    exec(code, names)
    return names["SaveOn"]()


def test_a_hooked_model_is_saved_at_the_schedules_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    module = fit(hooked, save_on({2, 3, 7, 40}), max_steps=7)
    series = open_series("my-lightning", architecture=CONFIG)
    assert series.steps == (0, 2, 3, 7)
    assert audit(find("my-lightning"), architecture=CONFIG).clean
    first, last = series.weights(0), series.weights(7)
    assert not torch.equal(first["embed.W_E"], last["embed.W_E"])
    loaded = series.model(7)
    tokens = torch.arange(5)[None]
    torch.testing.assert_close(loaded(tokens), module.net(tokens))


def test_batches_that_share_an_update_are_one_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    fit(hooked, save_on(range(1, 10, 2)), max_epochs=2, accumulate_grad_batches=2)
    assert open_series("my-lightning", architecture=CONFIG).steps == (
        0,
        1,
        3,
        5,
    )  # five batches: three updates an epoch


def test_a_hugging_face_model_is_saved(
    tmp_path: Path, hugging_face: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    module = fit(lambda: hugging_face("GPT2"), save_on({2}), max_steps=3)
    series = open_series("my-lightning", architecture=module.net.config)
    assert (series.steps, series.architecture.n_heads) == ((0, 2), 4)
