"""Each default probe alone at a further checkpoint of a folder of GPT-2 small's shape, over a script of transformers.

The script is what a careful user writes: no gradient, no pass or position that the numbers do not need, an ablation
from its own layer on. Both sides give the same numbers, which is checked.
"""

import functools
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor

from evidence.bench.timing import Pair, Row, Spent, ratio, spent
from stagewise import probes
from stagewise.checkpoints.series import CheckpointSeries, open_series
from stagewise.measurement.engine import measure
from stagewise.measurement.probe_batch import usable
from stagewise.probe import AbstractPatternProbe, AbstractProbe
from stagewise.table import maps_in, select
from stagewise.task import Batch
from stagewise.tasks import RepeatedTokens

SEQUENCES, LENGTH = 8, 16
"""With half of it again, 23 positions."""

CONTEXTS = (1, 4, 16)
PAIRS = 5
FURTHER, FEW = 4, 1
"""Checkpoints beyond the first, which also pays for building the model; and of probes that take long."""

AGREE = 1e-4
GOALS = {"RestrictedContextKL": 1.15, "HeadAblation": 1.15, "HeadAttribution": 1.2}
"""Those of probes that take long."""

GOAL = 1.3


class Pass(NamedTuple):
    """One clean pass: residual streams in front of each layer and behind the last, patterns and outputs of heads."""

    streams: list[Tensor]
    patterns: list[Tensor]
    z: list[Tensor]


class Script(NamedTuple):
    """A probe, the quantity that is compared, and the script that gives it as numbers in the table's order."""

    probe: AbstractProbe
    quantity: str
    plain: Callable[[Any, Batch], Tensor]


def scripts() -> dict[str, Script]:
    """Return each default probe of a model of this shape with its script, by name."""
    return {
        type(probe).__name__: Script(probe, quantity, plain)
        for probe, quantity, plain in (
            (probes.Loss(), "cross_entropy", lambda *of: scored_loss(*of).mean()),
            (probes.Accuracy(), "accuracy", lambda *of: _hits(*of).mean()),
            (probes.KLToReference(), "kl", _to_references),
            (probes.LossAgainstReferences(), "gap", _gaps),
            (probes.LossByPosition(), "cross_entropy", lambda *of: _losses(*of).mean(0)),
            (probes.InContextLearning(), "score", _in_context),
            (probes.Copying(), "accuracy", lambda *of: _hits(*of).mean()),
            (probes.AttentionEntropy(), "entropy", _over_patterns(lambda A: torch.special.entr(A).sum(-1))),
            (probes.EffectiveSupport(), "keys", _over_patterns(lambda A: 1 / A.square().sum(-1))),
            (probes.AttentionDistance(), "distance", _over_patterns(lambda A: (A * _offsets(A)).sum(-1))),
            (probes.ParticipationRatio(), "dimensions", _dimensions),
            (probes.AttentionTo(), "mass", _masses),
            (probes.HeadSpecialisation(), "share", _shares),
            (probes.PatternClusters(None), "profile", _profiles),
            (probes.RestrictedContextKL(CONTEXTS), "kl", _restricted),
            (probes.HeadAblation(kinds=("mean",)), "loss_change", _ablated),
            (probes.HeadAttribution(), "estimated_change", _attributed),
            (probes.OffsetProfile(None), "mass", _by_offset),
            (probes.MeanPattern(None), "attention", _maps),
            (probes.OVCopying(), "copying", _copying),
            (probes.QKOffset(), "share", _previous),
            (probes.Composition(), "score", _composition),
        )
    }


