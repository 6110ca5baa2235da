"""Colours are told apart, and text in them is readable."""

import numpy as np
import pandas as pd

from stagewise.plot._colours import head_colours, ink, ordered_colours


def test_text_in_any_colour_is_readable_on_white() -> None:
    def luminance(colour: tuple[float, float, float]) -> float:
        linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in colour]
        return float(np.dot([0.2126, 0.7152, 0.0722], linear))

    for colour in [*ordered_colours(range(5)).values(), *head_colours_of(8)]:
        assert 1.05 / (luminance(ink(colour)) + 0.05) > 4.4


def head_colours_of(n: int) -> list[str]:
    return list(head_colours(pd.DataFrame({"layer": 0, "head": range(n)})).values())


def test_relations_and_their_references_have_one_colour() -> None:
    relations, references = (ordered_colours(names) for names in (["I(1)", "I(2)"], ["A*_1", "A*_1:2"]))
    assert list(relations.values()) == list(references.values())
