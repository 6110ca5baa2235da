"""The numbers of a figure of incremental learning, beside those that are read off the paper's figure."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from stagewise.papers.incremental._summary import boundaries, over_seeds
from stagewise.papers.incremental.published import CONTEXTS, HEADS, LEVELS, LOOKED_AT, PUBLISHED
from stagewise.papers.incremental.recipes import FIGURES, variants
from stagewise.papers.published import bounds, number
from stagewise.recipe import Recipe
from stagewise.reporting import Measured
from stagewise.table import families, head_label, heads_in, maps_in, select
from stagewise.tasks import MarkovChain

QUANTITIES = {
    "end_1": "end of stage 1, step",
    "end_2": "end of stage 2, step",
    "stages": "number of stages",
    "completed": "stages complete at the best step",
    "best_step": "best step",
    "best_excess": "lowest excess loss, nats",
    "final_kl": "KL to the full reference at the end, nats",
    "distinct_heads": "heads that differ by more than rounding",
}


def figure_numbers(
    figure: str, setting: str, summary: pd.DataFrame, measured: Mapping[str, Measured]
) -> list[dict[str, str]]:
    """Return all rows of a figure: sizes, averages over seeds, and what its kind of drawing shows.

    Args:
        figure: one of FIGURES.
        setting: "small" or "paper".
        summary: from `run_figure`: a row a run.
        measured: the runs, by name.
    """
    rows = [size_row(variant, setting) for variant in summary["variant"].unique()]
    rows += averages(figure, summary)
    kind = FIGURES[figure].kind
    for name, run in measured.items():
        if kind in ("stages", "curves"):
            rows += kl_rows(figure, name, run)
        if kind in ("stages", "maps", "heads"):
            rows += _head_rows(figure, name, run)
        if figure == "3" and has_trained(run.table):
            rows.append(context_row(name, run.table))
    sizes = {row["run"]: variants(setting, row["seed"])[row["variant"]] for row in summary.to_dict("records")}
    if kind == "heads":
        rows += [row for name, recipe in sizes.items() for row in offset_rows(name, measured[name].table, recipe)]
    if kind == "maps":
        rows += [band_row(name, measured[name], recipe) for name, recipe in sizes.items() if _overlap(recipe)]
    return rows


def size_row(variant: str, setting: str) -> dict[str, str]:
    """Return the size of a variant's runs beside the published one."""
    paper = variants("paper")
    published = _size_of(paper[variant]) if variant in paper else "-"
    return number(f"{variant}: size", published, _size_of(variants(setting)[variant]))


def _size_of(recipe: Recipe) -> str:
    """Return the size of a run: the chain's, the data's and the training's.

    >>> _size_of(variants("paper")["full"]).split(", n")[0]
    'd = 50, spans 4 4 4, T = 20'
    """
    task, plan = recipe.task, recipe.plan
    assert isinstance(task, MarkovChain)
    spans = " ".join(map(str, task.spans))
    return (
        f"d = {task.d_vocab}, spans {spans}, T = {task.length}, n = {task.n_sequences or 'fresh'}, "
        f"temperature {task.temperature:.3g}, m = {task.importance:g}, batch {plan.batch_size}, {plan.steps} steps"
    )


def averages(figure: str, summary: pd.DataFrame) -> list[dict[str, str]]:
    """Return the mean over seeds of every quantity of every variant, with its interval; of one seed the boundary's."""
    rows = []
    absent = {end: np.nan for end in ("end_1", "end_2") if end not in summary}  # no run has that stage
    for each in over_seeds(summary.assign(**absent)).to_dict("records"):
        variant, quantity, n, seeds = (each[name] for name in ("variant", "quantity", "n", "seeds"))
        published = PUBLISHED.get(figure, {}).get((variant, quantity), "-")
        lo, hi = each["lo"], each["hi"]
        if seeds == 1 and f"{quantity}_lo" in summary:
            lo, hi = summary.loc[summary["variant"] == variant, [f"{quantity}_lo", f"{quantity}_hi"]].iloc[0]
        ours = f"{each['mean']:.3g}" if n else "never"
        remark = ""
        if seeds > 1:
            remark = f"{n} of {seeds} seeds" if n < seeds else f"{seeds} seeds"
        rows.append(number(f"{variant}: {QUANTITIES[quantity]}", published, ours, bounds(max(lo, 0), hi), remark))
    return rows


