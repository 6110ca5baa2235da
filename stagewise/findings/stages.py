"""The stages of a run, found in its table."""

import concurrent.futures
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from stagewise.criteria import DEFAULT, OnsetVerdict, StageCriteria
from stagewise.event import Causes, Context
from stagewise.findings._episodes import POWER, beside, episodes_of, levels_of, power_of, without_spikes
from stagewise.findings._frames import TIMES, Columns, InWords, by_reference, by_role, from_plain, plain, typed
from stagewise.findings._from_references import (
    POINTS,
    boundaries_of,
    levels_of_kl,
    nested_references,
    turning_points,
)
from stagewise.findings._known_causes import causes_in, known
from stagewise.findings._roles import head_events
from stagewise.findings._transitions import RunTransition, stage_rows, transitions_of, with_stages
from stagewise.findings.crossings import taken_over
from stagewise.findings.onsets import onsets_of
from stagewise.findings.scores import Evidence, evidence_in, has_scores
from stagewise.table import Quantities, Role, check_table, plain_quantities, quantities_from, roles_in
from stagewise.token_axis import TokenAxis, in_counts

ROWS: Columns = {
    **dict.fromkeys(("stage", "start", "start_lo", "start_hi", "end", "end_lo", "end_hi"), "int64"),
    **dict.fromkeys(("begins", *TIMES), "float64"),
    **{"left": "str", "closest": "str", "reference": "str", "spread": "bool"},
    **dict.fromkeys(("kl_first", "kl_end", "kl_lowest"), "float64"),
}

TIMED = {
    "table": ("begins", *(f"{name}{end}" for name in ("start", "end", *TIMES) for end in ("", "_lo", "_hi"))),
    "turning_points": ("step", "lo", "hi"),
    "events": ("last_step_before", "first_step_after"),
    "onsets": ("last_step", "not_finite_at", *(f"{name}{end}" for name in TIMES for end in ("", "_lo", "_hi"))),
    "levels": (),
    "episodes": ("start", "end"),
    "power": (),
}
"""Frame -> its columns of times."""

FRAMES = tuple(TIMED)

NOTHING = (
    "the table has neither KL to nested references nor scores that onsets are looked for in, as the loss or the "
    "attention of heads to relations, which the default probes measure; it has {probes}. `stagewise.read_log` makes a "
    "table of curves that were logged elsewhere"
)


