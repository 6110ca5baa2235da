"""Heads of one run and of several: when each changed what it attends to, and which do the same in other runs."""

import itertools
from collections.abc import Sequence

import numpy as np
import pandas as pd
import scipy

from stagewise.criteria import DEFAULT, StageCriteria
from stagewise.event import DIFFUSE
from stagewise.findings._frames import Columns, Rows, by_role, typed
from stagewise.findings.scores import axes_of
from stagewise.statistics import median_noise, noise, running_median
from stagewise.table import Head, Role, heads_in, roles_in

POINTS = 12
"""Steps, equally spaced in log(1 + step), at which the readings of heads are compared."""

ROUNDS = 3
"""Assignments to the mean of all runs after the first one to the most central run."""

ROLES: Columns = {"run": "str", "layer": "int64", "head": "int64", "role": "int64", "distance": "float64"}

Line = tuple[np.ndarray, np.ndarray]
"""A curve: log(1 + step), values."""

APART = 3.5
"""Deviations of a share's noise by which the thresholds of a name move apart: rows "head events" at 3 and at 4 miss
their goals, false ones and found ones."""

UNDECIDED = "cannot be told"
"""The label of a head between two names, or between a name and none."""

LABELS: Columns = {
    **{"step": "int64", "layer": "int64", "head": "int64", "label": "str"},
    **{"share": "float64", "lead": "float64"},
}

EVENTS: Columns = {
    **{"layer": "int64", "head": "int64", "before": "str", "after": "str"},
    **{"last_step_before": "int64", "first_step_after": "int64"},
}


def head_roles(table: pd.DataFrame) -> pd.DataFrame:
    """Assign the heads of every run to roles, one to one within each layer, by what was read of them over training.

    Roles have the numbers of the heads of the most central run: the one to which all others can be assigned at the
    least distance. Then the heads of each run are assigned (the Hungarian method) to the mean of all, three times.
    Compared are all quantities that have a layer and a head, each over its standard deviation, at twelve steps between
    the latest first and the earliest last one. The `distance` to a role's mean is a part of that between two roles:
    near 0 the role is sure, near 1 it could as well be another one.

    Source: the assignment is Kuhn's (1955); that roles recur at other indices is Olsson et al. (2022),
    arXiv:2209.11895.
    """
    runs = {str(name): rows for name, rows in table.groupby("run", sort=False)}
    heads = {name: heads_in(rows) for name, rows in runs.items()}
    if any(one != next(iter(heads.values())) for one in heads.values()):
        numbers = ", ".join(f"{name}: {len(one)}" for name, one in heads.items())
        raise ValueError(f"roles need the same heads in every run, got {numbers}: compare runs of one architecture")
    of_layers = itertools.groupby(next(iter(heads.values()), []), key=lambda head: head[0])
    records = [record for _, of_layer in of_layers for record in _roles_of_layer(runs, list(of_layer))]
    return pd.DataFrame(records, columns=list(ROLES)).astype(ROLES)


def paired_roles(table: pd.DataFrame) -> pd.DataFrame:
    """Pair the heads of two runs, as `head_roles` does; further ones have the numbers that follow, no `distance`."""
    runs = {str(name): rows for name, rows in table.groupby("run", sort=False)}
    if len(runs) != 2:
        raise ValueError(f"heads are paired between two runs, the table has {len(runs)}: {', '.join(runs)}")
    heads = [heads_in(rows) for rows in runs.values()]
    layers = sorted({layer for of_run in heads for layer, _ in of_run})
    records = [
        record
        for layer in layers
        for record in _pairs_of_layer(runs, [[head for head in of_run if head[0] == layer] for of_run in heads])
    ]
    return pd.DataFrame(records, columns=list(ROLES)).astype(ROLES)


def with_roles(frame: pd.DataFrame, roles: pd.DataFrame) -> pd.DataFrame:
    """Return rows of one run with each head's role in place of its index."""
    if not {"layer", "head"} <= set(frame):
        return frame
    role = {(row["layer"], row["head"]): row["role"] for row in roles.to_dict("records")}
    pairs = zip(frame["layer"], frame["head"], strict=True)
    renamed = [head if pd.isna(head) else role.get((layer, head), head) for layer, head in pairs]
    return frame.assign(head=pd.Series(renamed, index=frame.index, dtype=frame["head"].dtype))


