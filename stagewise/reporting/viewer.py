"""The attention viewers of the report: a slider over checkpoints, and circuitsvis on the last one."""

import base64
import html
import importlib.util
import json
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from stagewise.detection.stages import Stages
from stagewise.plot.colours import head_colours
from stagewise.plot.maps import patterns
from stagewise.reporting.measured import Measured
from stagewise.table import Head, head_label, heads_in

MAPS = ("MeanPattern.attention",)

VIEWER_VALUES = 1_500_000
"""Attention values that the viewer holds, one byte each."""

SIDE = 32
"""Rows and columns of a map in the viewer; longer ones are shown in blocks."""

STEPS = 24
"""Checkpoints that the viewer goes over at least, before heads are left out."""

CIRCUITSVIS_VALUES = 60_000
"""Attention values that are handed to circuitsvis, as text."""


def viewer(measured: Measured, stages: Stages | None) -> str:
    """Return the viewer of the mean attention over training as HTML; its script is `report.js`.

    Values are rounded to 1/255. What the page cannot hold is left out, and the page says so: long maps are shown in
    blocks, then heads whose attention moved least are left out, then checkpoints, evenly.
    """
    rows = measured.only(MAPS).table
    heads, everywhere = heads_in(rows), sorted(int(step) for step in rows["step"].unique())
    first = _maps(measured, everywhere[0], heads)
    block = math.ceil(first.shape[-1] / SIDE)
    cells = _in_blocks(first, block)[0].size
    shown = min(len(heads), max(VIEWER_VALUES // (cells * min(STEPS, len(everywhere))), 1))
    steps = _thinned(everywhere, max(VIEWER_VALUES // (cells * shown), 1))
    maps = np.stack([_in_bytes(_in_blocks(_maps(measured, step, heads), block)) for step in steps])
    places = _moved_most(maps, shown)
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
    return f'{note}<div id="viewer" tabindex="0"></div>{json_script("viewer-data", data)}'


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


def _maps(measured: Measured, step: int, heads: Sequence[Head]) -> np.ndarray:
    """Return the maps of all heads at one step, [head, query, key]."""
    rows = measured.only(MAPS, [step], ["map"]).table
    return np.concatenate([patterns(rows, step, layer) for layer in sorted({layer for layer, _ in heads})])


def _in_blocks(maps: np.ndarray, block: int) -> np.ndarray:
    """Return what a block of keys holds, on average over a block of queries; the last block may be a part of one."""
    starts = np.arange(0, maps.shape[-1], block)
    sums = np.add.reduceat(np.add.reduceat(maps, starts, axis=-1), starts, axis=-2)
    sizes = np.diff([*starts, maps.shape[-1]])
    blocks: np.ndarray = sums / sizes[:, None]
    return blocks


def _in_bytes(maps: np.ndarray) -> np.ndarray:
    return np.asarray((maps.clip(0, 1) * 255).round().astype(np.uint8))


def _moved_most(maps: np.ndarray, most: int) -> list[int]:
    """Return the places of the heads whose maps [step, head, query, key] moved most from the first, in order."""
    moved = np.abs(maps - maps[:1].astype(float)).mean((-2, -1)).max(0)
    return sorted(np.argsort(-moved, kind="stable")[:most].tolist())


def _thinned(steps: list[int], most: int) -> list[int]:
    places = np.linspace(0, len(steps) - 1, min(most, len(steps))).round().astype(int)
    return [steps[index] for index in places]


def stage_of(step: int, stages: Stages | None) -> str:
    """Name the stage that a step lies in, as "stage 2"; nothing where there is one only."""
    if stages is None or len(stages.table) < 2:
        return ""
    number = int(stages.table.loc[stages.table["start"] <= step, "stage"].max())
    return f"stage {number}"


def circuitsvis_view(measured: Measured) -> tuple[str, str]:
    """Return circuitsvis's view of the last mean attention: its place, and the script that fills it.

    The tokens are the positions. The script is the package's own, whole: it works without a network. Of many heads
    those are shown whose attention moved most.
    """
    rows = measured.only(MAPS).table
    heads, first, last = heads_in(rows), int(rows["step"].min()), int(rows["step"].max())
    maps = np.stack([_maps(measured, step, heads) for step in (first, last)])
    places = _moved_most(maps, CIRCUITSVIS_VALUES // maps[0, 0].size)
    if not places:
        return f"<p>A map holds {maps[0, 0].size:,} values: too many to show here with circuitsvis.</p>", ""
    chosen = "" if len(places) == len(heads) else f" The {len(places)} of {len(heads)} heads that moved most."
    arguments = {
        "attention": maps[-1, places].astype(float).round(4).tolist(),
        "attentionHeadNames": [head_label(*heads[place]) for place in places],
        "tokens": [str(position) for position in range(maps.shape[-1])],
    }
    call = f'CircuitsVis.render("circuitsvis", CircuitsVis.AttentionHeads, {json.dumps(arguments)});'
    return (
        f'<p>Step {last}.{chosen}</p><div id="circuitsvis"></div>',
        f"<script>{_circuitsvis_script()}</script><script>{call}</script>",
    )


def _circuitsvis_script() -> str:
    # Not imported: circuitsvis imports torch, and its script is a file beside its code.
    package = importlib.util.find_spec("circuitsvis")
    if package is None or package.origin is None:
        raise ModuleNotFoundError("circuitsvis is not installed, whose script shows the last checkpoint in the report")
    library = (Path(package.origin).parent / "dist" / "cdn" / "iife.js").read_text(encoding="utf8")
    return library.split("//# sourceMappingURL")[0].replace("</script", "<\\/script")


def json_script(identifier: str, data: object) -> str:
    """Return data as a script element of JSON that no text in it can end."""
    text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    return f'<script type="application/json" id="{html.escape(identifier)}">{text}</script>'
