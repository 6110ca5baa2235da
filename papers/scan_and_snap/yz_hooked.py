"""The (Y, Z) model inside a HookedTransformer: ordinary hook names, ordinary checkpoints, every probe runs on it."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Generator, Tensor
from torch.nn import functional

from stagewise.architecture import Architecture
from stagewise.checkpoints.series import CheckpointSeries
from stagewise.init import AbstractInit, Config, InitialWeights, Shapes
from stagewise.papers.scan_and_snap.yz_model import YZ


@dataclasses.dataclass(frozen=True)
class YZInit(AbstractInit):
    """The (Y, Z) model, wired inside an attention-only HookedTransformer without norms.

    The residual stream holds two blocks of M: token and output. W_E writes the token one-hot; the head scores it with
    W_Q = Z and copies what it attends to into the output block, which is divided by its l2 norm; W_U = Y reads that
    alone. Two hooks that stay with the model do what no config can express: a query does not attend to itself (except
    at position 0, where there is nothing else), and only the normalised output block leaves the layer. W_Q and W_U
    train, the rest, and the padding in both (whose gradient is exactly zero), stays.

    Args:
        weights: "zero", or "uniform" for Y and Z in +-1/sqrt(M).

    Source: Tian et al. (2023), arXiv:2305.16380, section 2; zero for Syn-Small, uniform for Syn-Medium.
    """

    weights: Literal["zero", "uniform"] = "zero"

    def initial(self, cfg: Config, shapes: Shapes, generator: Generator) -> InitialWeights:
        """Return the wiring, the initial Y and Z, and the two hooks.

        Raises:
            ValueError: the config is not the one that `yz` makes.
        """
        m = cfg.d_vocab
        if (cfg.n_layers, cfg.n_heads, cfg.d_model, cfg.d_head) != (1, 1, 2 * m, m) or cfg.use_attn_scale:
            raise ValueError(
                f"YZInit needs one layer of one head, d_head = d_vocab = {m}, d_model = {2 * m}, no attention scale; "
                f"got {cfg.n_layers} layers of {cfg.n_heads} heads, d_head = {cfg.d_head}, d_model = {cfg.d_model}, "
                f"use_attn_scale = {cfg.use_attn_scale}"
            )
        y, z = torch.zeros(2, m, m)
        if self.weights == "uniform":
            y, z = (2 * torch.rand(2, m, m, generator=generator) - 1) / m**0.5
        hooks = {
            "blocks.0.attn.hook_attn_scores": _not_itself,
            "blocks.0.hook_resid_post": _normalised_output,
        }
        frozen = frozenset(shapes) - {"blocks.0.attn.W_Q", "unembed.W_U"}
        return InitialWeights(named_weights(y, z, cfg.n_ctx), frozen, hooks)


def yz(d_vocab: int, n_ctx: int, weights: Literal["zero", "uniform"] = "zero") -> Architecture:
    """Return the (Y, Z) model as an architecture that trains, loads and is probed like any other.

    Its two rates are `TrainPlan(rates={"unembed.W_U": eta_Y, "*.W_Q": eta_Z})`.

    Source: Tian et al. (2023), arXiv:2305.16380, section 2; see `YZInit`.
    """
    config = {
        "n_layers": 1,
        "n_heads": 1,
        "d_head": d_vocab,
        "d_model": 2 * d_vocab,
        "n_ctx": n_ctx,
        "d_vocab": d_vocab,
        "attn_only": True,
        "normalization_type": None,
        "use_attn_scale": False,
    }
    return Architecture(config, YZInit(weights))


def ordinary(d_vocab: int, n_ctx: int, d_model: int = 64) -> Architecture:
    """Return the ordinary one-layer transformer to compare with: one head, RMS norm, learned positions, residual."""
    config = {
        "n_layers": 1,
        "n_heads": 1,
        "d_head": d_model,
        "d_model": d_model,
        "n_ctx": n_ctx,
        "d_vocab": d_vocab,
        "attn_only": True,
        "normalization_type": "RMSPre",
    }
    return Architecture(config)


def named_weights(y: Float[Tensor, "token token"], z: Float[Tensor, "token token"], n_ctx: int) -> dict[str, Tensor]:
    """Return all parameters of the wired model by TransformerLens's names."""
    m = len(y)
    eye, none = torch.eye(m), torch.zeros(m, m)
    above = torch.cat([eye, none])  # reads the token block
    return {
        "embed.W_E": above.T.contiguous(),
        "pos_embed.W_pos": torch.zeros(n_ctx, 2 * m),
        "blocks.0.attn.W_Q": torch.cat([z, none])[None],
        "blocks.0.attn.W_K": above[None],
        "blocks.0.attn.W_V": above[None],
        "blocks.0.attn.W_O": torch.cat([none, eye], 1)[None],
        **{f"blocks.0.attn.b_{name}": torch.zeros(1, m) for name in "QKV"},
        "blocks.0.attn.b_O": torch.zeros(2 * m),
        "unembed.W_U": torch.cat([none, y]),
        "unembed.b_U": torch.zeros(m),
    }


def yz_of(state: Mapping[str, Tensor]) -> YZ:
    """Return Y and Z of a checkpoint of the wired model, as one run."""
    m = state["unembed.b_U"].shape[0]
    return YZ(state["unembed.W_U"][None, m:], state["blocks.0.attn.W_Q"][:, :m])


def series_of(name: str, moments: Iterable[tuple[int, YZ]], n_ctx: int) -> CheckpointSeries:
    """Return the checkpoints of one run as a series in memory, to be measured on batches of up to n_ctx positions.

    Args:
        name: of the run.
        moments: the steps with their weights; of several runs, the first one's are taken.
        n_ctx: positions of the model; it encodes none, so any number will do.
    """
    snapshots = {step: (weights.y[0].clone(), weights.z[0].clone()) for step, weights in moments}
    m = len(next(iter(snapshots.values()))[0])
    return CheckpointSeries(name, yz(m, n_ctx), tuple(snapshots), lambda step: named_weights(*snapshots[step], n_ctx))


def _not_itself(scores: Float[Tensor, "batch head query key"], hook: Any) -> Tensor:
    itself = torch.eye(scores.shape[-1], dtype=torch.bool, device=scores.device)
    itself[0, 0] = False
    return scores.masked_fill(itself, -torch.inf)


def _normalised_output(residual: Float[Tensor, "batch pos model"], hook: Any) -> Tensor:
    token, output = residual.chunk(2, dim=-1)
    return torch.cat([torch.zeros_like(token), functional.normalize(output, dim=-1)], -1)
