"""The attention viewers of the report: a slider over checkpoints, and circuitsvis at boundaries."""

import base64
import html
import importlib.util
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from stagewise.findings.stages import Stages
from stagewise.plain_text import plain_name
from stagewise.plot._step_axis import evenly, head_colours
from stagewise.plot.maps import patterns
from stagewise.reporting._html import packed_script
from stagewise.reporting._measured import Measured
from stagewise.table import head_label, heads_in
from stagewise.words._grammar import capital
from stagewise.words._times import at

MAPS = ("MeanPattern.attention",)

VIEWER_VALUES = 1_300_000
"""Attention values that the viewer holds, one byte each."""

SIDE = 32
"""Rows and columns of a map in the viewer; longer ones are shown in blocks."""

READ = 2**22
"""Attention values that are read from the table at once."""

STEPS = 24
"""Checkpoints that the viewer goes over at least, before heads are left out."""

BOUNDARIES = 5
"""Boundaries that circuitsvis shows beside the last checkpoint."""

CIRCUITSVIS_VALUES = 60_000
"""Attention values that are handed to circuitsvis, as text, in all its views together."""

DIGITS = 4
"""Digits of these values."""

LETTERS = {"tokens": 40, "heads": 20}
"""At most, of the name of each: circuitsvis writes a head's over its map."""


