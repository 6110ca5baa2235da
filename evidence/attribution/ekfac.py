"""Influence at a window's end by EK-FAC, through the package `kronfluence` where it is installed.

The package reads weights of `torch.nn.Linear` alone, so that an attention-only model without norms is copied into one
of such layers; embeddings are a layer of one-hot tokens.

Source: Grosse et al. (2023), Studying Large Language Model Generalization with Influence Functions, arXiv:2308.03296.
"""

import importlib.util
import logging
import tempfile
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from evidence.attribution.windows import Window, at_start
from stagewise import models
from stagewise.measurement.probe_batch import load_batch
from stagewise.papers.adjoint import trained_parameters
from stagewise.task import Batch
from stagewise.training import Training

AT_ONCE = 512
"""Samples of a pass."""


class Linears(nn.Module):
    """An attention-only transformer without norms, every weight that may train in a linear layer."""

    positions: Float[Tensor, "pos model"]

    def __init__(self, training: Training) -> None:
        """Copy the weights of a training's model.

        Raises:
            ValueError: the model has MLPs or norms.
        """
        super().__init__()
        cfg: Any = training.model.cfg
        if not cfg.attn_only or cfg.normalization_type is not None:
            raise ValueError(f"EK-FAC is of attention-only models without norms, got {cfg.normalization_type} norms")
        named = models.weights(training.model)
        trained = trained_parameters(training).keys()
        self.heads, self.layers, self.d_head = int(cfg.n_heads), int(cfg.n_layers), int(cfg.d_head)
        self.d_vocab = int(cfg.d_vocab)
        self.at_queries = cfg.positional_embedding_type == "shortformer"
        self.register_buffer("positions", named["pos_embed.W_pos"])
        self.parts = nn.ModuleDict()
        for name, weight in named.items():
            if ".W_" in name and name != "pos_embed.W_pos":
                bias = name.replace(".W_", ".b_")
                # The package takes a bias that is there as one that trains; one that does not is 0 in these models.
                self.parts[_part(name)] = _linear(_as_matrix(name, weight), named[bias] if bias in trained else None)
        self.trained = [f"parts.{_part(name)}" for name in trained if ".W_" in name]

    def forward(
        self, tokens: Int[Tensor, "batch pos"]
    ) -> tuple[Float[Tensor, "batch pos token"], list[Float[Tensor, "batch head query key"]]]:
        """Return logits, and the attention of each layer."""
        positions = self.positions[: tokens.shape[1]]
        stream = self.parts["embed"](F.one_hot(tokens, self.d_vocab).to(positions))
        stream = stream if self.at_queries else stream + positions
        future = torch.ones(tokens.shape[1], tokens.shape[1]).triu(1).bool()
        patterns = []
        for layer in range(self.layers):
            seen = stream + positions if self.at_queries else stream
            q, k, v = (
                self.parts[f"{layer}{part}"](read).unflatten(-1, (self.heads, self.d_head)).transpose(1, 2)
                for part, read in (("Q", seen), ("K", seen), ("V", stream))
            )
            scores = (q @ k.mT / self.d_head**0.5).masked_fill(future, -torch.inf)
            patterns.append(scores.softmax(-1))
            stream = stream + self.parts[f"{layer}O"]((patterns[-1] @ v).transpose(1, 2).flatten(2))
        return self.parts["unembed"](stream), patterns


def _as_matrix(name: str, weight: Tensor) -> Float[Tensor, "read written"]:
    """Return a weight with the heads side by side."""
    if weight.ndim == 2:
        return weight
    return weight.flatten(0, 1) if name.endswith("W_O") else weight.transpose(0, 1).flatten(1)


def _linear(weight: Float[Tensor, "read written"], bias: Tensor | None) -> nn.Linear:
    layer = nn.Linear(weight.shape[0], weight.shape[1], bias=bias is not None)
    layer.weight.data = weight.T.contiguous()
    if bias is not None:
        layer.bias.data = bias.flatten()
    return layer


