"""Heads of several runs by their roles: which head of one run does what a head of another one does."""

import itertools
from collections.abc import Sequence

import numpy as np
import pandas as pd
import scipy

from stagewise.findings._scores import axes_of
from stagewise.table import Head, heads_in

POINTS = 12
"""Steps, equally spaced in log(1 + step), at which the readings of heads are compared."""

ROUNDS = 3
"""Assignments to the mean of all runs after the first one to the most central run."""

ROLES = {"run": "str", "layer": "int64", "head": "int64", "role": "int64", "distance": "float64"}
"""Columns of the frame of roles, with their types."""


Line = tuple[np.ndarray, np.ndarray]
"""A curve: log(1 + step), values."""


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