def viewer(measured: Measured, stages: Stages | None) -> str:
    """Return the viewer of the mean attention over training as HTML; its script is `report.js`.

    The table of what was measured holds the rows of the mean patterns, and no others.
    Values are rounded to 1/255. Data that the page cannot hold are left out, and the page says so: long maps are shown
    in blocks, then heads whose attention moved least are left out, then checkpoints, evenly.
    """
    rows = measured.table
    heads, everywhere = heads_in(rows), sorted(int(step) for step in rows["step"].unique())
    first = next(_maps(measured, everywhere[:1]))
    block = math.ceil(first.shape[-1] / SIDE)
    cells = _in_blocks(first, block)[0].size
    shown = min(len(heads), max(VIEWER_VALUES // (cells * min(STEPS, len(everywhere))), 1))
    steps = evenly(everywhere, max(VIEWER_VALUES // (cells * shown), 1))
    blocks = (_in_blocks(each, block).clip(0, 1) for each in _maps(measured, steps, max(READ // first.size, 1)))
    maps = np.stack([(part * 255).round().astype(np.uint8) for part in blocks])
    places = moved_most(maps, shown)
    colours = head_colours(rows)
    data = {
        "steps": steps,
        "stages": [stage_of(step, stages) for step in steps],
        "heads": [head_label(*heads[place]) for place in places],
        "layers": [heads[place][0] for place in places],
        "colours": [colours[heads[place]] for place in places],
        "size": maps.shape[-2:],
        "block": block,
        "values": base64.b64encode(maps[:, places].tobytes()).decode(),
    }
    note = _left_out(len(everywhere) - len(steps), len(everywhere), shown, len(heads), block)
    return f'{note}<div id="viewer" tabindex="0"></div>{packed_script("viewer-data", json.dumps(data))}'


def _left_out(steps: int, all_steps: int, shown: int, heads: int, block: int) -> str:
    parts = []
    if block > 1:
        parts.append(
            f"Maps are shown in blocks of {block} by {block} positions: what a query attends to in {block} keys "
            f"together, on average over {block} queries."
        )
    if shown < heads:
        parts.append(f"Shown: the {shown} of {heads} heads whose attention moved most.")
    if steps:
        parts.append(f"{steps} of {all_steps} checkpoints are left out to keep this page small.")
    return f"<p>{' '.join(parts)}</p>" if parts else ""


def _maps(measured: Measured, steps: Sequence[int], at_once: int = 1) -> Iterator[np.ndarray]:
    """Yield the maps of all heads at each step, [head, query, key]; so many steps are read at once."""
    for start in range(0, len(steps), at_once):
        some = steps[start : start + at_once]
        table = measured.only(MAPS, some, ["map"]).table
        yield from (patterns(table, step, None) for step in some)


def _in_blocks(maps: np.ndarray, block: int) -> np.ndarray:
    """Return the attention on a block of keys, on average over a block of queries; the last block may be shorter."""
    starts = np.arange(0, maps.shape[-1], block)
    sums = np.add.reduceat(np.add.reduceat(maps, starts, axis=-1), starts, axis=-2)
    sizes = np.diff([*starts, maps.shape[-1]])
    blocks: np.ndarray = sums / sizes[:, None]
    return blocks


def moved_most(maps: np.ndarray, most: int) -> list[int]:
    """Return the places of the heads whose maps [step, head, query, key] moved most from the first, in order."""
    moved = np.abs(maps - maps[:1].astype(float)).mean((-2, -1)).max(0)
    return sorted(np.argsort(-moved, kind="stable")[:most].tolist())


def cursor_over(steps: Sequence[int]) -> dict[str, list[Any]]:
    """Return the steps of the cursor, and the name of each."""
    return {"steps": [*steps], "names": [at(step) for step in steps]}


def stage_of(step: int, stages: Stages | None) -> str:
    """Name the stage that a step lies in, as "stage 2"; nothing where there is one only."""
    if stages is None or len(stages.table) < 2:
        return ""
    number = int(stages.table.loc[stages.table["start"] <= step, "stage"].max())
    return f"stage {number}"


class _AttentionView(NamedTuple):
    """A circuitsvis view: tokens or positions, and at each step the attention [head][query][key]."""

    tokens: list[str]
    heads: list[str]
    attention: Mapping[int, list[Any]]
    note: str


def circuitsvis_view(measured: Measured) -> tuple[str, str]:
    """Return circuitsvis's views at each boundary of stages and at the end: places, and what fills them, without
    network.

    They show one sequence with its tokens as text where one was written for these boundaries, else mean attention by
    position; of many heads those whose attention moved most, and of many boundaries the first ones.
    """
    steps = sorted(int(step) for step in measured.table["step"].unique())
    chosen = boundary_checkpoints(steps, measured.stages)
    view = _of_example(measured.example, chosen) or _of_means(measured, steps, chosen)
    if not view.heads:
        return view.note, ""
    *boundaries, end = chosen
    views = [
        *(_view(view, step, f"circuitsvis-{i}", f"the end of stage {i + 1}") for i, step in enumerate(boundaries)),
        _view(view, end, "circuitsvis", "the end", is_open=True),
    ]
    places, data = zip(*views, strict=True)
    return view.note + "".join(places), packed_script("circuitsvis-library", _circuitsvis_script()) + "".join(data)


def _view(view: _AttentionView, step: int, name: str, which: str, *, is_open: bool = False) -> tuple[str, str]:
    """Return the place of circuitsvis's view of a step, and what it shows there; the last one is open."""
    arguments = {"attention": view.attention[step], "attentionHeadNames": view.heads, "tokens": view.tokens}
    summary = f"<summary>{capital(at(step))}, {which}</summary>"
    place = f'<details class="circuitsvis"{" open" if is_open else ""}>{summary}<div id="{name}"></div></details>'
    return place, packed_script(f"{name}-data", json.dumps(arguments))


def _of_example(example: Mapping[str, Any] | None, chosen: Sequence[int]) -> _AttentionView | None:
    """Return the record of one sequence; None where it is of other checkpoints than these."""
    if example is None or [str(step) for step in chosen] != list(example.get("attention", ())):
        return None
    attention = {step: example["attention"][str(step)] for step in chosen}
    tokens, heads = ([plain_name(str(each), longest) for each in example[name]] for name, longest in LETTERS.items())
    return _AttentionView(tokens, heads, attention, "<p>Attention in one sequence of the probe batch.</p>")


def _of_means(measured: Measured, steps: Sequence[int], chosen: Sequence[int]) -> _AttentionView:
    """Return the mean attention at some steps, by position."""
    heads = heads_in(measured.table)
    ends = np.stack([*_maps(measured, [steps[0], steps[-1]])])
    size = ends[0, 0].size
    places = moved_most(ends, CIRCUITSVIS_VALUES // (size * len(chosen)))
    if not places:
        note = f"<p>A map holds {size:,} values: too many to show here with circuitsvis.</p>"
        return _AttentionView([], [], {}, note)
    left_out = "" if len(places) == len(heads) else f" The {len(places)} of {len(heads)} heads that moved most."
    attention = {
        step: maps[places].astype(float).round(DIGITS).tolist()
        for step, maps in zip(chosen, _maps(measured, chosen), strict=True)
    }
    positions = [str(position) for position in range(ends.shape[-1])]
    names = [head_label(*heads[place]) for place in places]
    return _AttentionView(positions, names, attention, f"<p>Mean attention, by position.{left_out}</p>")


def boundary_checkpoints(steps: Sequence[int], stages: Stages | None) -> list[int]:
    """Return the checkpoints nearest to the boundaries of stages, each once, and the last one."""
    starts = [] if stages is None else stages.table["start"].tolist()[1:][:BOUNDARIES]
    nearest = [min(steps, key=lambda step: abs(step - start)) for start in starts]
    return list(dict.fromkeys([*nearest, steps[-1]]))


def _circuitsvis_script() -> str:
    # Not imported: circuitsvis imports torch, and its script is a file beside its code.
    package = importlib.util.find_spec("circuitsvis")
    if package is None or package.origin is None:
        raise ModuleNotFoundError(
            "circuitsvis is not installed, whose script shows attention in the report: `pip install circuitsvis`"
        )
    library = (Path(package.origin).parent / "dist" / "cdn" / "iife.js").read_text(encoding="utf8")
    return library.split("//# sourceMappingURL")[0]


def json_script(identifier: str, data: object) -> str:
    """Return data as a script element of JSON that no text in it can end."""
    text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    return f'<script type="application/json" id="{html.escape(identifier)}">{text}</script>'