def _part(name: str) -> str:
    """Return the layer of a weight.

    >>> _part("blocks.1.attn.W_Q"), _part("embed.W_E")
    ('1Q', 'embed')
    """
    first, *inner = name.split(".")
    return inner[0] + inner[-1][-1] if first == "blocks" else first


def losses(model: nn.Module, batch: tuple[Tensor, ...], drawn: bool = False) -> Float[Tensor, ""]:
    """Return the sum of samples' losses, at targets or at draws from what the model predicts."""
    tokens, targets, scored = batch
    logits = model(tokens)[0][scored]
    labels = torch.multinomial(logits.detach().softmax(-1), 1)[:, 0] if drawn else targets[scored]
    return F.cross_entropy(logits, labels, reduction="sum")


def attention(model: nn.Module, batch: tuple[Tensor, ...], layer: int, head: int) -> Float[Tensor, ""]:
    """Return the sum over sequences of a head's mean attention to a relation."""
    tokens, shares = batch
    logits, patterns = model(tokens)
    # Layers behind the head have a gradient of 0, which the package asks for.
    summed: Tensor = (patterns[layer][:, head] * shares).sum() + 0 * logits.sum()
    return summed


def shares_of(batch: Batch, relation: str) -> Float[Tensor, "batch query key"]:
    """Return what attention from a query to a key adds to a sequence's mean over the queries that have a key."""
    keys: Bool[Tensor, "batch query key"] = batch.relations[relation]
    return keys.float() / keys.any(-1).sum(-1).clamp(min=1)[:, None, None]


def influence(window: Window, damping: float | None = None) -> Float[Tensor, "step sample"]:
    """Return what EK-FAC says of every sample, at the weights of the window's end.

    Args:
        window: whose samples are told.
        damping: added to every eigenvalue; None adds a tenth of their mean in a layer, as the source does.

    Raises:
        ModuleNotFoundError: `kronfluence` is not installed.
    """
    from kronfluence.analyzer import Analyzer, prepare_model
    from kronfluence.arguments import FactorArguments, ScoreArguments
    from kronfluence.task import Task

    recipe, training = at_start(window)
    batches = [training.batch_at(step) for step in range(window.start, window.stop)]
    for _ in training.steps(window.start, window.stop, []):
        pass
    model = Linears(training)

    class Samples(Task):  # type: ignore[misc,unused-ignore]
        def compute_train_loss(self, batch: Any, model: nn.Module, sample: bool = False) -> Tensor:
            return losses(model, batch, sample)

        def compute_measurement(self, batch: Any, model: nn.Module) -> Tensor:
            return attention(model, batch, *window.head)

        def get_influence_tracked_modules(self) -> list[str]:
            return model.trained

    probe = load_batch(recipe, window.folder)
    queries = TensorDataset(probe.tokens, shares_of(probe, window.relation))
    samples = TensorDataset(*(torch.cat([getattr(each, name) for each in batches]) for name in _FIELDS))
    with tempfile.TemporaryDirectory() as place:
        quiet = {"cpu": True, "log_level": logging.ERROR, "disable_tqdm": True, "output_dir": place}
        analyzer = Analyzer("window", prepare_model(model, Samples()), Samples(), **quiet)
        sizes = {"per_device_batch_size": AT_ONCE}
        analyzer.fit_all_factors("ekfac", samples, **sizes, factor_args=FactorArguments("ekfac"))
        sizes = {"per_device_query_batch_size": AT_ONCE, "per_device_train_batch_size": AT_ONCE}
        summed = ScoreArguments(aggregate_query_gradients=True, damping_factor=damping)
        analyzer.compute_pairwise_scores("scores", "ekfac", queries, samples, **sizes, score_args=summed)
        found: Tensor = analyzer.load_pairwise_scores("scores")["all_modules"]
    return -found[0].float().view(len(batches), -1)


_FIELDS = ("tokens", "targets", "scored")


def is_installed() -> bool:
    """Whether `kronfluence` can be imported."""
    return importlib.util.find_spec("kronfluence") is not None