@dataclasses.dataclass(frozen=True, eq=False)
class Stages(InWords):
    """The stages of a run, with the evidence. Steps are optimiser updates, KL is in nats.

    Args:
        run: name of the run.
        table: a row for each stage between two transitions: `stage`, its `start` and `end` with the intervals
            (`start_lo`, ...) of these transitions; the first stage starts at the first checkpoint, the last one ends at
            the last. Columns of the transition that it starts with: the reference that the model leaves (`left`; empty
            where onsets alone show it), the last step before any of it (`begins`), `t10`, `t50` and `t90` (of the fall
            in KL to the complete reference up to the next transition; without references the medians of its onsets),
            and whether its onsets follow one another over a period (`spread`). With references that are not nested, as
            n-gram models, the one that it is `closest` to in the stage. With nested references, the `reference` that
            the model comes close to in the stage, with KL to that at the run's first checkpoint, at the end of the
            stage, and where it was lowest (`kl_first`, `kl_end`, `kl_lowest`).
        turning_points: a row a curve of KL: its name as `reference`, the fields of `turning_points.Turn`, the
            `slowdown` of learning there (0: it stopped, 1: no slower than around), the `verdict` (`TurnVerdict`),
            whether it is a stage `boundary`, the `cause`, and `ends_stage`, the number of the stage whose end it marks.
        events: a row a change of a head: `layer`, `head`, the relation `before` and `after` ("diffuse" where none has
            half of the share), and the two checkpoints between which that was.
        onsets: a row a score, as `find_onsets` returns it; `starts_stage` is the number of the stage whose transition
            an onset belongs to, missing for those of the first stage and for weights that change on their own.
        levels: a row a stage and curve of the whole model, with its level before and after it: `levels_of`.
        episodes: a row a spike, divergence, overfitting or late generalisation: `episodes_of`.
        power: without any transition, a row for each curve of the whole model, with the smallest change that could be
            found in it: `power_of`.
        references: the nested references of the table, none where it has none.
        criteria: the thresholds in use.
        digest: identifies the rows in which they were found.
        causes: changes of the run, each with its step, or its first and last one.
        quantities: declarations of the quantities that were searched for onsets.
        axis: the unit of its times: "steps", or "tokens" where `counted` returned it.
    """

    run: str
    table: pd.DataFrame
    turning_points: pd.DataFrame
    events: pd.DataFrame
    onsets: pd.DataFrame = dataclasses.field(default_factory=pd.DataFrame)
    levels: pd.DataFrame = dataclasses.field(default_factory=pd.DataFrame)
    episodes: pd.DataFrame = dataclasses.field(default_factory=pd.DataFrame)
    power: pd.DataFrame = dataclasses.field(default_factory=pd.DataFrame)
    references: tuple[str, ...] = ()
    criteria: StageCriteria = DEFAULT
    digest: str = ""
    causes: Causes = dataclasses.field(default_factory=dict)
    quantities: Quantities = dataclasses.field(default_factory=dict)
    axis: str = "steps"

    @property
    def unknown(self) -> tuple[int, int] | None:
        """Its number of checkpoints and the fewest for an onset, where it has too few to find any; else None."""
        if self.references or self.onsets.empty or (self.onsets["verdict"] != OnsetVerdict.FEW_CHECKPOINTS).any():
            return None
        return int(self.onsets["checkpoints"].max()), self.criteria.fewest

    @property
    def context(self) -> Context:
        """The context in which its rows are read."""
        return Context(self.quantities, self.criteria, self.causes)

    def __len__(self) -> int:
        return len(self.table)

    def counted(self, axis: TokenAxis) -> "Stages":
        """Return the same with tokens in place of steps, as runs with batches of different sizes are compared."""
        frames: dict[str, Any] = {name: in_counts(getattr(self, name), times, axis) for name, times in TIMED.items()}
        causes = {
            name: [*map(axis.tokens_at, when)] if isinstance(when, Sequence) else axis.tokens_at(when)
            for name, when in self.causes.items()
        }
        return dataclasses.replace(self, **frames, causes=causes, axis="tokens")

    @property
    def written(self) -> dict[str, Any]:
        """Its fields as plain data, for JSON."""
        return {
            "digest": self.digest,
            "run": self.run,
            "references": list(self.references),
            "criteria": dataclasses.asdict(self.criteria),
            "causes": dict(self.causes),
            "quantities": plain_quantities(self.quantities),
            **{name: plain(getattr(self, name)) for name in FRAMES},
        }

    @classmethod
    def of(cls, written: Mapping[str, Any]) -> "Stages":
        """Return the stages that `written` holds."""
        return cls(
            run=written["run"], references=tuple(written["references"]),
            criteria=StageCriteria(**written["criteria"]),
            digest=written["digest"], causes=known(written["causes"]),
            quantities=quantities_from(written["quantities"]),
            **{name: from_plain(written[name]) for name in FRAMES},  # type: ignore[arg-type]
        )  # fmt: skip


