"""One series: saved by its tool, loaded by its tool, opened here, and the losses of both compared."""

import dataclasses
import io
import tempfile
import traceback
import warnings
from contextlib import redirect_stderr, redirect_stdout
from enum import StrEnum
from pathlib import Path

import stagewise
from evidence.saved_series.models import loss, tokens
from evidence.saved_series.way import Way
from stagewise.probes import Loss

TOLERANCE = 1e-5
"""Nats: both are float32 sums in another order; wrong weights differ by hundreds of times more."""

LINES = (ValueError, TypeError, OSError, FloatingPointError)
"""Errors that the commands print as one line."""


class Verdict(StrEnum):
    """What became of a series: the first two are right, in the order of the page."""

    EQUAL = "equal"
    REFUSED = "refused"
    DIFFERENT = "different"
    TRACEBACK = "traceback"


@dataclasses.dataclass(frozen=True)
class Row:
    """A way, its tool, the model, the verdict, and the greatest difference or the line of the refusal."""

    way: str
    tool: str
    family: str
    verdict: str
    said: str


def tried(way: Way, family: str) -> Row:
    """Save a series and compare its losses.

    Raises:
        RuntimeError: the tool itself gives every step the same loss: nothing could be told apart.
    """
    with tempfile.TemporaryDirectory() as name, warnings.catch_warnings(), redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        folder = Path(name)
        with redirect_stdout(io.StringIO()):
            way.write(way.make(family), folder)
            expected = {step: loss(way.reload(folder, step, way.make(family))) for step in way.steps}
        if len({round(each, 4) for each in expected.values()}) < len(expected):
            raise RuntimeError(f"{way.tool}, {way.name}, {family}: the steps' own losses are equal, {expected}")
        verdict, said = opened(way, family, folder, expected)
    return Row(way.name, way.tool, family, verdict, said.replace(f"{name}/", "").replace(name, "FOLDER"))


def opened(way: Way, family: str, folder: Path, expected: dict[int, float]) -> tuple[Verdict, str]:
    """Open a series, measure its loss, and return the verdict and what there is to say."""
    place = folder / way.place
    try:
        series = stagewise.open_series(place, **way.options(folder, way.make(family)))
        table = stagewise.measure(series, [Loss()], stagewise.Batch.from_tokens(tokens()), progress=False)
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        here = Path(last.filename).is_relative_to(Path(stagewise.__file__).parent)
        in_a_line = isinstance(error, LINES) and here and "\n" not in str(error)
        return (Verdict.REFUSED if in_a_line else Verdict.TRACEBACK), f"{error}" if in_a_line else repr(error)
    rows = table[table["quantity"] == "cross_entropy"]
    losses = dict(zip(rows["step"].astype(int), rows["value"].astype(float), strict=True))
    if losses.keys() != expected.keys():
        return Verdict.DIFFERENT, f"steps {[*losses]}, saved were {[*expected]}"
    worst = max(abs(losses[step] - expected[step]) for step in expected)
    ok = worst <= TOLERANCE  # a difference that is nan is none that is small
    return (Verdict.EQUAL if ok else Verdict.DIFFERENT), f"{worst:.1g}"