def _pairs_of_layer(runs: dict[str, pd.DataFrame], heads: Sequence[Sequence[Head]]) -> list[dict[str, object]]:
    """Return the rows of `paired_roles` for one layer, of which either run may have no heads."""
    (first_run, second_run), (first, second) = runs, heads
    pairs = _paired(runs, heads) if first and second else []
    distances = {head: apart for head, _, apart in pairs}
    counterparts = {other: (head[1], apart) for head, other, apart in pairs}
    more = itertools.count(max((number for _, number in first), default=-1) + 1)
    rows = [_role(first_run, head, head[1], distances.get(head, np.nan)) for head in first]
    for head in second:
        role, apart = counterparts[head] if head in counterparts else (next(more), np.nan)
        rows.append(_role(second_run, head, role, apart))
    return rows


def _role(run: str, head: Head, role: int, distance: float) -> dict[str, object]:
    return {"run": run, "layer": head[0], "head": head[1], "role": role, "distance": distance}


def _paired(runs: dict[str, pd.DataFrame], heads: Sequence[Sequence[Head]]) -> list[tuple[Head, Head, float]]:
    """Return the pairs of heads with their distances, missing where there is no other head to compare with."""
    first, second = _readings(runs, heads)
    apart = np.linalg.norm(first[:, None] - second, axis=-1)
    places = scipy.optimize.linear_sum_assignment(apart**2)
    others = np.ones(apart.shape, bool)
    others[places] = False
    scale = float(apart[others].mean()) if others.any() else 0.0
    return [
        (heads[0][int(i)], heads[1][int(j)], float(apart[i, j]) / scale if scale > 0 else np.nan)
        for i, j in zip(*places, strict=True)
    ]


def _roles_of_layer(runs: dict[str, pd.DataFrame], heads: Sequence[Head]) -> list[dict[str, object]]:
    points = np.stack(_readings(runs, [heads] * len(runs)))
    order = _assigned(points)
    aligned = np.stack([one[places] for one, places in zip(points, order, strict=True)])
    means = aligned.mean(0)
    apart = np.linalg.norm(means[:, None] - means, axis=-1)[np.triu_indices(len(heads), 1)]
    scale = float(apart.mean()) if len(apart) and apart.mean() > 0 else 1.0
    return [
        _role(name, heads[place], heads[role][1], float(np.linalg.norm(points[i][place] - means[role])) / scale)
        for i, name in enumerate(runs)
        for role, place in enumerate(order[i])
    ]


def _assigned(points: np.ndarray) -> list[np.ndarray]:
    """Return which head of each run has each role, from readings [run, head, reading]."""
    runs = len(points)
    cost = np.array([[_assignment(points[i], points[j])[1] for j in range(runs)] for i in range(runs)])
    centre = int(cost.sum(0).argmin())
    order = [_assignment(one, points[centre])[0] for one in points]
    for _ in range(ROUNDS):
        mean = np.mean([one[places] for one, places in zip(points, order, strict=True)], axis=0)
        order = [_assignment(one, mean)[0] for one in points]
    return order


