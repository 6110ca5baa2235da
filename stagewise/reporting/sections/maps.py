"""The sections on attention maps at chosen checkpoints, and on how far back a model reads."""

import numpy as np
import pandas as pd

from stagewise import plot
from stagewise.findings import Stages
from stagewise.plot.axes import head_colours
from stagewise.plot.maps import patterns
from stagewise.reporting._figure import Plot
from stagewise.reporting._html import wording
from stagewise.reporting._measured import Measured
from stagewise.reporting._section import PANELS, Blocks, Section
from stagewise.reporting._viewer import MAPS as SHOWN
from stagewise.reporting._viewer import viewer
from stagewise.table import head_label, heads_in, select
from stagewise.words import at


def _maps(measured: Measured) -> Blocks:
    """Return a map a layer and step, with the relations outlined where they lie."""
    steps = _steps(measured.table, measured.stages)
    rows = measured.only(SHOWN, steps, ["map"]).table
    layers = sorted({layer for layer, _ in heads_in(rows)})
    everything = [(layer, step) for layer in layers for step in steps]
    size = patterns(rows, steps[0], layers[0]).shape[1:]
    relations = {name: mask for name, mask in measured.relations.items() if mask.shape == size}
    # The first queries may lack what the others read; where most are not scored, they do what the last ones need.
    first_query = measured.first_query if relations and 2 * measured.first_query <= size[0] else 0
    panels = {
        at(step) if len(layers) == 1 else f"layer {layer} {at(step)}": plot.attention_map(
            rows, step, layer, relations, first_query
        )
        for layer, step in everything[:PANELS]
    }
    colours = list(head_colours(rows).items())[:PANELS]
    swatches = " ".join(wording("maps", "swatch", colour=colour, head=head_label(*head)) for head, colour in colours)
    caption = f"{wording('maps', 'maps', *(['outlines'] if relations else []))} {swatches}"
    if len(panels) < len(everything):
        caption += f" Drawn: {len(panels)} of {len(everything)} maps; the viewer below has them all."
    return [Plot("attention-maps", panels, rows, caption)]


def _steps(rows: pd.DataFrame, stages: Stages | None) -> list[int]:
    checkpoints = np.array(sorted(rows["step"].unique()))
    boundaries = [] if stages is None else stages.table["start"].tolist()[1:]
    if not boundaries:
        boundaries = [checkpoints[round(part * (len(checkpoints) - 1))] for part in (0.25, 0.5)]
    steps = [checkpoints[0], *boundaries, checkpoints[-1]]
    return list(dict.fromkeys(int(checkpoints[np.abs(checkpoints - step).argmin()]) for step in steps))


def _viewer(measured: Measured) -> Blocks:
    return [wording("maps", "viewer"), viewer(measured)]


MAPS = Section("maps", "Attention maps", _maps, SHOWN, folded=False)
CHECKPOINTS = Section("checkpoints", "Attention at every checkpoint", _viewer, SHOWN, applies=False, folded=False)


def _restricted(measured: Measured) -> Blocks:
    rows = select(measured.table, "RestrictedContextKL", "kl")
    axes = plot.restricted_context(measured.table, measured.stages)
    return [Plot("restricted-context", {"": axes}, rows, wording("context", "restricted"))]


def _trained(measured: Measured) -> Blocks:
    trained = measured.families()["trained"]
    if not trained:
        return []
    rows = select(measured.table, "KLToReference", "kl")
    rows, axes = rows[rows["reference"].isin(trained)], plot.kl_curves(measured.table, trained, measured.stages)
    return [Plot("trained-restricted", {"": axes}, rows, wording("context", "trained"))]


CONTEXT = Section("context", "How much context is used", _restricted, ("RestrictedContextKL.kl",))
TRAINED_CONTEXT = Section(
    "trained-context", "Beside models trained on less context", _trained, ("KLToReference.kl",), applies=False
)
