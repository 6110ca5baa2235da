"""The attention viewer of the report: circuitsvis at the checkpoint of the page's cursor."""

import importlib.util
import itertools
import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from stagewise.findings import Stages
from stagewise.plain_text import plain_name
from stagewise.plot.axes import evenly
from stagewise.plot.maps import patterns
from stagewise.reporting._html import packed_script
from stagewise.reporting._measured import Measured
from stagewise.table import head_label, heads_in
from stagewise.words import count

MAPS = ("MeanPattern.attention",)

VIEWER_VALUES = 1_300_000
"""Attention values of all checkpoints that the page holds, one byte each."""

SIDE = 32
"""Rows and columns of a mean map in the viewer; longer ones are shown in blocks."""

HEADS = 24
"""Heads that circuitsvis draws at once, at most."""

READ = 2**22
"""Attention values that are read from the table at once."""

STEPS = 24
"""Checkpoints that the viewer goes over at least, before heads are left out."""

BOUNDARIES = 5
"""Boundaries at which attention in one sequence is shown, beside the last checkpoint."""

EXAMPLE_VALUES = 60_000
"""Attention values that the file of one sequence holds, as text."""

_View = dict[str, Any]
"""Name, steps, tokens, heads and values of a view, as `report.js` reads them."""

TOKEN_LETTERS, HEAD_LETTERS = 40, 20
"""At most, of the name of each: circuitsvis writes a head's over its map."""


def viewer(measured: Measured) -> str:
    """Return circuitsvis's place in the page with its script and data, for `report.js` to fill without network.

    It shows the mean attention at every checkpoint; and one sequence with its tokens as text, at the checkpoints for
    which it was written. Values are rounded to 1/255. The table holds the rows of the mean patterns, and no others.
    """
    note, means = _of_means(measured)
    views = [means]
    if (example := measured.example) is not None:  # as `write_example` wrote it
        heads = [plain_name(str(each), HEAD_LETTERS) for each in example["heads"]]
        parts = {"one sequence of the probe batch": example, "the same one, corrupted": example.get("corrupted")}
        for name, part in parts.items():
            if part is not None:
                tokens = [plain_name(str(each), TOKEN_LETTERS) for each in part["tokens"]]
                attention = part["attention"]
                views.append(_view(name, [*map(int, attention)], tokens, heads, np.array([*attention.values()])))
    values = [view.pop("values") for view in views]
    for view, before in zip(views, itertools.accumulate(map(len, values), initial=0), strict=False):
        view["start"] = before
    data = {"viewer-data": json.dumps(views).encode(), "viewer-values": b"".join(values)}
    scripts = {"circuitsvis-library": _library().encode(), **data}
    return f'{note}<div id="viewer"></div>{"".join(packed_script(*each) for each in scripts.items())}'


def _of_means(measured: Measured) -> tuple[str, _View]:
    """Return the mean attention by position, and what of it is left out.

    Long maps are in blocks, then heads whose attention moved least are left out, then checkpoints, evenly.
    """
    heads, everywhere = heads_in(measured.table), sorted(int(step) for step in measured.table["step"].unique())
    first = next(_maps(measured, everywhere[:1]))
    block = math.ceil(first.shape[-1] / SIDE)
    cells = _in_blocks(first, block)[0].size
    shown = min(len(heads), HEADS, max(VIEWER_VALUES // (cells * min(STEPS, len(everywhere))), 1))
    steps = evenly(everywhere, max(VIEWER_VALUES // (cells * shown), 1))
    blocks = (_in_blocks(each, block) for each in _maps(measured, steps, max(READ // first.size, 1)))
    maps = np.stack([_in_bytes(part) for part in blocks])
    places = moved_most(maps, shown)
    starts = range(0, first.shape[-1], block)
    positions = [f"{start}-{start + block - 1}" if block > 1 else str(start) for start in starts]
    names = [head_label(*heads[place]) for place in places]
    note = _left_out(len(everywhere) - len(steps), len(everywhere), shown, len(heads), block)
    return note, _view("mean over the probe batch", steps, positions, names, maps[:, places])


def _view(name: str, steps: Sequence[int], tokens: Sequence[str], heads: Sequence[str], maps: np.ndarray) -> _View:
    """Return a view as `report.js` reads it; its maps [step, head, query, key] are bytes, of a cell one step after the
    other: so they take a sixth less.
    """
    values = np.moveaxis(maps if maps.dtype == np.uint8 else _in_bytes(maps), 0, -1).tobytes()
    name = f"{name}, {count(len(steps), 'checkpoint')}"
    return {"name": name, "steps": [*steps], "tokens": [*tokens], "heads": [*heads], "values": values}


def _in_bytes(maps: np.ndarray) -> np.ndarray:
    return (maps.clip(0, 1) * 255).round().astype(np.uint8)


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


def boundary_checkpoints(steps: Sequence[int], stages: Stages | None) -> list[int]:
    """Return the checkpoints nearest to the boundaries of stages, each once, and the last one."""
    starts = [] if stages is None else stages.table["start"].tolist()[1:][:BOUNDARIES]
    nearest = [min(steps, key=lambda step: abs(step - start)) for start in starts]
    return list(dict.fromkeys([*nearest, steps[-1]]))


def _library() -> str:
    # Not imported: circuitsvis imports torch, and its script is a file beside its code.
    package = importlib.util.find_spec("circuitsvis")
    if package is None or package.origin is None:
        raise ModuleNotFoundError(
            "circuitsvis is not installed, whose script shows attention in the report: `pip install circuitsvis`"
        )
    library = (Path(package.origin).parent / "dist" / "cdn" / "iife.js").read_text(encoding="utf8")
    return library.split("//# sourceMappingURL")[0]
