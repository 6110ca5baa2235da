"""Every kind of finding is printed by the words that the package has for it."""

from stagewise import answer, in_words
from stagewise.findings import Stages
from stagewise.findings.batch_familiarity import BatchFamiliarity, Familiarity
from stagewise.token_axis import TokenAxis
from stagewise.words._findings import familiarity
from stagewise.words.stages import stages as lines


def test_stages_are_printed_as_their_answer_and_a_line_a_stage(stages_of_both: Stages) -> None:
    first, *others = str(stages_of_both).splitlines()
    assert first == " ".join(answer(stages_of_both))
    assert others == lines(stages_of_both)


def test_stages_counted_in_tokens_are_told_in_tokens(stages_of_both: Stages) -> None:
    steps = stages_of_both.table["end"].to_numpy(float)
    counted = stages_of_both.counted(TokenAxis(steps, 1000 * steps))
    assert " tokens" in in_words(counted)
    assert " step " not in in_words(counted)


def test_the_familiarity_of_a_batch_is_its_sentence() -> None:
    known = BatchFamiliarity(Familiarity.HOME, 4.0, 2.0, 4.2, 9)
    assert str(known) == familiarity(known)