def kl_rows(figure: str, name: str, run: Measured) -> list[dict[str, str]]:
    """Return KL to each truncated reference at the end of each stage."""
    kl = select(run.table, "KLToReference", "kl")
    nested = families(kl)["nested"]
    rows = []
    for i, step in stage_ends(run).items():
        values = kl[kl["step"] == step].set_index("reference")["value"]
        what = f"{name}: KL to {', '.join(nested)}, end of stage {i}, step {step}"
        ours = ", ".join(f"{values[reference]:.2f}" for reference in nested)
        rows.append(number(what, _in_stage(LEVELS.get(figure, ()), i), ours))
    return [*rows, *_lowest_rows(figure, name, kl)]


def _lowest_rows(figure: str, name: str, kl: pd.DataFrame) -> list[dict[str, str]]:
    """Return where KL to the first truncated reference is lowest, between its neighbours, and KL to each one there.

    There a first stage ends that is still too near the end of a run to be told.
    """
    values = kl.pivot(index="step", columns="reference", values="value").astype(float)
    nested = families(kl)["nested"]
    steps, at = values.index.to_numpy(), int(values[nested[0]].to_numpy().argmin())
    around = bounds(float(steps[max(at - 1, 0)]), float(steps[min(at + 1, len(steps) - 1)]))
    levels = ", ".join(f"{value:.2f}" for value in values[nested].iloc[at])
    where = f"where KL to {nested[0]} is lowest"
    return [
        number(f"{name}: step {where}", "-", str(steps[at]), around),
        number(f"{name}: KL to {', '.join(nested)}, {where}", _in_stage(LEVELS.get(figure, ()), 1), levels),
    ]


def _head_rows(figure: str, name: str, run: Measured) -> list[dict[str, str]]:
    """Return each head's attention masses on the groups, where the stages end and at the steps of the figure."""
    masses = select(run.table, "AttentionTo", "mass")
    ends = {step: i for i, step in stage_ends(run).items()}
    steps = sorted({*ends, *(nearest(masses["step"], step) for step in LOOKED_AT.get(figure, ()))})
    rows = []
    for step in steps:
        at = f"end of stage {ends[step]}, step {step}" if step in ends else f"step {step}"
        what = f"{name}: heads' largest groups, {at}"
        published = _in_stage(HEADS.get(figure, ()), ends[step]) if step in ends else "-"
        rows.append(number(what, published, ", ".join(owners(masses[masses["step"] == step]))))
    return rows


def owners(masses: pd.DataFrame) -> list[str]:
    """Return for each head the group with its largest attention mass, and that mass.

    Args:
        masses: the rows of `AttentionTo mass` at one step.
    """
    words = []
    for layer, head in heads_in(masses):
        of_head = masses[(masses["layer"] == layer) & (masses["head"] == head)]
        largest = _largest(of_head)
        words.append(f"{head_label(layer, head)} {largest['relation']} {largest['value']:.2f}")
    return words


def band_row(name: str, run: Measured, recipe: Recipe) -> dict[str, str]:
    """Return for each head the band of lags with its largest attention at the end.

    Where groups share lags a head on the shared ones has nearly the same mass on both groups: which of them is larger
    says little. A band holds the lags that lie in the same groups, so that no two bands share one.
    """
    assert isinstance(recipe.task, MarkovChain)
    rows = select(run.table, "MeanPattern", "attention", step=int(run.table["step"].max()))
    shares = band_shares(maps_in(rows), recipe.task.groups, run.first_query)
    heads = zip(rows["layer"].astype(int), rows["head"].astype(int), strict=True)
    words = []
    for i, (layer, head) in enumerate(heads):
        band = max(shares, key=lambda name: float(shares[name][i]))
        words.append(f"{head_label(layer, head)} {band} {shares[band][i]:.2f}")
    return number(f"{name}: heads' largest bands, step {rows['step'].iloc[0]}", "-", ", ".join(words))