def each_alone() -> Iterator[Row]:
    """Each probe by itself: a further checkpoint by `measure`, and by its script."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config()
    batch = usable(RepeatedTokens(config.vocab_size, length=LENGTH).probe_batch(SEQUENCES, 0))
    plain = GPT2LMHeadModel(config).eval()
    with tempfile.TemporaryDirectory() as folder:
        for step in range(FURTHER + 1):
            GPT2LMHeadModel(config).save_pretrained(Path(folder, f"checkpoint-{step}"))
        series = open_series(folder)
        for name, script in scripts().items():
            ours, further = [script.probe], FEW if name in GOALS else FURTHER
            theirs = functools.partial(by_hand, script, plain, Path(folder), batch, further)
            check(script, measure(series[further : further + 1], ours, batch, progress=False), theirs())
            sides = [_sides(series[: further + 1], ours, batch, theirs) for _ in range(PAIRS)]
            title = f"GPT-2 small's shape, {name} alone, a further checkpoint: stagewise over a plain script"
            yield ratio(title, sides, GOALS.get(name, GOAL))


def check(script: Script, table: Any, expected: Tensor) -> None:
    """Hold the rows of the probe to the numbers of its script."""
    rows = select(table, type(script.probe).__name__, script.quantity)
    if "control" in rows:
        rows = rows[rows["control"] == "head"]
    ours = np.concatenate([np.ravel(each) for each in maps_in(rows)]) if "map" in rows else rows["value"].to_numpy()
    given = torch.tensor(ours).double().flatten()
    torch.testing.assert_close(given, expected.double().flatten(), atol=AGREE, rtol=AGREE)


def by_hand(script: Script, plain: Any, folder: Path, batch: Batch, further: int) -> Tensor:
    """Load each further checkpoint and run the script on it; return the numbers of the last one."""
    found = torch.empty(0)
    plain.set_attn_implementation("eager" if isinstance(script.probe, AbstractPatternProbe) else "sdpa")
    for step in range(1, further + 1):
        plain.load_state_dict(load_file(folder / f"checkpoint-{step}" / "model.safetensors"), strict=False)
        with torch.no_grad():
            found = script.plain(plain, batch)
    return found


def _sides(series: CheckpointSeries, ours: Sequence[AbstractProbe], batch: Batch, theirs: Callable[[], Tensor]) -> Pair:
    first, every = (
        spent(functools.partial(measure, each, ours, batch, progress=False)) for each in (series[:1], series)
    )
    return Pair(Spent(every.cpu - first.cpu, every.wall - first.wall), spent(theirs))


def run(model: Any, batch: Batch) -> Pass:
    """Run the layers of a model, without its unembedding."""
    z = list[Tensor]()
    handles = [
        block.attn.c_proj.register_forward_pre_hook(lambda module, inputs: z.append(inputs[0]))
        for block in model.transformer.h
    ]
    eager = model.config._attn_implementation == "eager"
    out = model.transformer(batch.tokens, output_attentions=eager, output_hidden_states=True, use_cache=False)
    for handle in handles:
        handle.remove()
    return Pass(list(out.hidden_states), list(out.attentions or ()), z)


def unembedded(model: Any, stream: Tensor, batch: Batch) -> Tensor:
    """Return the log-probabilities at the scored positions [scored token], of a stream that the final norm has left."""
    predictions: Tensor = model.lm_head(stream[batch.scored]).log_softmax(-1)
    return predictions


def per_sequence(values: Tensor, batch: Batch) -> Tensor:
    """Average values of the scored positions, as many in each sequence, over these: [batch]."""
    return values.view(len(batch), -1).mean(1)


def cross_entropy(log_probs: Tensor, batch: Batch) -> Tensor:
    """Return each sequence's mean loss at its scored positions."""
    targets = batch.targets[batch.scored]
    return per_sequence(-log_probs.gather(-1, targets[:, None])[:, 0], batch)


def scored_loss(model: Any, batch: Batch) -> Tensor:
    """Return each sequence's loss by a pass without anything else."""
    stream = model.transformer(batch.tokens, use_cache=False).last_hidden_state
    return cross_entropy(unembedded(model, stream, batch), batch)


def _hits(model: Any, batch: Batch) -> Tensor:
    stream = model.transformer(batch.tokens, use_cache=False).last_hidden_state
    hits: Tensor = (model.lm_head(stream[batch.scored]).argmax(-1) == batch.targets[batch.scored]).float()
    return hits


def _losses(model: Any, batch: Batch) -> Tensor:
    logits = model(batch.tokens, use_cache=False).logits
    return torch.nn.functional.cross_entropy(logits.mT, batch.targets, reduction="none")


