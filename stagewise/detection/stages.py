"""Find the stages: where the curves turn, whether learning stopped there, and what each head did meanwhile."""

import dataclasses
import html
from collections.abc import Hashable, Mapping, Sequence

import numpy as np
import pandas as pd

from stagewise.detection.from_onsets import onset_stages
from stagewise.detection.head_labels import head_events, in_words
from stagewise.detection.onsets import closest
from stagewise.detection.turning_points import Turn, from_first_peak, slowdown, turn
from stagewise.table import families, select

SIGNIFICANCE = 0.01
"""A curve turns up where a monotone fall with its noise would show as large a rise this rarely."""

APPROACH = 1 / 3
"""A reference is approached when KL to it falls by this part of its start."""

CLOSE = 1 / 4
"""A model has been at a reference, pause or not, when KL to it fell to this part of its start."""

DEPTH = 0.05
"""The least rise after a boundary, as a part of the fall before it."""

SLOWDOWN = 0.7
"""Two stages are separate where learning slows to this part of its speed in the slower of the two."""

NEARBY = 1.25
"""Another curve bears witness of the nearest boundary where no wider ratio of steps lies between their intervals."""


POINTS = ["reference", *Turn._fields, "slowdown", "boundary", "reason", "ends_stage"]


@dataclasses.dataclass(frozen=True, eq=False)
class Stages:
    """The stages of a run, with the evidence. Steps are optimiser updates, KL is in nats.

    Args:
        run: name of the run.
        table: a row a stage: `stage`, its `start` and `end` with intervals (`start_lo`, ...), the steps `t10`, `t50`,
            `t90` at which 10, 50 and 90 % of its fall in KL to the complete reference had happened, and a `summary`
            in words. The first stage starts at the first checkpoint, the last one ends at the last.
        turning_points: a row a curve: its name as `reference`, the fields of `turning.Turn`, the `slowdown` of
            learning there (0: it stopped, 1: no slower than around), whether it is a stage `boundary`, the `reason`,
            and `ends_stage`, the number of the stage whose end it marks.
        events: a row a change of a head: `layer`, `head`, the relation `before` and `after` ("diffuse" where none has
            half of the share), and the two checkpoints between which it happened.
        onsets: where there are no nested references, a row a score, as `find_onsets` returns it; t10, t50 and t90 of
            a stage are then the medians of the onsets that it starts with.
    """

    run: str
    table: pd.DataFrame
    turning_points: pd.DataFrame
    events: pd.DataFrame
    onsets: pd.DataFrame = dataclasses.field(default_factory=pd.DataFrame)

    def __len__(self) -> int:
        return len(self.table)

    def __str__(self) -> str:
        return self.words()

    def _repr_html_(self) -> str:
        lines = "".join(f"<li>{html.escape(line)}</li>" for line in self.words().splitlines())
        return f'<ul style="list-style: none; padding: 0">{lines}</ul>'

    def words(self) -> str:
        """Return the stage table in sentences, a line a stage."""
        lines = [
            f"stage {row['stage']}, steps {_interval(row, 'start')} to {_interval(row, 'end')}: {row['summary']}"
            for row in self.table.to_dict("records")
        ]
        if len(self) == 1:
            lines.append("no separate stages:")
            lines += [f"  {row['reference']} {row['reason']}" for row in self.turning_points.to_dict("records")]
            lines += [f"  {line}" for line in closest(self.onsets)]
        return "\n".join(lines)