def band_shares(
    maps: Float[np.ndarray, "head query key"], groups: Sequence[range], first_query: int
) -> dict[str, Float[np.ndarray, " head"]]:
    """Return each head's attention on every band of lags, averaged over the queries from the first that is scored.

    >>> maps = np.eye(4)[None, [0, 0, 1, 1]]  # the last query attends two back, the one before it one back
    >>> band_shares(maps, [range(1, 3), range(2, 4)], 2)
    {'lags 1 to 1': array([0.]), 'lags 2 to 2': array([0.5]), 'lags 3 to 3': array([0.5])}
    """
    queries = np.arange(first_query, maps.shape[1])
    bands: dict[tuple[bool, ...], list[int]] = {}
    for lag in sorted({lag for group in groups for lag in group}):
        bands.setdefault(tuple(lag in group for group in groups), []).append(lag)
    return {
        f"lags {lags[0]} to {lags[-1]}": np.sum([maps[:, queries, queries - lag + 1].mean(-1) for lag in lags], axis=0)
        for lags in bands.values()
    }


def _overlap(recipe: Recipe) -> bool:
    groups = recipe.task.groups if isinstance(recipe.task, MarkovChain) else ()
    return sum(map(len, groups)) > len({lag for group in groups for lag in group})


def has_trained(table: pd.DataFrame) -> bool:
    """Whether a table has KL to models that were trained on a restricted context."""
    return bool(families(select(table, "KLToReference", "kl"))["trained"])


def context_row(name: str, table: pd.DataFrame) -> dict[str, str]:
    """Return which trained restricted-context model is closest over training, and until when."""
    kl = select(table, "KLToReference", "kl")
    trained = kl[kl["reference"].isin(families(kl)["trained"])]
    wide = trained.pivot(index="step", columns="context", values="value").astype(float)
    closest = wide.idxmin(axis=1).astype(int)
    changes = closest[closest.diff() != 0]
    words = [f"{context} from step {step}" for step, context in changes.items()]
    return number(f"{name}: closest restricted context, positions", CONTEXTS, ", ".join(words))


def offset_rows(name: str, table: pd.DataFrame, recipe: Recipe) -> list[dict[str, str]]:
    """Return how far the I(1) head's values turn against the last feature, as share and as inner product.

    The head is the one with the largest mass on I(1) at the last step.
    """
    masses = select(table, "AttentionTo", "mass", step=int(table["step"].max()), relation="I(1)")
    first: dict[str, Any] = _largest(masses)
    layer, head = int(first["layer"]), int(first["head"])
    features = recipe.task.value_features()
    last = list(features)[-1]
    values = select(table, "ValueAlignment", "projection", layer=layer, head=head, feature=last)
    lowest = _largest(values.assign(value=-values["value"].astype(float)))
    share = -float(lowest["value"])
    square = float((features[last] ** 2).sum())
    where = f"{name}: {head_label(layer, head)}'s values on {last}, lowest"
    return [
        number(f"{where}, inner product", "-500", f"{share * square:.0f}", remark=f"step {lowest['step']}"),
        number(f"{where}, share of its square", "-", f"{share:.2f}", remark=f"its square is {square:.0f}"),
    ]


def stage_ends(run: Measured) -> dict[int, int]:
    """Return the step at which each stage ends by the number of its reference; that of the complete one is the last."""
    kl = select(run.table, "KLToReference", "kl")
    ends = {} if run.stages is None else {i: int(row["step"]) for i, row in boundaries(run.stages).items()}
    return ends | {len(families(kl)["nested"]): int(run.table["step"].max())}


def _in_stage(published: Sequence[str], i: int) -> str:
    return published[i - 1] if i <= len(published) else "-"


def _largest(rows: pd.DataFrame) -> dict[str, Any]:
    """Return the row with the largest value."""
    return dict(rows.iloc[int(rows["value"].astype(float).to_numpy().argmax())])


def nearest(steps: pd.Series, step: int) -> int:
    """Return the checkpoint nearest to a step."""
    known = np.unique(steps.to_numpy())
    return int(known[np.abs(known - step).argmin()])
