"""The linter of sentences names those that are long or lack a subject."""

from evidence import prose


def test_sentences_are_those_of_prose_lists_and_tables() -> None:
    text = '# Of heads\n\nOne `a b`. Two, see [three](x.md) "four."\nFive?\n\n'
    text += "- Six\n\n| Seven | Eight |\n\n```py\nOf\n```\n"
    assert [*prose.sentences(text)] == ["One Code.", 'Two, see [three] "four.', "Five?", "Six", "Seven", "Eight |"]


def test_a_dropped_noun_and_a_long_sentence_are_named_and_questions_are_not() -> None:
    long = f"It {'is ' * 30}."
    text = f"What is it? What it is.\n**Of** these.\n\n{long}\n"
    assert [*prose.faults(text)] == ["no subject: What it is.", "no subject: **Of** these.", f"32 words: {long}"]
