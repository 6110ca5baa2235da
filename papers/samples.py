"""From a head to the samples that made it: what each did to its attention, through all updates up to an event."""

from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor
from tqdm.auto import tqdm

from stagewise import models
from stagewise.attention import hooks_of
from stagewise.checkpoints import rewind, run_folder
from stagewise.checkpoints.series import open_series
from stagewise.loss import mean_scored
from stagewise.measurement.probe_batch import load_batch
from stagewise.papers.adjoint import check_reversible, sample_effects
from stagewise.recipe import Recipe
from stagewise.replay import Parent, Transition
from stagewise.replay.densifying import check_bits, recipe_at
from stagewise.table import Head, check_head, head_label, select
from stagewise.task import Batch
from stagewise.training import Dtype, prepare
from stagewise.words import transition as transition_in_words

SHOWN = 10
"""Samples that are shown of those that helped most, and of those that hindered most."""

LINEAR = 1.0
"""Largest effect that can be that of a sample's whole weight: attention lies between 0 and 1."""


class SampleEffects(NamedTuple):
    """The effects of samples on a head's attention to the relation of a transition, from step `start` to `stop`.

    `table` has a row a sample, by `step` and `sample`, its row in the batch: `value` is the derivative of the attention
    at `stop` by the weight of the sample's loss, which is 1, and `later` that of the step at which the head gets there.
    `shown` has the rows that helped and hindered most, with the sample's `tokens`, the `query` from which the head
    attends most to the relation at `stop` (the last one scored, where batches have no relations), the `key` that it
    attends to most from there, and its `attention` to it.
    """

    transition: Transition
    start: int
    stop: int
    table: pd.DataFrame
    shown: pd.DataFrame


def attribute_samples(
    folder: str | Path,
    head: Head,
    event: int | None = None,
    *,
    start: int | None = None,
    stop: int | None = None,
    recipe: Recipe | None = None,
    progress: bool = True,
    device: str = "cpu",
    dtype: Dtype = "float32",
) -> SampleEffects:
    """Say what each training sample did to a head's attention in front of an event: the slope of an exact replay.

    The derivative of the head's mean attention to the event's relation, `along` of `AttentionTo` on the probe batch,
    goes back through every update, with its gradient, clipping and the optimiser's moments. Effects of several samples
    add up to first order only. What happened before the first update counts as given.

    Args:
        folder: the run folder.
        head: layer and head.
        event: the number of a transition in the run's answer; None for the one by which the head gains most.
        start: the first update whose samples are told; None for the last checkpoint before the transition.
        stop: the checkpoint whose attention is told; None for the first one behind the middle of the transition.
        recipe: of the run; None reads it from the folder.
        progress, device, dtype: as in `branch`; derivatives are of training in float32.

    Returns the effects; `tables/samples-L1H0.parquet` in the folder keeps their table.

    Raises:
        ValueError: there is no such head, transition or checkpoint; no gradient goes back through the training, since
            it holds heads, say; or the errors of `branch`.
        FileNotFoundError: the folder holds no run.
    """
    folder = Path(folder)
    recipe = recipe or recipe_at(folder)
    series = open_series(folder, classes=[type(recipe.architecture.init)])
    batch = load_batch(recipe, folder).to(device)
    check_head(*head, series.architecture.n_layers, series.architecture.n_heads, series.name)
    training = prepare(recipe, device, dtype)
    check_reversible(training)
    parent = Parent(folder, recipe, progress=progress, device=device)
    transition, curve = attention_of(parent.table, head, parent.transitions_after(0), event)
    first = transition.begins if start is None else start
    last = min(step for step in series.steps if step >= transition.comes) if stop is None else stop
    if not 0 <= first < last or last not in series.steps:
        raise ValueError(
            f"attention is that at a checkpoint after the first update, got steps {first} and {last}: give others, or "
            f"save the second one (`stagewise densify {folder}`)"
        )

    def score() -> Tensor:
        check_bits(series.weights(last), models.weights(training.model), f"the replay of {folder}", last)
        return attention_score(training.model, batch, head, str(transition.relation))

    now = rewind(folder, first, training.model, training.optimiser, training.way)
    steps = sample_effects(training, now, first, last, score)
    bar = tqdm(steps, total=last - first, disable=not progress, desc=folder.name, unit="step")
    frames = [pd.DataFrame({"step": step, "sample": range(len(each)), "value": each.cpu()}) for step, each in bar]
    table = pd.concat(frames[::-1], ignore_index=True)
    before = max(step for step in series.steps if step < last)
    table["later"] = -table["value"] * (last - before) / (curve[last] - curve[before])
    run_folder.write(folder / table_of(head), lambda partial: table.to_parquet(partial, index=False))
    models.load(training.model, series.weights(last))
    shown = pd.concat([table.nlargest(SHOWN, "value"), table.nsmallest(SHOWN, "value")])
    rows = []
    for step, sample in zip(shown["step"], shown["sample"], strict=True):
        one = training.batch_at(step)[torch.tensor([sample])].to(device)
        text = [] if one.tokens.is_floating_point() else recipe.task.as_text(one.tokens[0].tolist())
        rows.append({"tokens": text, **_attended(training.model, one, head, str(transition.relation))})
    return SampleEffects(
        transition, first, last, table, pd.concat([shown.reset_index(drop=True), pd.DataFrame(rows)], axis=1)
    )


