"""Clean series of three kinds of models, each trained and written by its own library, over many schedules.

python -m evidence.calibration.audit.clean_series FOLDER      trains them all (a few minutes)
"""

import math
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import torch

from stagewise.architecture import Architecture
from stagewise.architectures import minimal
from stagewise.papers.tasks import AssociativeRecall
from stagewise.plan import Seeds, TrainPlan
from stagewise.recipe import Recipe
from stagewise.schedules import linear, logarithmic
from stagewise.tasks import MarkovChain, RepeatedTokens
from stagewise.training import train

VOCAB, LENGTH = 16, 8
Rate = Callable[[int], float]


class Training(NamedTuple):
    """One clean series: how it is trained and saved.

    Args:
        make: writes it into a folder.
        options: of `make`.
        seed: of weights and data.
    """

    make: Callable[..., None]
    options: dict[str, Any]
    seed: int = 0

    def write(self, folder: Path) -> Path:
        """Train it into a folder."""
        self.make(folder, self.seed, **self.options)
        return folder


def constant(rate: float) -> Rate:
    return lambda step: rate


def warm_restarts(rate: float, period: int) -> Rate:
    return lambda step: rate * 0.5 * (1 + math.cos(math.pi * (step % period) / period))


def cosine(rate: float, steps: int, warmup: int = 0) -> Rate:
    return lambda step: (
        rate * step / warmup
        if step < warmup
        else rate * 0.5 * (1 + math.cos(math.pi * (step - warmup) / (steps - warmup)))
    )


def jumping(*parts: tuple[int, float]) -> Rate:
    return lambda step: next(rate for start, rate in reversed(parts) if step >= start)


def copied_tokens(n: int, generator: torch.Generator) -> torch.Tensor:
    first = torch.randint(VOCAB, (n, LENGTH), generator=generator)
    return torch.cat([first, first], dim=1)


def hooked(
    folder: Path,
    seed: int,
    *,
    rate: Rate,
    save: Iterable[int],
    optimiser: str = "AdamW",
    dtype: torch.dtype = torch.float32,
    wrapper: str | None = None,
    batch: int = 32,
    **config: Any,
) -> None:
    """Train a HookedTransformer to copy, and save its state dict, alone or under a key beside its step."""
    from transformer_lens import HookedTransformer, HookedTransformerConfig

    sizes = {"n_layers": 2, "d_model": 32, "d_head": 8, "n_ctx": 2 * LENGTH, "d_vocab": VOCAB, "attn_only": True}
    model = HookedTransformer(HookedTransformerConfig(**{**sizes, "seed": seed, **config}))
    generator, steps = torch.Generator().manual_seed(seed), sorted(set(save))
    descent = getattr(torch.optim, optimiser)(model.parameters(), lr=rate(0))
    folder.mkdir(parents=True)
    for step in range(steps[-1] + 1):
        if step in steps:
            state = {
                name: weight.to(dtype) if weight.is_floating_point() else weight
                for name, weight in model.state_dict().items()
            }
            torch.save({wrapper: state, "step": step} if wrapper else state, folder / f"model_{step}.pt")
        descent.param_groups[0]["lr"] = rate(step)
        model(copied_tokens(batch, generator), return_type="loss").backward()
        descent.step()
        descent.zero_grad()


def trainer(
    folder: Path,
    seed: int,
    *,
    kind: str,
    save: Iterable[int] | int,
    steps: int,
    config: dict[str, Any],
    **arguments: Any,
) -> None:
    """Train a Hugging Face model to copy under `transformers.Trainer`, saved by it or on a schedule."""
    import transformers

    from stagewise.checkpoints.trainer_callbacks import save_on

    rows = copied_tokens(16 * steps, torch.Generator().manual_seed(seed))
    data = [{"input_ids": row, "labels": row} for row in rows]
    options = {"save_strategy": "steps", "save_steps": save} if isinstance(save, int) else {"save_strategy": "no"}
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        sizes = {"vocab_size": VOCAB, "bos_token_id": 0, "eos_token_id": 0, **config}
        model = getattr(transformers, f"{kind}ForCausalLM" if kind != "GPT2" else "GPT2LMHeadModel")(
            getattr(transformers, f"{kind}Config")(**sizes)
        )
        training = transformers.TrainingArguments(
            str(folder), max_steps=steps, per_device_train_batch_size=16, use_cpu=True, disable_tqdm=True, seed=seed,
            logging_strategy="no", report_to=[], **{"learning_rate": 3e-3, **options, **arguments},
        )  # fmt: skip
        callbacks = [] if isinstance(save, int) else [save_on(save)]
        transformers.Trainer(model, training, train_dataset=data, callbacks=callbacks).train()


