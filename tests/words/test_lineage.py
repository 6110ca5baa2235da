"""The lineage in words: one head or several, and nothing where nothing happened."""

import pandas as pd

from stagewise.words import _lineage as lineage_words

NAMES = {1: "diffuse", 2: "I(1)"}


def test_verbs_agree_with_the_number_of_heads() -> None:
    row = {"event": "birth", "before": "1", "after": "2"}
    one = lineage_words.event({**row, "heads": "L0H0"}, NAMES)
    two = lineage_words.event({**row, "heads": "L0H0 L0H1"}, NAMES)
    assert one == "L0H0 leaves the common pattern: kind 2 (I(1)) is born"
    assert two == "L0H0, L0H1 leave the common pattern: kind 2 (I(1)) is born"


def test_a_run_without_events_says_so() -> None:
    assert lineage_words.events(pd.DataFrame(), pd.DataFrame()) == ["no kind is born, splits, merges, changes or dies"]