def find_stages(table: pd.DataFrame, references: Sequence[str] | None = None) -> Stages:
    """Find the stages of one run in the KL to its nested references; in the onsets of its scores if it has none.

    With references, a stage ends where KL(reference || model) turns up for the next one in order. A turning point
    counts as a boundary if the reference was approached, if the rise cannot be noise on a curve that only falls
    (p < 0.01), and if the model came close to that reference or learning slowed down there: a model that learns
    everything at once passes the truncated references too, at some distance and without a pause. The other curves of
    the table that turn up nearby (restricted contexts, trained or masked) bear witness: the boundary is the median of
    their turning points, its interval holds all of theirs.

    Without references, a stage starts where scores of heads or of the model have an onset: see `find_onsets`.

    Args:
        table: from `measure`, of one run, with `KLToReference` rows or scores; `HeadSpecialisation` rows give the
            events.
        references: the nested references, the complete one last; None takes those that the task names, in the
            table's column `nested`, and onsets where the table has fewer than two of these.

    Raises:
        ValueError: no such rows, several runs, or fewer than four checkpoints.

    Source: the stage boundaries of Yüksel et al. (2026), arXiv:2602.19143, Figures 1 and 3, which are set by hand
    there where KL(A*_1) and KL(A*_1:2) start to rise. The test against "no stage" is this library's.
    """
    if references is None and not has_nested_references(table):
        rows, onsets = onset_stages(table)
        return Stages(str(table["run"].iloc[0]), rows, pd.DataFrame(columns=POINTS), head_events(table), onsets)
    kl = select(table, "KLToReference", "kl")
    if (runs := kl["run"].nunique()) != 1:
        raise ValueError(f"find_stages takes one run at a time, the table has {runs}: select one by its `run` column")
    curves = {str(name): rows for name, rows in kl.groupby("reference", sort=False)}
    references = list(references or families(kl)["nested"])
    if not references or (unknown := set(references) - set(curves)):
        raise ValueError(f"the table has no KL to {references and sorted(unknown)}; it has {', '.join(curves)}")
    if kl["step"].nunique() < 4:
        raise ValueError(f"stages need at least four checkpoints, the table has {kl['step'].nunique()}")
    nested = {name: curves.pop(name) for name in references}
    points = _turning_points(nested)
    points = pd.concat([points, _witnesses({**curves, **_masked(table)}, points)], ignore_index=True)
    events = head_events(table)
    return Stages(str(kl["run"].iloc[0]), _stage_table(nested, points, events), points, events)


def has_nested_references(table: pd.DataFrame) -> bool:
    """Whether the table has KL to a partial solution and to a more complete one."""
    return "reference" in table and len(families(table[table["probe"] == "KLToReference"])["nested"]) > 1


def _turning_points(curves: dict[str, pd.DataFrame]) -> pd.DataFrame:
    *_, complete = curves
    found: list[dict[str, object]] = []
    previous, stage = -1, 0
    for name, curve in curves.items():
        lowest = turn(curve)
        slow = slowdown(curves[complete], lowest.lo, lowest.hi)
        close = lowest.value <= CLOSE * _start(curve)
        reason = _rejection(lowest, _start(curve))
        if name == complete:
            reason = "is the complete reference: it ends no stage"
        elif not reason and slow > SLOWDOWN and not close:
            reason = f"is passed by: the model neither came close nor paused (learning slows to {slow:.0%})"
        elif not reason and lowest.step <= previous:
            reason = "turns up no later than the reference before it"
        boundary = not reason
        if boundary:
            previous, stage = lowest.step, stage + 1
            reason = "turns up after a plateau" if slow <= SLOWDOWN else "turns up, close to it, without a plateau"
        found.append(
            {
                "reference": name,
                **lowest._asdict(),
                "slowdown": slow,
                "boundary": boundary,
                "reason": reason,
                "ends_stage": stage if boundary else pd.NA,
            }
        )
    return pd.DataFrame(found).astype({"ends_stage": "Int64"})


