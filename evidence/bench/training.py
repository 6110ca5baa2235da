"""A training step of stagewise over the leanest plain torch of the same model, loss and optimiser."""

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from evidence.bench.timing import Row, Work, ratio, timed_in_turn
from stagewise import models
from stagewise.loss import training_loss
from stagewise.models._training_pass import training_pass
from stagewise.papers.emergence.recipes import recall_recipe
from stagewise.papers.incremental import markov
from stagewise.presets import text_architecture, text_plan
from stagewise.recipe import Recipe
from stagewise.task import Batch
from stagewise.tasks import RepeatedTokens
from stagewise.training import descend, optimiser_of

GOAL = 1.1

STEPS = 20
"""Updates of a timed run."""

AGREE = 2e-4
"""Relative difference of the losses after as many updates: float32 sums in another order, which training carries on."""


@dataclasses.dataclass(frozen=True)
class EveryPosition(RepeatedTokens):
    """Repeated tokens of which every prediction is scored, as of text."""

    def sample(self, n: int, seed: int) -> Batch:
        """Sample n sequences."""
        batch = super().sample(n, seed)
        return dataclasses.replace(batch, scored=torch.ones_like(batch.scored))


class Losses(NamedTuple):
    """A side, and the losses of its updates so far."""

    run: Work
    losses: list[float]


def training_minimal() -> Iterator[Row]:
    """The `minimal` preset over its one-hot architecture written down as it is: two matrices a head."""
    yield _step("training step over plain torch: minimal", markov.recipe("minimal"), _minimal)


def training_full() -> Iterator[Row]:
    """The `full` preset over a plain pre-norm block."""
    yield _step("training step over plain torch: full", markov.recipe("full"), _transformer)


def training_recall() -> Iterator[Row]:
    """Two attention-only layers without norms on associative recall."""
    yield _step("training step over plain torch: 2-layer recall", recall_recipe(8, 64), _transformer)


def training_wikitext() -> Iterator[Row]:
    """The WikiText model: two attention-only layers, positions seen by queries and keys alone, 1,024 tokens."""
    # Random tokens of the same shape: what they say does not change what a step costs.
    task = EveryPosition(1024, 32, 32)
    recipe = Recipe(task, text_architecture(task.n_ctx, 1024), text_plan(5000, 0))
    yield _step("training step over plain torch: WikiText", recipe, _transformer)


ROWS = (training_minimal, training_full, training_recall, training_wikitext)


def _step(name: str, recipe: Recipe, plain: Callable[[Recipe], Losses]) -> Row:
    """Time the updates of both sides on the same batches, from the same weights; check that the losses agree."""
    ours, theirs = _stagewise(recipe), plain(recipe)
    pairs = timed_in_turn(ours.run, theirs.run, pairs=9)
    for mine, other in zip(ours.losses[:STEPS], theirs.losses[:STEPS], strict=True):
        assert abs(mine - other) <= AGREE * abs(other), f"the losses differ: {mine} and {other}"
    return ratio(name, pairs, GOAL)


def _stagewise(recipe: Recipe) -> Losses:
    """Return stagewise's own training, as `train` does it, without writing checkpoints."""
    model = models.build(recipe.architecture, recipe.plan.seeds.init)
    batches, losses = _batches(recipe), list[dict[str, int | float]]()
    example = recipe.task.sample(8, recipe.plan.seeds.data)
    predict = training_pass(model, example.tokens, example.scored, recipe.plan.batch_size).predict
    optimiser, kept = optimiser_of(models.parameters(model), recipe.plan), list[float]()

    def loss_at(step: int) -> Tensor:
        batch = batches[step]
        return training_loss(predict(batch.tokens, batch.scored), batch.targets[batch.scored])

    def run() -> None:
        losses.clear()
        for _ in descend(optimiser, loss_at, 0, STEPS, clip=recipe.plan.clip, metrics=losses):
            pass
        kept.extend(each["loss"] for each in losses)

    return Losses(run, kept)


def _batches(recipe: Recipe) -> list[Any]:
    stream = recipe.task.stream(recipe.plan.seeds.data)
    return [stream(step, recipe.plan.batch_size) for step in range(STEPS)]


def _plain(recipe: Recipe, parameters: list[nn.Parameter], logits: Callable[[Tensor, Tensor], Tensor]) -> Losses:
    """Return plain torch's training loop."""
    plan, batches, kept = recipe.plan, _batches(recipe), list[float]()
    optimiser = torch.optim.AdamW(parameters, plan.learning_rate, weight_decay=plan.weight_decay, fused=True)

    def run() -> None:
        for batch in batches:
            loss = F.cross_entropy(logits(batch.tokens, batch.scored), batch.targets[batch.scored])
            optimiser.zero_grad()
            loss.backward()
            if plan.clip is not None:
                nn.utils.clip_grad_norm_(parameters, plan.clip)
            optimiser.step()
            kept.append(loss.item())

    return Losses(run, kept)


