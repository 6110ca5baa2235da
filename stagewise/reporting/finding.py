"""What a report says first: its headline, and the finding in two sentences."""

from stagewise.findings.batch_familiarity import BatchFamiliarity
from stagewise.findings.stages import Stages
from stagewise.reporting.prose import capital, count, interval
from stagewise.words.stages import NO_STAGES, by_cause, largest, summaries, timed

HEADS = ("AttentionTo", "OffsetProfile", "HeadSpecialisation")
"""Probes whose onsets say what a head does: they are named first."""

NAMED = 3
"""Onsets that are named in the finding."""


def headline(stages: Stages | None, familiarity: BatchFamiliarity | None = None) -> str:
    """Say in a few words how many stages there are, or why that means nothing."""
    if familiarity is not None and familiarity.foreign:
        return "The probe batch is foreign to this model"
    if stages is None:
        return "Measured over training"
    if stages.unknown:
        return "Too few checkpoints to find stages"
    if len(stages.table) == 1:
        onsets = _onsets_beside(stages)
        return "No separate stages were found" + (f", but {onsets}" if onsets else "")
    return f"{len(stages.table)} stages were found"


def finding(stages: Stages | None, familiarity: BatchFamiliarity | None = None) -> str:
    """Say the finding in two sentences: how many stages, when each begins, and what happened above all."""
    if familiarity is not None and familiarity.foreign:
        return str(familiarity)
    sentence = _told(stages)
    return f"{sentence} {familiarity}" if familiarity is not None and familiarity.unknown else sentence


def _told(stages: Stages | None) -> str:
    if stages is None:
        return f"{capital(NO_STAGES)}. Their curves are below."
    if stages.unknown:
        return f"{capital(stages.unknown)}. Their curves are below."
    if len(stages.table) == 1:
        return f"The whole run is one stage: {_one_stage(stages)}. The reasons are below."
    starts = [
        interval(row["start"], row["start_lo"], row["start_hi"]) for row in stages.table.iloc[1:].to_dict("records")
    ]
    parted = f"at step {starts[0]}" if len(starts) == 1 else f"at steps {', '.join(starts[:-1])} and {starts[-1]}"
    lead = (
        f"Training went through {len(stages.table)} stages, which are separated {parted} (95 % intervals in brackets)."
    )
    return f"{lead} {_main(stages)}"


def _one_stage(stages: Stages) -> str:
    """Say why there is one stage only, and what happened in it all the same."""
    if onsets := _onsets_beside(stages):
        return f"it leaves no partial solution for the next one. It has {onsets}"
    causes = by_cause(stages.onsets, stages.causes)
    changed = [f"; {count(number, 'score')} may have changed by {cause}" for cause, number in causes.items()]
    return f"nothing in it differs from noise or a smooth curve{''.join(changed)}"


def _onsets_beside(stages: Stages) -> str:
    """Count the onsets of a run with references, which end none of its stages; empty without any."""
    onsets = int(stages.onsets["onset"].sum()) if stages.from_references and len(stages.onsets) else 0
    return f"{count(onsets, 'onset')} of scores" if onsets else ""


def _main(stages: Stages) -> str:
    if stages.from_references:
        *_, last = summaries(stages.table, stages.events, stages.onsets, stages.context)
        return f"In the last one, {last}."
    onsets = stages.onsets[stages.onsets["onset"]]
    of_heads = onsets[onsets["probe"].isin(HEADS)]
    size = (of_heads["after"] - of_heads["before"]).abs().sort_values(ascending=False, kind="stable")
    named = of_heads.loc[size.index[:NAMED]] if len(of_heads) else largest(onsets, NAMED)
    listed = timed(named.sort_values("t50", kind="stable"), stages.context)
    return f"Above all, {'; '.join(listed)}."
