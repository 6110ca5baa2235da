"""Every sentence about a behaviour, from `findings.behaviour`."""

import numpy as np

from stagewise.findings.behaviour import Behaviour, Time
from stagewise.table import head_label
from stagewise.words._onsets import Row
from stagewise.words._times import at, span, written

NONE = "The behaviour did not come: at the end the logit difference is {difference:.2f} nats, not surely above 0."


def behaviour(found: Behaviour) -> list[str]:
    """Say when the behaviour came, whether it dipped before, and a line for each head that carries it, in order.

    >>> import pandas as pd
    >>> behaviour(Behaviour(False, 0.02, None, (np.nan,) * 3, None, pd.DataFrame()))
    ['The behaviour did not come: at the end the logit difference is 0.02 nats, not surely above 0.']
    """
    if not found.came:
        return [NONE.format(difference=found.difference)]
    since = "" if found.since is None else f", surely from {at(found.since)} on"
    # It may grow on to the end, or come between two checkpoints.
    unknown = "" if found.heads.empty else "; it has no onset, so that no head is told to be before or after it"
    when = unknown if np.isnan(found.t50[0]) else f", half-way at {at(_time(found.t50))}"
    lines = [f"The right answer is preferred by {found.difference:.2f} nats at the end{since}{when}."]
    if found.dip is not None:
        first, last, step, lowest = found.dip
        lines.append(f"Before that it was the wrong one, {span(first, last)}: {lowest:.2f} nats at {at(step)}.")
    if found.heads.empty:
        return [*lines, "No head alone carries it."]
    return lines + [_head(row) for row in found.heads.to_dict("records")]


def _head(row: Row) -> str:
    article = "an" if row["kind"][:1] in {"i", "S"} else "a"
    kind = f"{article} {row['kind']}{'' if 'mover' in row['kind'] else ' head'}" if row["kind"] else "of no kind"
    direct = "" if bool(np.isnan(row["direct"])) else f", directly {row['direct']:.2f}"
    line = f"{head_label(int(row['layer']), int(row['head']))}, {kind}: {row['effect']:.2f} nats{direct}"
    times = {
        "it attends so from {} on": ("formed", "formed_lo", "formed_hi") if row["kind"] else None,
        "matters from {} on": ("t50", "t50_lo", "t50_hi"),
    }
    known = [
        words.format(at(_time((row[names[0]], row[names[1]], row[names[2]]))))
        for words, names in times.items()
        if names is not None and np.isfinite(row[names[0]])
    ]
    sure = [] if np.isnan(row["before"]) else [f"before the behaviour with probability {row['before']:.2f}"]
    return "; ".join([line, *(known or ["no onset"]), *sure])


def _time(time: Time) -> str:
    return f"{written(time[0])} [{written(time[1])}, {written(time[2])}]"
