"""The section on a behaviour: its curve first, its heads over steps, and the order of its parts."""

import html

from stagewise import plot
from stagewise.findings.behaviour import find_behaviour
from stagewise.plot.strips import effects
from stagewise.reporting._figure import Plot
from stagewise.reporting._html import wording
from stagewise.reporting._measured import Measured
from stagewise.reporting._section import Blocks, Section
from stagewise.table import Role, select, with_role
from stagewise.words.behaviour import behaviour as in_words


def _behaviour(measured: Measured) -> Blocks:
    """Return the curve, what knows less, the heads' effects, and the order in words."""
    table, stages = measured.table, measured.stages
    if not (whole := with_role(table, Role.BEHAVIOUR)):
        return []
    found = find_behaviour(table, None if stages is None else stages.onsets)
    lines = in_words(found, measured.certificate) if found is not None else []
    blocks: Blocks = ["".join(f"<p>{html.escape(line)}</p>" for line in lines)]
    captions = {whole[0]: "curve", (whole[0][0], "baseline_difference"): "baselines"}
    for number, (pair, words) in enumerate(captions.items(), start=1):
        curve = plot.quantity(table, *pair, stages)
        blocks.append(Plot(f"behaviour-{number}", {"": curve}, select(table, *pair), wording("behaviour", words)))
    for number, pair in enumerate(with_role(table, Role.EFFECT, Role.DIRECT_EFFECT), start=1):
        figure = effects(table, *pair, stages)
        blocks.append(
            Plot(f"behaviour-heads-{number}", {"": figure}, select(table, *pair), wording("behaviour", "heads"))
        )
    return blocks


BEHAVIOUR = Section(
    "behaviour",
    "The behaviour, and the heads that carry it",
    _behaviour,
    (
        "BehaviourCurve.difference",
        "BehaviourCurve.baseline_difference",
        "BehaviourHeads.effect",
        "BehaviourHeads.direct",
    ),
    applies=False,
    reads=("BehaviourCurve", "BehaviourHeads", "AttentionTo"),
    folded=False,
)
