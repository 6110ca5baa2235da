"""Every sentence about a behaviour, from `findings.behaviour`."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from stagewise.findings.behaviour import Behaviour, Time
from stagewise.table import head_label
from stagewise.words._onsets import Row
from stagewise.words._times import at, span, written

NONE = "The behaviour did not come: at the end the logit difference is {difference:.2f} nats, not surely above 0."


_WHILE = {
    "needed": "the behaviour needed it while it came",
    "speeds it up": "the behaviour came sooner with it",
    "does not matter": "the behaviour came as soon without it",
}
"""Verdict of a certificate -> what is said of a head."""


def behaviour(found: Behaviour, certificate: pd.DataFrame | None = None) -> list[str]:
    """Say when the behaviour came, whether it dipped before, and a line for each head that carries it, in order; with a
    certificate, of `replay.certify`, also which heads it needed while it came.

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
    verdicts = {} if certificate is None else dict(zip(certificate["subject"], certificate["verdict"], strict=True))
    lines += [_head(row, verdicts) for row in found.heads.to_dict("records")]
    carrying = {head_label(*each) for each in zip(found.heads["layer"], found.heads["head"], strict=True)}
    if others := [name for name, verdict in verdicts.items() if verdict == "needed" and name not in carrying]:
        lines.append(f"The behaviour also needed {' and '.join(others)} while it came.")
    return lines


def _head(row: Row, verdicts: Mapping[str, str]) -> str:
    article = "an" if row["kind"][:1] in {"i", "S"} else "a"
    kind = f"{article} {row['kind']}{'' if 'mover' in row['kind'] else ' head'}" if row["kind"] else "of no kind"
    direct = "" if bool(np.isnan(row["direct"])) else f", directly {row['direct']:.2f}"
    name = head_label(int(row["layer"]), int(row["head"]))
    line = f"{name}, {kind}: {row['effect']:.2f} nats{direct}"
    times = {"it attends so from {} on": "formed", "matters from {} on": "t50"}
    known = [
        words.format(at(_time((row[name], row[f"{name}_lo"], row[f"{name}_hi"]))))
        for words, name in times.items()
        if np.isfinite(row[name]) and (name == "t50" or row["kind"])
    ]
    sure = [] if np.isnan(row["before"]) else [f"before the behaviour with probability {row['before']:.2f}"]
    needed = [_WHILE[verdicts[name]]] if verdicts.get(name) in _WHILE else []
    after = [f"took over from {row['after']}"] if row["after"] else []
    return "; ".join([line, *(known or ["no onset"]), *sure, *after, *needed])


def _time(time: Time) -> str:
    return f"{written(time[0])} [{written(time[1])}, {written(time[2])}]"
