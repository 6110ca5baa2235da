"""The stages of a run, found in its table."""

import concurrent.futures
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from stagewise.event import Causes
from stagewise.findings.frames import InWords, digest, from_plain, plain, typed
from stagewise.findings.from_onsets import onset_stages
from stagewise.findings.from_references import POINTS, nested_references, reference_stages, turning_points
from stagewise.findings.head_labels import head_events
from stagewise.findings.known_causes import known
from stagewise.findings.logged_causes import causes_in
from stagewise.findings.onsets import TIMES, find_onsets
from stagewise.findings.scores import has_scores, quantities_of, rows_of_evidence
from stagewise.findings.windows import Window, windows
from stagewise.statistics import DEFAULT, StageCriteria
from stagewise.table import Quantities, check_table, plain_quantities, quantities_from, select
from stagewise.words import stages as words

ROWS = {
    **dict.fromkeys(("stage", "start", "start_lo", "start_hi", "end", "end_lo", "end_hi"), "int64"),
    **dict.fromkeys(TIMES, "float64"),
    **{"reference": "str", "spread": "bool", **dict.fromkeys(("kl_first", "kl_end", "kl_lowest"), "float64")},
}
"""Columns of the stage table, with their types."""

FRAMES = "table", "turning_points", "events", "onsets"


@dataclasses.dataclass(frozen=True, eq=False)
class Stages(InWords):
    """The stages of a run, with the evidence. Steps are optimiser updates, KL is in nats.

    Args:
        run: name of the run.
        table: a row a stage: `stage`, its `start` and `end` with intervals (`start_lo`, ...), the steps `t10`, `t50`,
            `t90` at which 10, 50 and 90 % of its fall in KL to the complete reference had happened. The first stage
            starts at the first checkpoint, the last one ends at the last. The `reference` that the model comes close
            to in it, with KL to that at the run's first checkpoint, at the end of the stage, and where it was lowest
            (`kl_first`, `kl_end`, `kl_lowest`). Without references t10, t50 and t90 are the medians of the onsets
            that the stage starts with, and `spread` says whether these follow one another over a period.
        turning_points: a row a curve of KL: its name as `reference`, the fields of `turning_points.Turn`, the
            `slowdown` of learning there (0: it stopped, 1: no slower than around), the `verdict` (`TurnVerdict`),
            whether it is a stage `boundary`, what was done to the run then, by its name as `cause`, and `ends_stage`,
            the number of the stage whose end it marks.
        events: a row a change of a head: `layer`, `head`, the relation `before` and `after` ("diffuse" where none has
            half of the share), and the two checkpoints between which that was.
        onsets: a row a score, as `find_onsets` returns it, whether or not the stages come from it; where they do,
            `starts_stage` is the number of the stage that an onset starts.
        references: the nested references that the stages were found in, none where they were found in the onsets.
        criteria: the thresholds in use.
        digest: of the rows that they were found in.
        causes: what was done to the run, with its step, or its first and last one.
        quantities: what the numbers are that were searched for onsets.
    """

    run: str
    table: pd.DataFrame
    turning_points: pd.DataFrame
    events: pd.DataFrame
    onsets: pd.DataFrame = dataclasses.field(default_factory=pd.DataFrame)
    references: tuple[str, ...] = ()
    criteria: StageCriteria = DEFAULT
    digest: str = ""
    causes: Causes = dataclasses.field(default_factory=dict)
    quantities: Quantities = dataclasses.field(default_factory=dict)

    @property
    def from_references(self) -> bool:
        """Whether the stages were found in KL to nested references; else in the onsets of scores."""
        return bool(self.references)

    @property
    def unknown(self) -> str:
        """Why no stages can be found, where the run has too few checkpoints for any onset; else nothing."""
        return "" if self.from_references else words.too_few(self.onsets, self.criteria)

    @property
    def context(self) -> words.Context:
        """What its rows are read with."""
        return words.Context(self.quantities, self.criteria, self.causes)

    def __len__(self) -> int:
        return len(self.table)

    @property
    def windows(self) -> list[Window]:
        """The intervals in which its boundaries lie, the widest first: where finer checkpoints would tell most."""
        return windows(self.table)

    def words(self) -> str:
        """Return the stage table in sentences, a line a stage."""
        return "\n".join(words.stages(self.table, self.turning_points, self.events, self.onsets, self.context))

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
            run=written["run"], references=tuple(written["references"]), criteria=StageCriteria(**written["criteria"]),
            digest=written["digest"], causes=known(written["causes"]),
            quantities=quantities_from(written["quantities"]),
            **{name: from_plain(written[name]) for name in FRAMES},
        )  # fmt: skip