def own(folder: Path, seed: int, *, task: Any, architecture: Architecture, **plan: Any) -> None:
    """Train a recipe of this library into a run folder."""
    train(Recipe(task, architecture, TrainPlan(seeds=Seeds(seed, seed, seed), **plan)), folder, progress=False)


GPT2 = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 2 * LENGTH, "initializer_range": 0.1}
GPT2 |= dict.fromkeys(["resid_pdrop", "embd_pdrop", "attn_pdrop"], 0.0)
NEOX = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
NEOX |= {"max_position_embeddings": 2 * LENGTH}
LLAMA = {**NEOX, "num_key_value_heads": 2}
SMALL = Architecture({"n_layers": 2, "d_model": 32, "d_head": 8, "n_ctx": 24, "d_vocab": 16, "act_fn": "relu"})
POWERS = frozenset(2**k for k in range(20))
CHAIN = MarkovChain()
COPY = RepeatedTokens(VOCAB, length=LENGTH, bos=0)


def fitted(task: Any, **config: Any) -> Architecture:
    """Return a small model for a task."""
    sizes = {"n_layers": 1, "d_model": 32, "d_head": 8, "act_fn": "gelu", "d_mlp": 64}
    return Architecture({**sizes, "n_ctx": task.n_ctx, "d_vocab": task.d_vocab, **config})


TUNED: dict[str, Training] = {
    "hooked constant": Training(hooked, {"rate": constant(2e-3), "save": range(0, 801, 20)}),
    "hooked logarithmic": Training(hooked, {"rate": constant(2e-3), "save": logarithmic(6, 1001) | {0}}, 1),
    "hooked powers": Training(hooked, {"rate": constant(1e-3), "save": [0, *(2**k for k in range(11))]}, 2),
    "hooked warm restarts": Training(hooked, {"rate": warm_restarts(4e-3, 150), "save": range(0, 601, 15)}, 3),
    "hooked rate jumps": Training(
        hooked, {"rate": jumping((0, 5e-4), (300, 5e-3), (450, 5e-4)), "save": range(0, 601, 20)}, 4
    ),
    "hooked sgd": Training(hooked, {"rate": constant(0.3), "save": range(0, 401, 20), "optimiser": "SGD"}, 5),
    "hooked every step": Training(hooked, {"rate": constant(1e-3), "save": range(150)}, 6),
    "hooked half": Training(
        hooked, {"rate": constant(1e-3), "save": range(0, 401, 20), "dtype": torch.bfloat16}, 7
    ),
    "hooked three": Training(hooked, {"rate": constant(1e-3), "save": [0, 100, 200]}, 8),
    "trainer gpt2 linear": Training(trainer, {"kind": "GPT2", "save": 25, "steps": 500, "config": GPT2}),
    "trainer gpt2 schedule": Training(
        trainer, {"kind": "GPT2", "save": linear(50, 600) | logarithmic(6, 50), "steps": 600, "config": GPT2,
                  "lr_scheduler_type": "constant"}, 1,
    ),
    "trainer gpt2 restarts": Training(
        trainer, {"kind": "GPT2", "save": 20, "steps": 500, "config": GPT2,
                  "lr_scheduler_type": "cosine_with_restarts", "lr_scheduler_kwargs": {"num_cycles": 4}}, 2,
    ),
    "trainer neox warmup": Training(
        trainer, {"kind": "GPTNeoX", "save": POWERS, "steps": 600, "config": NEOX, "warmup_steps": 50,
                  "lr_scheduler_type": "cosine"}, 3,
    ),
    "trainer llama": Training(
        trainer, {"kind": "Llama", "save": 30, "steps": 450, "config": LLAMA, "weight_decay": 0.1}, 4
    ),
    "trainer llama few": Training(trainer, {"kind": "Llama", "save": 100, "steps": 400, "config": LLAMA}, 5),
    "own markov": Training(own, {"task": CHAIN, "architecture": minimal(CHAIN.d_vocab, CHAIN.n_ctx), "steps": 500}),
    "own sgd": Training(
        own, {"task": CHAIN, "architecture": minimal(CHAIN.d_vocab, CHAIN.n_ctx), "steps": 400, "optimiser": "sgd",
              "learning_rate": 0.5}, 1,
    ),
    "own copy": Training(
        own, {"task": COPY, "architecture": fitted(COPY, n_layers=2), "steps": 600, "learning_rate": 3e-3,
              "batch_size": 32, "save": linear(20, 600)}, 2,
    ),
    "own cooled": Training(
        own, {"task": COPY, "architecture": fitted(COPY, normalization_type="LN"), "steps": 500, "warmup": 50,
              "cooldown": 150, "batch_size": 32, "save": linear(25, 500)}, 3,
    ),
    "own logarithmic": Training(
        own, {"task": CHAIN, "architecture": fitted(CHAIN), "steps": 1000, "batch_size": 32,
              "save": logarithmic(5, 1000)}, 4,
    ),
    "own long": Training(
        own, {"task": CHAIN, "architecture": fitted(CHAIN, d_model=16, d_head=4, d_mlp=16), "steps": 1500,
              "batch_size": 16, "save": linear(5, 1500)}, 5,
    ),
}  # fmt: skip
"""The series on which the thresholds of the audit were chosen."""


