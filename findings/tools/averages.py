"""Tools that keep a second set of weights."""

import copy
from pathlib import Path

import torch
from _small import CONFIG, SERIES, STEPS, model, step, tokens


def _series(save, optimiser=None, update=lambda: None, network=None):
    network = network or model()
    optimiser = optimiser or torch.optim.AdamW(network.parameters(), lr=0.01)
    Path("run").mkdir()
    for now in range(max(STEPS) + 1):
        if now in STEPS:
            save(now)
        step(network, optimiser)
        update()
    CONFIG.save_pretrained("run")
    return SERIES


def _save_both(network, optimiser, now):
    torch.save({"model": network.state_dict(), "optimizer": optimiser.state_dict()}, f"run/step_{now}.pt")


def ema_pytorch():
    """ema-pytorch==0.8.3"""
    from ema_pytorch import EMA

    network = model()
    average = EMA(network, update_every=1, update_after_step=0)
    return _series(
        lambda now: torch.save(average.state_dict(), f"run/step_{now}.pt"), update=average.update, network=network
    )


def swa_utils():
    """torch==2.13.0"""
    from torch.optim.swa_utils import AveragedModel

    network = model()
    average = AveragedModel(network)
    return _series(
        lambda now: torch.save(average.state_dict(), f"run/step_{now}.pt"),
        update=lambda: average.update_parameters(network), network=network,
    )  # fmt: skip


def torch_ema():
    """torch-ema==0.3"""
    from torch_ema import ExponentialMovingAverage

    network = model()
    average = ExponentialMovingAverage(network.parameters(), decay=0.9)
    return _series(
        lambda now: torch.save(average.state_dict(), f"run/step_{now}.pt"), update=average.update, network=network
    )


def torch_ema_beside():
    """torch-ema==0.3"""
    from torch_ema import ExponentialMovingAverage

    network = model()
    average = ExponentialMovingAverage(network.parameters(), decay=0.9)
    return _series(
        lambda now: torch.save({"model": network.state_dict(), "ema": average.state_dict()}, f"run/step_{now}.pt"),
        update=average.update, network=network,
    )  # fmt: skip


def diffusers_ema():
    """diffusers==0.42.1"""
    from diffusers.training_utils import EMAModel

    network = model()
    average = EMAModel(network.parameters(), decay=0.9)
    return _series(
        lambda now: torch.save(average.state_dict(), f"run/step_{now}.pt"),
        update=lambda: average.step(network.parameters()), network=network,
    )  # fmt: skip


def schedulefree_trainer():
    """schedulefree==1.4.1"""
    from datasets import Dataset
    from transformers import Trainer, TrainingArguments

    rows = Dataset.from_list([{"input_ids": row, "labels": row} for row in tokens().tolist()] * 8)
    arguments = TrainingArguments(
        "run", max_steps=8, save_steps=2, logging_steps=1, report_to="none", use_cpu=True, optim="schedule_free_adamw",
        learning_rate=0.01, lr_scheduler_type="constant",
    )  # fmt: skip
    Trainer(model(), arguments, train_dataset=rows).train()
    for number in (2, 8):
        state = torch.load(f"run/checkpoint-{number}/optimizer.pt")
        print(number, "train_mode", state["param_groups"][0]["train_mode"])
    return SERIES


def heavyball_sf():
    """heavyball==3.2.1"""
    import heavyball

    network = model()
    optimiser = heavyball.SFAdamW(network.parameters(), lr=0.01)
    return _series(
        lambda now: _save_both(network, optimiser, now), optimiser, network=network,
    )  # fmt: skip


def lookahead():
    """pytorch_optimizer==4.1.0"""
    import pytorch_optimizer

    network = model()
    optimiser = pytorch_optimizer.Lookahead(torch.optim.AdamW(network.parameters(), lr=0.01), k=3)
    return _series(
        lambda now: _save_both(network, optimiser, now), optimiser, network=network,
    )  # fmt: skip


def _lightning(callback):
    import lightning
    from lightning.pytorch.callbacks import ModelCheckpoint

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = model()

        def training_step(self, batch, _):
            return self.model(batch, labels=batch).loss

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters(), lr=0.01)

    saver = ModelCheckpoint("run", every_n_train_steps=2, save_top_k=-1, save_last=True, filename="{step}")
    lightning.Trainer(
        max_epochs=8, accelerator="cpu", logger=False, enable_progress_bar=False, enable_model_summary=False,
        callbacks=[callback, saver],
    ).fit(Module(), torch.utils.data.DataLoader(tokens(), batch_size=8))  # fmt: skip
    CONFIG.save_pretrained("run")
    name = "model.model.embed_tokens.weight"
    content = torch.load("run/step=4.ckpt", weights_only=False)
    print([key for key in content if "state" in key])
    if "current_model_state" in content:
        print("apart:", (content["state_dict"][name] - content["current_model_state"][name]).abs().max().item())
    return SERIES


def lightning_ema():
    """lightning==2.6.6"""
    from lightning.pytorch.callbacks import EMAWeightAveraging

    return _lightning(EMAWeightAveraging(decay=0.9))


def lightning_swa():
    """lightning==2.6.6"""
    from lightning.pytorch.callbacks import StochasticWeightAveraging

    return _lightning(StochasticWeightAveraging(swa_lrs=0.01, swa_epoch_start=2))


def plain_torch():
    """torch==2.13.0"""
    network = model()
    return _series(lambda now: torch.save(copy.deepcopy(network.state_dict()), f"run/step_{now}.pt"), network=network)