def find_stages(
    table: pd.DataFrame,
    references: Sequence[str] | None = None,
    criteria: StageCriteria = DEFAULT,
    causes: Causes | None = None,
    executor: concurrent.futures.Executor | None = None,
) -> Stages:
    """Find the stages of one run in the KL to its nested references; in the onsets of its scores if it has none.

    With references, a stage ends where KL(reference || model) has its minimum, one reference after the other. Such a
    turning point counts as a boundary if the reference was approached, if the rise cannot be noise on a curve that
    only falls (p < 0.01), and if the model came close to that reference or learning slowed down there: a model that
    learns everything at once passes the truncated references too, at some distance and without a pause. What a
    boundary estimates is the step at which KL to that reference has its minimum; the other curves of the table with a
    minimum nearby (KL to models trained on a restricted context, and to the model itself with its context restricted)
    corroborate it, and stand beside it. Where KL to the complete reference rises again as well, the model overfits,
    which ends no stage.

    Without references, a stage starts where scores of heads or of the model have an onset: see `find_onsets`.

    Args:
        table: from `measure`, of one run, with `KLToReference` rows or scores; `HeadSpecialisation` rows give the
            events.
        references: the nested references, the complete one last; None takes those that the task names, in the
            table's column `nested`, and onsets where the table has fewer than two of these.
        criteria: the thresholds; the numbers named here are their defaults.
        causes: steps at which something was done to the run, as {"the learning-rate drop": 3000}, or its first and
            last step, as {"the warm-up": (0, 500)}; an onset or a boundary there is none. None takes the changes of a
            logged learning rate in a table of `read_log`.
        executor: whose processes look for the onsets; None looks for them here.

    Raises:
        ValueError: no such rows, several runs, or fewer than four checkpoints with references.

    Source: the stage boundaries of Yüksel et al. (2026), arXiv:2602.19143, Figures 1 and 3, which are set by hand
    there where KL(A*_1) and KL(A*_1:2) start to rise. The test against "no stage" is this library's.
    """
    check_table(table, "of a measured run folder: `load_stages`")
    if (runs := table["run"].nunique()) != 1:
        raise ValueError(f"find_stages takes one run at a time, the table has {runs}: find_replicates takes several")
    run = str(table["run"].iloc[0])
    probes = ", ".join(table["probe"].unique())
    causes = causes_in(table) if causes is None else known(causes)
    table = rows_of_evidence(table)
    nested = tuple(references or ())
    if not nested and len(named := nested_references(table)) > 1:
        nested = named
    onsets, events = find_onsets(table, criteria, causes, executor), head_events(table, criteria)
    if nested:
        points = turning_points(table, nested, criteria, causes)
        rows = reference_stages(table, nested, points)
    elif onsets.empty:
        raise ValueError(
            "the table has neither KL to nested references (KLToReference) nor scores that onsets are looked for in: "
            f"measure AttentionTo, Copying, InContextLearning or Loss; it has {probes}. `stagewise.read_log` makes "
            "a table of curves that were logged elsewhere"
        )
    else:
        points = typed([], POINTS)
        rows, onsets = onset_stages(onsets, int(table["step"].min()), int(table["step"].max()), criteria)
    searched = set(onsets["probe"])
    quantities = {probe: by_name for probe, by_name in quantities_of(table).items() if probe in searched}
    return Stages(run, typed(rows, ROWS), points, events, onsets, nested, criteria, digest(table), causes, quantities)


def shows_stages(table: pd.DataFrame, criteria: StageCriteria = DEFAULT) -> bool:
    """Whether a table can show stages: references or scores, over enough checkpoints."""
    if len(nested_references(table)) > 1:
        table = select(table, "KLToReference", "kl")
    elif not has_scores(table, criteria):
        return False
    return bool(table["step"].nunique() >= criteria.checkpoints)