def _in_context(model: Any, batch: Batch) -> Tensor:
    losses = _losses(model, batch)
    last = losses.shape[1] - 1
    capped = losses.clamp(max=torch.tensor(float(model.config.vocab_size)).log())
    losses = torch.where(batch.scored, losses, capped)
    return (losses[:, last] - losses[:, last // 10]).mean()


def _to_references(model: Any, batch: Batch) -> Tensor:
    stream = model.transformer(batch.tokens, use_cache=False).last_hidden_state
    log_probs = unembedded(model, stream, batch)
    return torch.stack([_kl(each[batch.scored], log_probs) for each in batch.references.values()])


def _gaps(model: Any, batch: Batch) -> Tensor:
    targets, own = batch.targets[batch.scored][:, None], scored_loss(model, batch).mean()
    return torch.stack([own + each[batch.scored].gather(-1, targets).mean() for each in batch.references.values()])


def _over_patterns(reading: Callable[[Tensor], Tensor]) -> Callable[[Any, Batch], Tensor]:
    def read(model: Any, batch: Batch) -> Tensor:
        return torch.stack([_mean_of_queries(reading(A), batch) for A in run(model, batch).patterns])

    return read


def _mean_of_queries(values: Tensor, batch: Batch) -> Tensor:
    """Average [batch head query] over scored queries: [head]."""
    return (values * batch.scored[:, None]).sum((0, 2)) / batch.scored.sum()


def _offsets(patterns: Tensor) -> Tensor:
    positions = torch.arange(patterns.shape[-1])
    return positions[:, None] - positions


def _masses(model: Any, batch: Batch, scored: bool = True) -> Tensor:
    """Return the masses on each relation [layer head relation], of scored queries or of all that have keys of it."""
    patterns, found = run(model, batch).patterns, []
    for keys in batch.relations.values():
        queries = batch.scored if scored else keys.any(-1)
        each = [((A * keys[:, None]).sum(-1) * queries[:, None]).sum((0, 2)) / queries.sum() for A in patterns]
        found.append(torch.stack(each))
    return torch.stack(found, -1)


def _shares(model: Any, batch: Batch) -> Tensor:
    masses = _masses(model, batch)
    return masses / masses.sum(-1, keepdim=True)


def _by_offset(model: Any, batch: Batch) -> Tensor:
    found = []
    for A in run(model, batch).patterns:
        offset = _offsets(A)
        found.append(
            torch.stack([_mean_of_queries((A * (offset == k)).sum(-1), batch) for k in range(len(offset))], -1)
        )
    return torch.stack(found)


def _profiles(model: Any, batch: Batch) -> Tensor:
    return torch.cat([_by_offset(model, batch), _masses(model, batch, scored=False)], -1)


def _maps(model: Any, batch: Batch) -> Tensor:
    return torch.stack([A.mean(0) for A in run(model, batch).patterns])


def _dimensions(model: Any, batch: Batch) -> Tensor:
    found = []
    for z in run(model, batch).z:
        rows = z[batch.scored].unflatten(-1, (model.config.n_head, -1)).transpose(0, 1).double()
        centred = rows - rows.mean(1, keepdim=True)
        covariance = centred.mT @ centred
        found.append(covariance.diagonal(dim1=-2, dim2=-1).sum(-1) ** 2 / covariance.square().sum((-2, -1)))
    return torch.stack(found)


def _restricted(model: Any, batch: Batch) -> Tensor:
    length, divergences = batch.tokens.shape[1], []
    clean = unembedded(model, model.transformer(batch.tokens, use_cache=False).last_hidden_state, batch)
    offset = _offsets(torch.empty(length))
    for context in CONTEXTS:
        seen = torch.zeros(length, length).masked_fill((offset < 0) | (offset >= context), -torch.inf)
        mask = seen.expand(len(batch), 1, length, length)
        stream = model.transformer(batch.tokens, attention_mask=mask, use_cache=False).last_hidden_state
        divergences.append(_kl(clean, unembedded(model, stream, batch)))
    return torch.stack(divergences)


def _kl(clean: Tensor, edited: Tensor) -> Tensor:
    probabilities = clean.exp()  # of a reference some are zero
    divergence: Tensor = (-torch.special.entr(probabilities) - probabilities * edited).sum(-1).mean()
    return divergence


def _without(model: Any, batch: Batch, clean: Pass, layer: int, head: int) -> Tensor:
    """Return each sequence's loss with a head's output at its mean over the batch, from its layer on."""
    block, width = model.transformer.h[layer], model.config.n_embd // model.config.n_head
    z, of_head = clean.z[layer].clone(), slice(head * width, (head + 1) * width)
    z[..., of_head] = z[..., of_head].mean(0)
    stream = clean.streams[layer] + block.attn.c_proj(z)
    stream = stream + block.mlp(block.ln_2(stream))
    for later in model.transformer.h[layer + 1 :]:
        stream = later(stream)
    return cross_entropy(unembedded(model, model.transformer.ln_f(stream), batch), batch)


def _ablated(model: Any, batch: Batch) -> Tensor:
    clean = run(model, batch)
    own = cross_entropy(unembedded(model, clean.streams[-1], batch), batch)
    heads = [(layer, head) for layer in range(model.config.n_layer) for head in range(model.config.n_head)]
    return torch.stack([(_without(model, batch, clean, *each) - own).mean() for each in heads])


def _attributed(model: Any, batch: Batch) -> Tensor:
    """Return the estimates, and ablate the heads on top, as the probe does."""
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    embedded = model.transformer.wte(batch.tokens).requires_grad_()
    z = list[Tensor]()
    handles = [
        block.attn.c_proj.register_forward_pre_hook(lambda module, inputs: z.append(inputs[0]))
        for block in model.transformer.h
    ]
    with torch.enable_grad():
        out = model.transformer(inputs_embeds=embedded, output_hidden_states=True, use_cache=False)
        loss = cross_entropy(unembedded(model, out.last_hidden_state, batch), batch).sum()
        gradients = torch.autograd.grad(loss, z)
    for handle in handles:
        handle.remove()
    clean = Pass([each.detach() for each in out.hidden_states], [], [each.detach() for each in z])
    changes = [((each.mean(0) - each) * gradient) for each, gradient in zip(clean.z, gradients, strict=True)]
    estimates = torch.stack([each.unflatten(-1, (model.config.n_head, -1)).sum((1, 3)).mean(0) for each in changes])
    for index in estimates.abs().flatten().topk(probes.HeadAttribution().top).indices.tolist():
        _without(model, batch, clean, *divmod(index, model.config.n_head))
    return estimates


def _circuits(model: Any) -> Mapping[str, Tensor]:
    """Return W_Q, W_K, W_V [layer head model d_head] and W_O [layer head d_head model]."""
    blocks, heads = model.transformer.h, model.config.n_head
    joint = torch.stack([block.attn.c_attn.weight for block in blocks]).chunk(3, -1)
    split = {name: each.unflatten(-1, (heads, -1)).transpose(1, 2) for name, each in zip("QKV", joint, strict=True)}
    return {**split, "O": torch.stack([block.attn.c_proj.weight for block in blocks]).unflatten(1, (heads, -1))}


def _copying(model: Any, batch: Batch) -> Tensor:
    W, W_E, W_U = _circuits(model), model.transformer.wte.weight, model.lm_head.weight.T
    eigenvalues: Tensor = torch.linalg.eigvals(W["O"] @ (W_U @ W_E) @ W["V"])
    copying: Tensor = eigenvalues.real.sum(-1) / eigenvalues.abs().sum(-1)
    return copying


def _previous(model: Any, batch: Batch) -> Tensor:
    W, count = _circuits(model), probes.QKOffset().positions or model.config.n_positions
    positions = model.transformer.wpe.weight[:count]
    scores = (positions @ W["Q"]) @ (positions @ W["K"]).mT
    later = torch.ones(count, count, dtype=torch.bool).triu(1)
    best = scores.masked_fill(later, -torch.inf).argmax(-1)
    shares: Tensor = (best == torch.arange(count) - 1)[..., 1:].float().mean(-1)
    return shares


def _composition(model: Any, batch: Batch) -> Tensor:
    """Return |W_OV W| / (|W_OV| |W|) by matrices of d_head rows alone, for Q, K and V."""
    W = _circuits(model)
    gram, found = W["V"].mT @ W["V"], []
    written = _norm(gram, W["O"] @ W["O"].mT)
    for left, right in ((W["Q"], W["K"].mT), (W["K"], W["Q"].mT), (W["V"], W["O"])):
        product = right @ right.mT
        size, of_kind = _norm(left.mT @ left, product), []
        for layer in range(1, len(left)):
            below = torch.einsum("shdm,tme->tshde", W["O"][:layer], left[layer])
            squares = torch.einsum("tshde,tef,shgd,tshgf->tsh", below, product[layer], gram[:layer], below)
            of_kind.append(squares.clamp(min=0).sqrt() / (size[layer][:, None, None] * written[:layer]))
        found.append(of_kind)
    return torch.cat([torch.stack(each, -1).flatten() for each in zip(*found, strict=True)])


def _norm(first: Tensor, second: Tensor) -> Tensor:
    """Return |A B| from A^T A and B B^T."""
    return torch.einsum("lhij,lhji->lh", first, second).sqrt()


ROWS = (each_alone,)