def _minimal(recipe: Recipe) -> Losses:
    """Return the minimal architecture in as few operations as its equations allow.

    score_ij = (W_Q x_i) . x_j / sqrt(D), logits_i = sum_h sum_j a_ij W_V x_j, with x a one-hot token beside a one-hot
    position: projections are rows of W_Q and W_V, heads share their keys, and their values are summed in one product.
    """
    weights = models.weights(models.build(recipe.architecture, recipe.plan.seeds.init))
    d_vocab, n_ctx = recipe.task.d_vocab, recipe.task.n_ctx
    width = d_vocab + n_ctx
    W_Q = nn.Parameter(weights["blocks.0.attn.W_Q"][:, :width].clone())
    W_V = nn.Parameter(weights["blocks.0.attn.W_V"][:, :width, :d_vocab].clone())

    def rows(weight: Tensor, tokens: Tensor, first: int) -> Tensor:
        """W x_i from position `first` on, [batch pos (head out)]."""
        table = weight.transpose(0, 1).flatten(1)
        return F.embedding(tokens[:, first:], table[:d_vocab]) + table[d_vocab + first :]

    def logits(tokens: Tensor, scored: Tensor) -> Tensor:
        (batch, length), n_heads = tokens.shape, len(W_Q)
        first = int(scored[0].int().argmax())  # earlier queries predict nothing that counts
        queries = rows(W_Q / math.sqrt(width), tokens, first).view(batch, -1, width)
        x = torch.cat([F.one_hot(tokens, d_vocab).float(), torch.eye(length).expand(batch, -1, -1)], -1)
        hidden = torch.full((length, length), -torch.inf).triu(1)[first:, None]
        pattern = ((queries @ x.transpose(1, 2)).view(batch, -1, n_heads, length) + hidden).softmax(-1)
        values = rows(W_V, tokens, 0).view(batch, length, n_heads, d_vocab).transpose(1, 2)
        return (pattern.flatten(2) @ values.flatten(1, 2))[scored[:, first:]]

    return _plain(recipe, [W_Q, W_V], logits)


def _transformer(recipe: Recipe) -> Losses:
    """Return an ordinary pre-norm transformer in plain torch, with the same initial weights."""
    config: Mapping[str, Any] = recipe.architecture.config
    built = models.build(recipe.architecture, recipe.plan.seeds.init)
    model = PlainTransformer(config, models.weights(built))
    model.positions.requires_grad_(models.parameters(built)["pos_embed.W_pos"].requires_grad)
    return _plain(recipe, [each for each in model.parameters() if each.requires_grad], model)


class PlainTransformer(nn.Module):
    """Embedding, pre-norm blocks with one fused QKV product and torch's attention, unembedding."""

    def __init__(self, config: Mapping[str, Any], state: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.n_heads, self.normed = config["n_heads"], config["normalization_type"] == "LN"
        self.shortformer = config.get("positional_embedding_type") == "shortformer"
        self.embed = nn.Parameter(state["embed.W_E"])
        self.positions = nn.Parameter(state["pos_embed.W_pos"])
        self.blocks = nn.ModuleList(PlainBlock(config, state, layer) for layer in range(config["n_layers"]))
        self.norm = _norm(state, "ln_final") if self.normed else nn.Identity()
        self.unembed = _linear(state["unembed.W_U"], state["unembed.b_U"])

    def forward(self, tokens: Tensor, scored: Tensor) -> Tensor:
        """Return the logits of the scored predictions."""
        positions = self.positions[: tokens.shape[1]]
        x = self.embed[tokens] if self.shortformer else self.embed[tokens] + positions
        for block in self.blocks:
            x = block(x, positions if self.shortformer else None)
        logits: Tensor = self.unembed(self.norm(x[scored]))
        return logits


class PlainBlock(nn.Module):
    """One pre-norm block."""

    def __init__(self, config: Mapping[str, Any], state: Mapping[str, Tensor], layer: int) -> None:
        super().__init__()
        self.n_heads, normed = config["n_heads"], config["normalization_type"] == "LN"
        own = {name.removeprefix(f"blocks.{layer}."): each for name, each in state.items() if f"s.{layer}." in name}
        self.norm1 = _norm(own, "ln1") if normed else nn.Identity()
        projections = {name: _by_head(own, name) for name in "QKV"}
        self.qk = _linear(*(torch.cat([projections[name][part] for name in "QK"], -1) for part in (0, 1)))
        self.v = _linear(*projections["V"])
        self.out = _linear(own["attn.W_O"].flatten(0, 1), own["attn.b_O"])
        self.mlp: nn.Module | None = None
        if not config.get("attn_only", False):
            first = _linear(own["mlp.W_in"], own["mlp.b_in"])
            second = _linear(own["mlp.W_out"], own["mlp.b_out"])
            self.mlp = nn.Sequential(_norm(own, "ln2") if normed else nn.Identity(), first, nn.ReLU(), second)

    def forward(self, x: Tensor, positions: Tensor | None) -> Tensor:
        """Return the residual stream after the block."""
        normed = self.norm1(x)
        read = normed if positions is None else normed + positions
        q, k = self.qk(read).unflatten(-1, (2, self.n_heads, -1)).permute(2, 0, 3, 1, 4)
        v = self.v(normed).unflatten(-1, (self.n_heads, -1)).transpose(1, 2)
        z = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        after: Tensor = x + self.out(z.transpose(1, 2).flatten(2))
        return after if self.mlp is None else after + self.mlp(after)


def _by_head(own: Mapping[str, Tensor], name: str) -> tuple[Tensor, Tensor]:
    """Return a projection's weight [d_model, head x d_head] and bias."""
    return own[f"attn.W_{name}"].transpose(0, 1).flatten(1), own[f"attn.b_{name}"].flatten()


def _linear(weight: Tensor, bias: Tensor) -> nn.Linear:
    """Return a layer of a weight [in, out] and a bias."""
    linear = nn.Linear(*weight.shape)
    linear.weight, linear.bias = nn.Parameter(weight.T.contiguous()), nn.Parameter(bias)
    return linear


def _norm(state: Mapping[str, Tensor], name: str) -> nn.LayerNorm:
    norm = nn.LayerNorm(state[f"{name}.w"].shape)
    norm.weight, norm.bias = nn.Parameter(state[f"{name}.w"]), nn.Parameter(state[f"{name}.b"])
    return norm
