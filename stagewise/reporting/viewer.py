"""The attention viewers of the report: a slider over all checkpoints, and circuitsvis on the last one."""

import base64
import html
import importlib.resources
import json
import re

import numpy as np
import pandas as pd

from stagewise.detection.stages import Stages
from stagewise.plot.colours import head_colours
from stagewise.plot.maps import patterns
from stagewise.table import head_label, heads_in, select

VIEWER_VALUES = 1_500_000
"""Attention values that the viewer holds, one byte each."""

CIRCUITSVIS_VALUES = 60_000
"""Attention values that are handed to circuitsvis, as text."""


def viewer(table: pd.DataFrame, stages: Stages | None) -> str:
    """Return the viewer of every checkpoint's mean attention as HTML; its script is `report.js`.

    Values are rounded to 1/255. Checkpoints are left out, evenly, if there are more than the page can hold.
    """
    rows = select(table, "MeanPattern", "attention")
    everywhere = sorted(int(step) for step in rows["step"].unique())
    values = len(rows) // len(everywhere)
    if values > VIEWER_VALUES:
        return f"<p>The maps of one checkpoint hold {values:,} values: too many for a viewer in this page.</p>"
    steps = _thinned(everywhere, VIEWER_VALUES // values)
    heads = heads_in(rows)
    layers = sorted({layer for layer, _ in heads})
    maps = np.stack([np.concatenate([patterns(rows, step, layer) for layer in layers]) for step in steps])
    packed = base64.b64encode((maps.clip(0, 1) * 255).round().astype(np.uint8).tobytes()).decode()
    data = {
        "steps": steps,
        "stages": [_stage_of(step, stages) for step in steps],
        "heads": [head_label(*head) for head in heads],
        "layers": [layer for layer, _ in heads],
        "colours": list(head_colours(table).values()),
        "size": maps.shape[-2:],
        "values": packed,
    }
    left_out = len(everywhere) - len(steps)
    note = (
        f"<p>{left_out} of {len(everywhere)} checkpoints are left out to keep this page small.</p>" if left_out else ""
    )
    return f'{note}<div id="viewer" tabindex="0"></div>{json_script("viewer-data", data)}'


def _thinned(steps: list[int], most: int) -> list[int]:
    places = np.linspace(0, len(steps) - 1, min(most, len(steps))).round().astype(int)
    return [steps[index] for index in places]


def _stage_of(step: int, stages: Stages | None) -> str:
    if stages is None or len(stages.table) < 2:
        return ""
    number = int(stages.table.loc[stages.table["start"] <= step, "stage"].max())
    return f"stage {number}"


def circuitsvis_view(table: pd.DataFrame) -> tuple[str, str]:
    """Return circuitsvis's view of the last mean attention: its place, and the script that fills it.

    The tokens are the positions. The script is the package's own, whole: it works without a network.
    """
    # circuitsvis imports torch, which costs seconds: only a report pays them.
    from circuitsvis.attention import attention_heads

    rows = select(table, "MeanPattern", "attention")
    heads = heads_in(rows)
    step = int(rows["step"].max())
    layers = sorted({layer for layer, _ in heads})
    maps = np.concatenate([patterns(rows, step, layer) for layer in layers])
    if maps.size > CIRCUITSVIS_VALUES or maps.shape[1] != maps.shape[2]:
        return f"<p>The maps hold {maps.size:,} values: too many to show here with circuitsvis.</p>", ""
    rendered = attention_heads(
        maps.round(4).tolist(),
        [str(position) for position in range(maps.shape[-1])],
        [head_label(*head) for head in heads],
    )
    match = re.search(r'render\(\s*"[^"]+",\s*(\w+),\s*(\{.*\})\s*\)\s*</script>', rendered.cdn_src, re.DOTALL)
    if match is None:
        raise ValueError("circuitsvis wrote its page in a way that is not known here; tested with circuitsvis 1.43")
    library = (importlib.resources.files("circuitsvis") / "dist/cdn/iife.js").read_text(encoding="utf8")
    library = library.split("//# sourceMappingURL")[0].replace("</script", "<\\/script")
    component, arguments = match[1], match[2].replace("<", "\\u003c")
    call = f'CircuitsVis.render("circuitsvis", CircuitsVis.{component}, {arguments});'
    return (
        f'<p>Step {step}.</p><div id="circuitsvis"></div>',
        f"<script>{library}</script><script>{call}</script>",
    )


def json_script(identifier: str, data: object) -> str:
    """Return data as a script element of JSON that no text in it can end."""
    text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    return f'<script type="application/json" id="{html.escape(identifier)}">{text}</script>'