def _assignment(heads: np.ndarray, roles: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the head of each role, and the sum of squared distances."""
    squares = ((roles[:, None] - heads) ** 2).sum(-1)
    rows, columns = scipy.optimize.linear_sum_assignment(squares)
    return columns, float(squares[rows, columns].sum())


def _readings(runs: dict[str, pd.DataFrame], heads: Sequence[Sequence[Head]]) -> list[np.ndarray]:
    """Return the readings of each run's heads, every quantity over its deviation: [head, quantity and step] each."""
    curves = [_curves(rows, of_run) for rows, of_run in zip(runs.values(), heads, strict=True)]
    common = [key for key in curves[0] if all(key in one for one in curves)]
    first, last = max(one["step"].min() for one in runs.values()), min(one["step"].max() for one in runs.values())
    u = np.linspace(np.log1p(first), np.log1p(last), POINTS)
    ends = np.cumsum([len(of_run) for of_run in heads])
    columns = [np.zeros((ends[-1], 1))]
    for key in common:
        pairs = zip(curves, heads, strict=True)
        values = np.array([np.interp(u, *one[key][head]) for one, of_run in pairs for head in of_run])
        if (spread := float(values.std())) > 0:
            columns.append(values / spread)
    return np.split(np.concatenate(columns, -1), ends[:-1])


def _curves(rows: pd.DataFrame, heads: Sequence[Head]) -> dict[tuple[object, ...], dict[Head, Line]]:
    """Return by quantity and labels each head's curve over log(1 + step), where all of these heads have one."""
    of_layer = rows["head"].notna() & (rows["layer"] == heads[0][0]) & rows["value"].notna()
    # The number of a cluster is another one in every run.
    rows = rows[of_layer & (rows["quantity"] != "cluster")].sort_values("step", kind="stable")
    axes = [name for name in axes_of(rows) if name not in ("layer", "head", "query", "key")]
    result: dict[tuple[object, ...], dict[Head, Line]] = {}
    labels = rows[axes].astype("string").fillna("")
    for (layer, head, *key), curve in rows.assign(**labels).groupby(["layer", "head", "probe", "quantity", *axes]):
        u, values = np.log1p(curve["step"].to_numpy(float)), curve["value"].to_numpy(float)
        result.setdefault(tuple(key), {})[int(str(layer)), int(str(head))] = (u, values)
    return {key: of for key, of in result.items() if set(heads) <= of.keys()}


def head_events(rows: Rows, criteria: StageCriteria = DEFAULT) -> pd.DataFrame:
    """Return each head's changes of top relation, from the shares of relations in its attention.

    A head takes a relation's name when its share reaches 0.5 (`enter`) and it attends to the relation at all
    (`_attends`), and loses it ("diffuse") below 0.4 (`leave`) or to another one that reaches 0.5 and leads by as much
    as lies between the two; what lasts less than two checkpoints (`dwell`) is passed over. From ten checkpoints on
    shares are running medians over three, and both thresholds move apart by three and a half deviations of the noise
    that is left in them, and so does the lead: between them a head keeps its name.

    Source: the labels, dwell times and migrations follow the analysis released with Yüksel et al. (2026),
    arXiv:2602.19143; leaving later than entering (hysteresis) is this library's.
    """
    if rows[Role.SHARE].empty:
        return typed([], EVENTS)
    events, attends = [], _attends(rows, criteria)
    for head, shares in _by_head(rows[Role.SHARE]).items():
        shares = shares.dropna(axis="columns", how="all").dropna()
        if shares.empty:
            continue
        shares = _of_role(shares, attends.get(head))
        labels = _long_enough(_labels(shares, criteria), criteria.dwell)
        for i in np.flatnonzero(labels.to_numpy()[1:] != labels.to_numpy()[:-1]):
            values = (*head, *labels.iloc[i : i + 2], *labels.index[i : i + 2])
            events.append(dict(zip(EVENTS, values, strict=True)))
    return typed(events, EVENTS).sort_values("first_step_after", kind="stable", ignore_index=True)


def _by_head(rows: pd.DataFrame, name: str = "value") -> dict[Head, pd.DataFrame]:
    """Return what each head has in a column, by step and relation: a pivot of a head alone takes milliseconds."""
    wide = rows.pivot(index=["layer", "head", "step"], columns="relation", values=name)
    of_heads = wide.groupby(level=["layer", "head"])
    return {(int(str(layer)), int(str(head))): of.droplevel(["layer", "head"]) for (layer, head), of in of_heads}


def _of_role(shares: pd.DataFrame, attends: pd.DataFrame | None) -> pd.DataFrame:
    """Return shares [step, relation] with 0 for what the head does not attend to; all of them where that is unknown."""
    return shares if attends is None else shares.where(attends.reindex_like(shares) != 0.0, 0.0)


def _attends(of_roles: Rows, criteria: StageCriteria) -> dict[Head, pd.DataFrame]:
    """Return whether each head attends to each relation, 1 or 0, by step and relation; nothing where that is unknown.
    It does where its attention along the relation is beyond that of uniform attention by 0.2 (`growth`), surely so, and
    is 0.3 (`named`), or has risen by 0.2 since the first checkpoint: a share of little is no role.
    """
    along, uniform = of_roles[Role.ATTENTION_ALONG], of_roles[Role.UNIFORM_ATTENTION]
    if along.empty:
        return {}
    even = None if uniform.empty else uniform.groupby("relation")["value"].mean()
    attends, lowest = dict[Head, pd.DataFrame](), _by_head(along, "lo" if "lo" in along else "value")
    for head, rows in _by_head(along).items():
        values, known = _running_median(rows).to_numpy(), rows.notna().any().to_numpy()
        chance = 0.0 if even is None else even.reindex(rows.columns).to_numpy(float)
        large = (values >= criteria.named) | (values - values[0] >= criteria.growth)
        sure = (values - chance >= criteria.growth) & ~(lowest[head].to_numpy(float) <= chance)
        attends[head] = pd.DataFrame(np.where(known, large & sure, np.nan), rows.index, rows.columns)
    return attends


def _running_median(rows: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame(running_median(rows.to_numpy(float), axis=0), rows.index, rows.columns)


def head_labels(table: pd.DataFrame, criteria: StageCriteria = DEFAULT) -> pd.DataFrame:
    """Return each head's `label` at every checkpoint, the largest `share` of a relation, and its `lead` over the second
    one.

    A head has a relation's name where its share is surely half (`enter`) or more, and it attends to it (`_attends`);
    "diffuse" where all shares are surely less, and "cannot be told" otherwise. The error is the larger one of three and
    a half deviations of the share's noise between checkpoints, from ten of them on, and of the 95 % interval over
    sequences.
    """
    of_roles = by_role(table, roles_in(table))
    if (share := of_roles[Role.SHARE]).empty:
        return typed([], LABELS)
    if not {"lo", "hi"} <= set(share):
        share = share.assign(lo=share["value"], hi=share["value"])
    frames, attends = [], _attends(of_roles, criteria)
    halves = _by_head(share.assign(half=(share["hi"] - share["lo"]) / 2), "half")
    for (layer, head), values in _by_head(share).items():
        if values.notna().any(axis=None):
            values = values.dropna(axis="columns", how="all")
        half = halves[layer, head][values.columns]
        values = _of_role(values, attends.get((layer, head)))
        known = values.dropna().to_numpy(float)
        margin = APART * noise(known.T) if len(known) >= criteria.fewest else np.zeros(values.shape[1])
        told = _told(values, np.maximum(half.fillna(0.0).to_numpy(float), margin), criteria)
        frames.append(told.assign(layer=layer, head=head))
    return pd.concat(frames, ignore_index=True)[list(LABELS)].astype(LABELS)


def _told(shares: pd.DataFrame, error: np.ndarray, criteria: StageCriteria) -> pd.DataFrame:
    values = shares.to_numpy(float)
    order, rows = np.argsort(-values, axis=1, kind="stable"), np.arange(len(values))
    top, second = order[:, 0], order[:, min(1, values.shape[1] - 1)]
    largest, of_top = values[rows, top], error[rows, top]
    alone = values.shape[1] == 1
    lead = largest - (0.0 if alone else values[rows, second])
    leads = lead > of_top + (0.0 if alone else error[rows, second])
    names = np.array([str(name) for name in shares.columns], dtype=object)[top]
    named = (largest - of_top >= criteria.enter) & leads
    labels = np.where(named, names, np.where(largest + of_top < criteria.enter, DIFFUSE, UNDECIDED))
    labels[np.isnan(values).any(axis=1)] = UNDECIDED
    return pd.DataFrame({"step": shares.index, "label": labels, "share": largest, "lead": lead})


def _labels(shares: pd.DataFrame, criteria: StageCriteria) -> pd.Series:
    current, labels = DIFFUSE, []
    known = len(shares) >= criteria.fewest
    margin = APART * float(median_noise(shares.to_numpy(float).T).max()) if known else 0.0
    if known:
        shares = _running_median(shares)
    enter, leave = min(criteria.enter + margin, (1 + criteria.enter) / 2), max(criteria.leave - margin, 0.0)
    lead = criteria.enter - criteria.leave + margin
    for share in shares.to_dict("records"):
        top = max(share, key=lambda relation: share[relation])
        if share[top] >= enter and (current == DIFFUSE or share[top] - share[current] >= lead):
            current = str(top)
        elif current != DIFFUSE and share[current] < leave:
            current = DIFFUSE
        labels.append(current)
    return pd.Series(labels, index=shares.index)


def _long_enough(labels: pd.Series, checkpoints: int) -> pd.Series:
    """Return labels without those that last too briefly; where none lasts, nothing is known to change."""
    length = labels.groupby((labels != labels.shift()).cumsum()).transform("size")
    return labels.where(length >= checkpoints).ffill().bfill().fillna(DIFFUSE)
