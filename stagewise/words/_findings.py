"""Each kind of finding in sentences."""

from stagewise.findings import Stages
from stagewise.findings.batch_familiarity import BatchFamiliarity
from stagewise.findings.delays import Comparison
from stagewise.findings.lineage import Lineage
from stagewise.findings.replicates import Replicates
from stagewise.words import _delays, seeds, stages
from stagewise.words._answer import answer
from stagewise.words._familiarity import familiarity
from stagewise.words._times import counted_in

Finding = Stages | Lineage | Replicates | Comparison | BatchFamiliarity


def in_words(finding: Finding) -> str:
    """Return a finding in sentences, one a line, with its times in steps or tokens: as `print` shows it.

    >>> from stagewise import find_stages, read_log
    >>> few = find_stages(read_log({"step": range(4), "accuracy": [0.1, 0.1, 0.9, 0.9]}))
    >>> in_words(few).partition(",")[0]
    'no stages can be found: with 4 checkpoints no onset can be distinguished from noise'
    """
    with counted_in(finding.axis):
        return "\n".join(_lines(finding))


def _lines(finding: Finding) -> list[str]:
    match finding:
        case Stages():
            first = [] if finding.unknown else [" ".join(answer(finding))]
            return [*first, *stages.stages(finding)]
        case Lineage():
            return [*stages.kinds(finding.kinds), *stages.events(finding.events, finding.kinds)]
        case Replicates():
            names = seeds.names(finding)
            of_events = seeds.events(finding.events, len(finding.runs), names)
            return [*of_events, *seeds.order(finding.order, names)]
        case Comparison():
            return _delays.comparison(finding)
        case BatchFamiliarity():
            return [familiarity(finding)]
