"""The first words of a report: its headline, and the answer."""

from stagewise.findings.batch_familiarity import BatchFamiliarity
from stagewise.findings.stages import Stages
from stagewise.words.answer import headline as of_transitions
from stagewise.words.grammar import capital
from stagewise.words.stages import NO_STAGES


def headline(stages: Stages | None, familiarity: BatchFamiliarity | None = None) -> str:
    """Say in a few words how many transitions there are, or why that means nothing."""
    if familiarity is not None and familiarity.foreign:
        return "The probe batch is foreign to this model"
    if stages is None:
        return "Measured over training"
    if stages.unknown:
        return "Too few checkpoints to find stages"
    return of_transitions(stages.table.iloc[1:].to_dict("records"))


def finding(stages: Stages | None, familiarity: BatchFamiliarity | None = None) -> str:
    """Answer: how many transitions, when, what the model could do before and after, which heads did it."""
    if familiarity is not None and familiarity.foreign:
        return str(familiarity)
    sentence = f"{capital(NO_STAGES)}. Their curves are below." if stages is None else " ".join(stages.answer)
    return f"{sentence} {familiarity}" if familiarity is not None and familiarity.unknown else sentence
