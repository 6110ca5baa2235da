"""Callbacks of other trainers save by stagewise's schedules, counting optimiser steps."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from stagewise import models as model
from stagewise.architecture import Architecture
from stagewise.checkpoints import trainer_callbacks as callbacks
from stagewise.checkpoints.audit import audit
from stagewise.checkpoints.series import find, open_series
from stagewise.checkpoints.trainer_callbacks import save_on_lightning

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


def test_a_hooked_model_is_saved_at_the_schedules_steps(tmp_path: Path) -> None:
    module = fit(hooked, save_on_lightning({2, 3, 40}, tmp_path, "net"), max_steps=7)
    series = open_series(tmp_path)
    assert series.steps == (0, 2, 3, 7)
    assert audit(find(tmp_path)).clean
    first, last = series.weights(0), series.weights(7)
    assert not torch.equal(first["embed.W_E"], last["embed.W_E"])
    loaded = model.build(series.architecture)
    model.load(loaded, last)
    tokens = torch.arange(5)[None]
    torch.testing.assert_close(loaded(tokens), module.net(tokens))


def test_batches_that_share_an_update_are_one_step(tmp_path: Path) -> None:
    fit(hooked, save_on_lightning(range(1, 10, 2), tmp_path, "net"), max_epochs=2, accumulate_grad_batches=2)
    assert open_series(tmp_path).steps == (0, 1, 3, 5, 6)  # five batches: three updates an epoch


def test_updates_of_several_optimisers_are_all_counted(tmp_path: Path) -> None:
    fit(hooked, save_on_lightning({3, 6}, tmp_path, "net"), optimisers=2, max_steps=8)
    assert open_series(tmp_path).steps == (0, 4, 6, 8)


def test_a_hugging_face_model_is_saved_with_its_config(tmp_path: Path, hugging_face: Callable[..., Any]) -> None:
    fit(lambda: hugging_face("GPT2"), save_on_lightning({2}, tmp_path, "net"), max_steps=3)
    series = open_series(tmp_path)
    assert (series.steps, series.architecture.n_heads) == ((0, 2, 3), 4)


@pytest.mark.hooked_only("a native bridge in a module saves each weight twice")
def test_any_other_module_is_saved_whole(tmp_path: Path) -> None:
    module = fit(hooked, save_on_lightning({2}, tmp_path), max_steps=2)
    (path,), own = tmp_path.glob("checkpoint-2/*.safetensors"), module.state_dict()
    saved = load_file(path)
    assert {f"net.{name}" for name in model.weights(module.net)} <= saved.keys() <= own.keys()
    assert all(torch.equal(weight, own[name]) for name, weight in saved.items())
    assert open_series(tmp_path, architecture=CONFIG).weights(2).keys() >= model.weights(module.net).keys()


def test_without_lightning_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(callbacks, "LIGHTNING", ("no_such_library",))
    with pytest.raises(ImportError, match=r"there is no Lightning: `pip install 'stagewise\[lightning\]'`"):
        save_on_lightning({1}, tmp_path)