def table_of(head: Head) -> str:
    """Return where a run folder keeps the effects of samples on a head."""
    return f"tables/samples-{head_label(*head)}.parquet"


def attention_score(model: models.Model, batch: Batch, head: Head, relation: str) -> Float[Tensor, ""]:
    """Return `along` of `AttentionTo`, a head's mean attention to a relation; gradients flow back."""
    starts = batch.starts(relation)
    keys, pattern = batch.relations[relation][starts], _pattern(model, batch.tokens[starts], head)
    return mean_scored((pattern * keys).sum(-1), keys.any(-1)).mean()


def _pattern(model: models.Model, tokens: Tensor, head: Head) -> Float[Tensor, "batch query key"]:
    layer, number = head
    kept: list[Tensor] = []
    hook = hooks_of("attn.hook_pattern", layer + 1)[layer]
    model.run_with_hooks(tokens, fwd_hooks=[(hook, lambda pattern, hook: kept.append(pattern[:, number]))])
    return kept[0]


def _attended(model: models.Model, one: Batch, head: Head, relation: str) -> dict[str, Any]:
    with torch.no_grad():
        pattern = _pattern(model, one.tokens, head)[0]
    query = int(one.scored[0].nonzero()[-1])
    if relation in one.relations and bool(one.relations[relation].any()):  # batches of a training set come without
        query = int((pattern * one.relations[relation][0]).sum(-1).argmax())
    return {"query": query, "key": int(pattern[query].argmax()), "attention": float(pattern[query].max())}


def attention_of(
    own: pd.DataFrame, head: Head, transitions: list[Transition], event: int | None
) -> tuple[Transition, "pd.Series[Any]"]:
    """Return the transition by which a head gains most attention to its relation, and that attention by step."""
    at, named = {"layer": head[0], "head": head[1]}, [one for one in transitions if one.relation is not None]
    curves = [
        select(own, "AttentionTo", "along", **at, relation=one.relation).set_index("step")["value"] for one in named
    ]
    gains = [
        curve[curve.index >= one.comes].iloc[0] - curve[one.begins] for one, curve in zip(named, curves, strict=True)
    ]
    mine = [gain for gain, one in zip(gains, named, strict=True) if gain > 0 and event in (None, one.event)]
    if not mine:
        known = ", ".join(f"{one.label} (number {one.event})" for one in named) or "none"
        which = "any transition" if event is None else f"transition {event}"
        raise ValueError(f"{head_label(*head)} gains no attention in {which}; those that attention shows: {known}")
    place = gains.index(max(mine))
    return named[place], curves[place]


def effects_in_words(head: Head, found: SampleEffects) -> list[str]:
    """Say what samples did to a head's attention: the query stands as >so<, the key that it attends to as [so]."""
    one = {"transition": found.transition.label, "event": found.transition.event}
    steps = f"steps {found.start} to {found.stop}"
    lines = [f"{head_label(*head)}, {transition_in_words(one)}: samples of {steps}, by the weight of their loss"]
    for row in found.shown.to_dict("records"):
        marks = {row["query"]: ">{}<", row["key"]: "[{}]"}
        text = " ".join(marks.get(place, "{}").format(token) for place, token in enumerate(row["tokens"]))
        when = f"{abs(row['later']):.2g} steps {'later' if row['later'] > 0 else 'earlier'}"
        named = f"step {row['step']}, sample {row['sample']}: {row['value']:+.2g}, {when}"
        lines.append(f"{named}; attention {row['attention']:.2f} in {text}")
    if (largest := found.table["value"].abs().max()) > LINEAR:
        lines.append(
            f"The largest effect is {largest:.2g} for a weight of 1, and attention lies between 0 and 1: training "
            "amplifies small changes over so many updates. These are slopes of very small ones; begin later (--from)."
        )
    return lines