def _witnesses(curves: dict[str, pd.DataFrame], points: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the other curves; one that turns up near a boundary bears witness of it."""
    boundaries = points[points["boundary"]]
    found: list[dict[str, object]] = []
    for name, curve in curves.items():
        lowest = turn(curve)
        reason = _rejection(lowest, _start(curve))
        stage = None if reason else _stage_ended_near(lowest, boundaries)
        if not reason:
            reason = "turns up, but at no boundary" if stage is None else f"turns up at the end of stage {stage}"
        found.append({"reference": name, **lowest._asdict(), "boundary": False, "reason": reason, "ends_stage": stage})
    return pd.DataFrame(found, columns=[name for name in points.columns if name != "slowdown"]).astype(
        {"ends_stage": "Int64"}
    )


def _stage_ended_near(lowest: Turn, boundaries: pd.DataFrame) -> int | None:
    gap = np.maximum(boundaries["lo"], lowest.lo) / np.minimum(boundaries["hi"], lowest.hi)
    near = boundaries[gap <= NEARBY]
    if near.empty:
        return None
    nearest = (near["step"] - lowest.step).abs().to_numpy().argmin()
    return int(near["ends_stage"].iloc[nearest])


def _masked(table: pd.DataFrame) -> dict[str, pd.DataFrame]:
    if "RestrictedContextKL" not in set(table["probe"]):
        return {}
    rows = select(table, "RestrictedContextKL", "kl")
    return {f"masked c={context}": from_first_peak(curve) for context, curve in rows.groupby("context", sort=False)}


def _start(curve: pd.DataFrame) -> float:
    return float(curve["value"].iloc[0])


def _rejection(lowest: Turn, start: float) -> str:
    """Say why a curve has no turning point worth the name; nothing where it has."""
    if lowest.fall <= APPROACH * start:
        return f"is not approached: it falls by {lowest.fall:.2g} of {start:.2g} nats before it turns"
    if lowest.rise < DEPTH * lowest.fall:
        return f"does not turn up: it rises by less than {DEPTH:.0%} of its fall"
    if lowest.p_value >= SIGNIFICANCE:
        return "does not turn up: noise alone would show such a rise"
    return ""


def _stage_table(curves: dict[str, pd.DataFrame], points: pd.DataFrame, events: pd.DataFrame) -> pd.DataFrame:
    *_, complete = curves
    steps = curves[complete]["step"].to_numpy()
    ends = [_agreed(rows, steps) for _, rows in points.dropna(subset="ends_stage").groupby("ends_stage")]
    edges = [(int(steps[0]),) * 3, *ends, (int(steps[-1]),) * 3]
    goals = [*points.loc[points["boundary"], "reference"], complete]
    found = []
    for number, (start, end, goal) in enumerate(zip(edges[:-1], edges[1:], goals, strict=True), start=1):
        within = events["first_step_after"].gt(start[0]) & events["first_step_after"].le(end[0])
        found.append(
            {
                "stage": number,
                **dict(zip(("start", "start_lo", "start_hi"), start, strict=True)),
                **dict(zip(("end", "end_lo", "end_hi"), end, strict=True)),
                **_fall_times(curves[complete], start[0], end[0]),
                "summary": "; ".join([*in_words(events[within]), _goal(curves[goal], goal, end[0])]),
            }
        )
    return pd.DataFrame(found)


def _agreed(witnesses: pd.DataFrame, steps: np.ndarray) -> tuple[int, int, int]:
    """Return the checkpoint nearest to the median of the witnesses' steps, and the interval that holds all theirs."""
    middle = steps[np.abs(steps - witnesses["step"].median()).argmin()]
    return int(middle), int(witnesses["lo"].min()), int(witnesses["hi"].max())


def _fall_times(curve: pd.DataFrame, start: int, end: int) -> dict[str, float]:
    """Return when 10, 50 and 90 % of the fall from start to end had happened, between checkpoints in log(1 + step)."""
    part = curve[curve["step"].between(start, end)]
    fallen = part["value"].iloc[0] - np.minimum.accumulate(part["value"].to_numpy())
    if fallen[-1] <= 0:
        return dict.fromkeys(("t10", "t50", "t90"), float("nan"))
    times = np.interp(np.array([0.1, 0.5, 0.9]) * fallen[-1], fallen, np.log1p(part["step"]))
    return dict(zip(("t10", "t50", "t90"), np.expm1(times).round(1).tolist(), strict=True))


def _goal(curve: pd.DataFrame, name: str, step: int) -> str:
    value = curve.loc[curve["step"] == step, "value"].iloc[0]
    return f"KL to {name} {'falls to' if value < _start(curve) else 'is'} {value:.2g}"


def _interval(row: Mapping[Hashable, object], edge: str) -> str:
    step, lo, hi = (row[edge + suffix] for suffix in ("", "_lo", "_hi"))
    return f"{step}" if lo == hi == step else f"{step} [{lo}, {hi}]"