def find_stages(
    table: pd.DataFrame,
    references: Sequence[str] | None = None,
    criteria: StageCriteria = DEFAULT,
    causes: Causes | None = None,
    executor: concurrent.futures.Executor | None = None,
) -> Stages:
    """Find the transitions of one run, and the stages between them, in all its measurements.

    With references, a transition begins where KL(reference || model) has its minimum, one reference after the other.
    Such a turning point counts if the reference was approached, if the rise cannot be noise on a curve that
    only falls (p < 0.01), and if the model came close to that reference or learning slowed down there: a model that
    learns everything at once passes the truncated references too, at some distance and without a pause. The other
    curves of the table with a minimum nearby (KL to models trained on a restricted context, and to the model itself
    with its context restricted) corroborate it, and stand beside it. Where KL to the complete reference rises again as
    well, no stage ends.

    Onsets of scores (`find_onsets`) that are half-way during such a transition belong to it; all others are transitions
    of their own, with or without references: `transitions_of`. Where references are not nested, as n-gram models,
    another one that becomes the closest for good is a transition, too.

    Args:
        table: from `measure`, of one run, with KL to references or scores; the shares of relations in the
            attention of heads give the events.
        references: the nested references, the complete one last; None takes those that the task names, in the
            table's column `nested`, if these are two or more.
        criteria: the thresholds; the numbers named here are their defaults.
        causes: steps at which the run was changed, as {"the learning-rate drop": 3000}, or the first and last step of a
            change, as {"the warm-up": (0, 500)}. A transition then names its cause, and is none if the schedule alone
            explains it: `find_onsets`. None takes the changes of a logged learning rate in a table of `read_log`.
        executor: its processes look for the onsets and the turning points; None looks for them here.

    Raises:
        ValueError: no such rows, several runs, or fewer than four checkpoints with references.

    Source: the stage boundaries of Yüksel et al. (2026), arXiv:2602.19143, Figures 1 and 3, which are set by hand
    there where KL(A*_1) and KL(A*_1:2) start to rise. The test against "no stage" is this library's.
    """
    check_table(table, "of a measured run folder: `load_stages`")
    if (runs := table["run"].nunique()) != 1:
        raise ValueError(f"find_stages takes one run at a time, the table has {runs}: find_replicates takes several")
    evidence = evidence_in(table, criteria)
    nested = tuple(references or ()) or nested_references(evidence.of_roles[Role.KL])
    if not nested and not evidence.curves:
        raise ValueError(NOTHING.format(probes=", ".join(table["probe"].unique())))
    return _stages(evidence, nested, criteria, causes_in(table, causes), executor)


def _stages(
    evidence: Evidence, nested: tuple[str, ...], criteria: StageCriteria, causes: Causes,
    executor: concurrent.futures.Executor | None,
) -> Stages:  # fmt: skip
    """Search the evidence for everything that happens in it, and order that into stages."""
    steps, of_roles, whole = np.sort(evidence.rows["step"].unique()), evidence.of_roles, evidence.whole
    first, last = int(steps[0]), int(steps[-1])
    episodes = episodes_of(whole)
    onsets = without_spikes(onsets_of(evidence.curves, criteria, causes, executor), episodes)
    kl, restricted = by_reference(of_roles[Role.KL]), of_roles[Role.RESTRICTED_KL]
    points = turning_points(kl, restricted, nested, criteria, causes, executor) if nested else typed([], POINTS)
    boundaries = boundaries_of(kl[nested[-1]], points, last) if nested else []
    closest = [] if nested else taken_over(of_roles[Role.KL], first)
    transitions = transitions_of(onsets, boundaries, steps, evidence.quantities, criteria, closest)
    nearest = closest[0].before if closest else ""
    start = RunTransition(first, first, first, closest=nearest, begins=float(first))
    rows = stage_rows(transitions, start, last, nested[-1] if nested else "")
    onsets = with_stages(onsets, transitions)
    rows = levels_of_kl(kl, nested[-1], points, rows) if nested else rows
    return Stages(
        run=str(evidence.rows["run"].iloc[0]),
        table=typed(rows, ROWS),
        turning_points=points,
        events=head_events(of_roles, criteria),
        onsets=onsets,
        levels=levels_of(whole, [row["begins"] for row in rows], last, episodes),
        episodes=beside(episodes, onsets),
        power=typed([], POWER) if transitions else power_of(whole or evidence.curves),
        references=nested,
        criteria=criteria,
        digest=evidence.digest,
        causes=causes,
        quantities={probe: of for probe, of in evidence.quantities.items() if probe in set(onsets["probe"])},
    )


def shows_stages(table: pd.DataFrame, criteria: StageCriteria = DEFAULT) -> bool:
    """Whether a table can show stages: references or scores, over enough checkpoints."""
    kl = by_role(table, roles_in(table))[Role.KL]
    rows = kl if (nested := nested_references(kl)) else table
    return bool(nested or has_scores(table, criteria)) and rows["step"].nunique() >= criteria.checkpoints