RECALL = AssociativeRecall()

HELD_OUT: dict[str, Training] = {
    "hooked mlp cosine": Training(
        hooked, {"rate": cosine(3e-3, 480, warmup=40), "save": range(0, 481, 20), "attn_only": False, "d_mlp": 64,
                 "act_fn": "gelu", "normalization_type": "LN"}, 20,
    ),
    "hooked rotary": Training(
        hooked, {"rate": constant(4e-3), "save": logarithmic(8, 600) | {0, 600}, "rotary_dim": 8, "n_layers": 1,
                 "positional_embedding_type": "rotary", "normalization_type": "RMS"}, 21,
    ),
    "hooked momentum": Training(
        hooked, {"rate": jumping((0, 0.05), (200, 0.5), (300, 0.02)), "save": range(0, 401, 10), "optimiser": "SGD",
                 "wrapper": "model"}, 22,
    ),
    "hooked noisy": Training(
        hooked, {"rate": constant(1e-2), "save": range(0, 301, 15), "optimiser": "RMSprop", "batch": 4}, 23
    ),
    "hooked dense then sparse": Training(
        hooked, {"rate": warm_restarts(3e-3, 100), "save": [*range(20), *range(20, 100, 10), *range(100, 601, 50)]}, 24,
    ),
    "trainer gpt2 dropout": Training(
        trainer, {"kind": "GPT2", "save": 20, "steps": 300, "weight_decay": 0.3, "max_grad_norm": 0.1,
                  "config": {**GPT2, "resid_pdrop": 0.1, "attn_pdrop": 0.1}, "learning_rate": 1e-3}, 20,
    ),
    "trainer neox polynomial": Training(
        trainer, {"kind": "GPTNeoX", "save": 15, "steps": 300, "config": NEOX, "lr_scheduler_type": "polynomial",
                  "adam_beta2": 0.9}, 21,
    ),
    "trainer llama warmup": Training(
        trainer, {"kind": "Llama", "save": logarithmic(5, 400), "steps": 400, "config": LLAMA, "warmup_steps": 100,
                  "lr_scheduler_type": "constant_with_warmup", "optim": "adafactor"}, 22,
    ),
    "trainer llama tied": Training(
        trainer, {"kind": "Llama", "save": 50, "steps": 500, "config": {**LLAMA, "tie_word_embeddings": True},
                  "learning_rate": 1e-2}, 23,
    ),
    "own recall": Training(
        own, {"task": RECALL, "architecture": fitted(RECALL, n_layers=2, attn_only=True), "steps": 500,
              "learning_rate": 3e-3, "batch_size": 32}, 20,
    ),
    "own fast": Training(
        own, {"task": CHAIN, "architecture": fitted(CHAIN, normalization_type="RMS"), "steps": 300, "batch_size": 16,
              "learning_rate": 3e-2, "weight_decay": 0.5, "save": linear(10, 300)}, 21,
    ),
    "own momentum": Training(
        own, {"task": COPY, "architecture": fitted(COPY), "steps": 400, "batch_size": 16, "optimiser": "sgd",
              "learning_rate": 0.2, "momentum": 0.9, "save": logarithmic(7, 400)}, 22,
    ),
    "own quick": Training(
        own, {"task": CHAIN, "architecture": minimal(CHAIN.d_vocab, CHAIN.n_ctx), "steps": 60, "learning_rate": 2e-2,
              "save": linear(4, 60)}, 23,
    ),
}  # fmt: skip
"""Series that were not looked at before the thresholds stood."""


def main(folder: Path) -> None:
    """Train what is not there yet."""
    for name, training in (TUNED | HELD_OUT).items():
        for path, seed in ((folder, 0), (folder.with_name(folder.name + "-other"), 100)):
            path = path / ("held-out" if name in HELD_OUT else "tuned") / name.replace(" ", "-")
            if not path.exists():
                print(training._replace(seed=training.seed + seed).write(path), flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]))
