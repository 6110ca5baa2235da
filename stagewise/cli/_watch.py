"""`stagewise watch`: a training followed while it writes its checkpoints or its log."""

import contextlib
import json
import re
import sys
import urllib.request
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import monotonic, sleep
from typing import Annotated, NamedTuple

from typer import Exit, Option

import stagewise
from stagewise import checkpoints, words
from stagewise.cli import _options as options
from stagewise.cli._commands import one_thread
from stagewise.cli._names import check_probes
from stagewise.cli._sources import each_run, measure_each, opened_source
from stagewise.processes import cores

ALARM = 3
"""Status of a watch that an alarm ends."""


class _Look(NamedTuple):
    """The finding of one look: the folder of the table, its last step, and the step at which the run ends, if known."""

    folder: Path
    last: int
    end: float = float("inf")


def watch(
    source: options.Origin,
    *,
    every: Annotated[float, Option(min=0, help="seconds between two looks, and between two loads of the page")] = 30.0,
    until: Annotated[int | None, Option(help="the step to end at; of a run its last one if not given")] = None,
    once: Annotated[bool, Option("--once", help="look once, for scripts")] = False,
    out: options.Out = None,
    step_column: options.StepsColumn = None,
    alarm: Annotated[
        bool, Option("--alarm", help=f"end with status {ALARM} at nan, a loss that rises, a head that dies")
    ] = False,
    expect: Annotated[
        list[str] | None,
        Option(help='with --alarm, an event and the step it must come by, as "induction=2000"; may be repeated'),
    ] = None,
    stall: Annotated[float | None, Option(help="with --alarm, seconds without a new step")] = None,
    webhook: Annotated[str | None, Option(help="with --alarm, an address that gets the line as JSON by POST")] = None,
    data: options.DataOptions,
    measurement: options.Measurement,
) -> None:
    """Follow a training while it writes; keep report.html fresh.

    New checkpoints are measured, new transitions told. The page loads itself again until the training ends. A file
    that is still being written is looked at again. An interrupted watch goes on where it was.
    """
    from stagewise.saved_findings import alarms_in

    if not alarm and (expect or stall or webhook):
        raise ValueError("--expect, --stall and --webhook are of --alarm: give it too")
    if webhook is not None and not re.match("https?://", webhook):
        raise ValueError(f"--webhook is an address, as http://127.0.0.1:8000/alarm; got {webhook!r}")
    expected = options.read_expected(expect)
    check_probes((*(measurement.only or ()), *(measurement.without or ())))  # which no later look would mend
    last, told, waited, since = -1, "", "", monotonic()
    noted = set[str]()
    while True:
        try:
            with _once(noted):
                look = _look(source, out, step_column, data, measurement)
        except (OSError, ValueError) as error:
            if once:
                raise
            if str(error) != waited:
                waited = str(error)
                print(f"waiting: {waited}", file=sys.stderr)
        else:
            ended = look.last >= (look.end if until is None else until)
            if look.last > last:
                last, told, since = look.last, _tell(look, told, None if ended or once else every), monotonic()
                if alarm:
                    _alarm(source, words.alarms_in_words(alarms_in(look.folder, expected)), webhook)
            if ended or once:
                return
        if alarm and stall is not None and monotonic() - since > stall:
            _alarm(source, [f"no new step for {stall:g} seconds, the last one is {last}"], webhook)
        sleep(every)


def _alarm(source: str, lines: Sequence[str], webhook: str | None) -> None:
    """Print the alarms, if there are any, send them, and end."""
    if not lines:
        return
    for line in lines:
        print(f"alarm: {line}", flush=True)
    if webhook is not None:
        body = json.dumps({"source": source, "alarms": lines, "text": f"{source}: {'; '.join(lines)}"}).encode()
        request = urllib.request.Request(webhook, body, {"Content-Type": "application/json"})
        try:
            urllib.request.urlopen(request, timeout=30).close()
        except (OSError, ValueError) as reason:
            print(f"{webhook} did not take the alarm: {reason}", file=sys.stderr)
    raise Exit(ALARM)


@contextlib.contextmanager
def _once(noted: set[str]) -> Iterator[None]:
    """Show a warning of this look unless an earlier one had it, whatever the numbers in it, which grow with a log."""
    caught = list[warnings.WarningMessage]()
    try:
        with warnings.catch_warnings(record=True) as caught:
            yield
    finally:
        for each in caught:
            if (text := re.sub(r"\d+", "0", str(each.message))) not in noted:
                noted.add(text)
                warnings.showwarning(each.message, each.category, each.filename, each.lineno)


def _look(
    source: str, out: Path | None, step_column: str | None, data: options.DataOptions, measurement: options.Measurement
) -> _Look:
    """Measure the checkpoints that no earlier look has measured, or read the curves of a log again."""
    if not Path(source).exists():
        raise FileNotFoundError(f"there is no {source} yet")
    if (recorded := checkpoints.is_recorded(Path(source))) or checkpoints.is_log(source):
        runs = [source] if recorded else each_run([source], out, step_column)
        if len(runs) > 1:
            raise ValueError(f"{source} holds {len(runs)} runs: `stagewise report` shows several")
        folder = Path(runs[0])
        return _Look(folder, int(checkpoints.table_file(folder).outline["step"].max()))
    one_thread()
    opened = opened_source(source, data, out)
    list(measure_each([opened], measurement))
    end = float("inf") if opened.recipe is None else opened.recipe.plan.steps
    return _Look(opened.folder, max(opened.series.steps), end)


def _tell(look: _Look, told: str, refresh: float | None) -> str:
    """Write the page, and print the answer if it is another one than before; return the text that is told now."""
    page = stagewise.report(look.folder, workers=cores(), refresh=refresh)
    stages = stagewise.load_stages(look.folder)
    answer = "too few checkpoints to find transitions" if stages is None else " ".join(words.answer(stages))
    if not told:
        print(f"report: {page}")
    if answer != told:
        print(f"step {look.last}: {answer}", flush=True)
    return answer
