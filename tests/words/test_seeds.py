"""Findings over seeds are said as they are, undecided ones too."""

import pandas as pd

from stagewise.words import seeds as seed_words


def test_an_event_says_in_how_many_seeds_and_when() -> None:
    row = {
        "event": 0,
        "seeds": 4,
        "recurs": True,
        "step": 120.4,
        "lo": 100.0,
        "hi": 140.0,
        "new_lo": 60.0,
        "new_hi": 200.0,
        "told": True,
    }
    rows = pd.DataFrame([row, {**row, "seeds": 1, "recurs": False}])
    assert seed_words.events(rows, 5, ["loss falls"]) == [
        "loss falls: in 4 of 5 seeds, at step 120 [100, 140]; another seed: 60 to 200",
        "and 1 more in fewer than half of the seeds",
    ]


def test_of_few_seeds_the_range_is_said_and_of_one_its_step() -> None:
    row = {"event": 0, "seeds": 3, "recurs": True, "step": 67.0, "hi": 182112340.0, "told": False}
    rows = pd.DataFrame([{**row, "least": 60.0, "most": 75.0}, {**row, "seeds": 1, "least": 67.0, "most": 67.0}])
    assert seed_words.events(rows, 3, ["loss falls"]) == [
        "loss falls: in 3 of 3 seeds, at step 67 (60 to 75 in these seeds)",
        "loss falls: in 1 of 3 seeds, at step 67",
    ]


def test_an_order_that_cannot_be_told_is_said_to_be_so() -> None:
    rows = [
        {"before": 0, "after": 1, "seeds": 4, "share": 0.75, "p_value": 0.2},
        {"before": 1, "after": 2, "seeds": 5, "share": 1.0, "p_value": 0.003},
    ]
    assert seed_words.order(pd.DataFrame(rows), ["a", "b", "c"]) == [
        "a or b, which comes first cannot be told: the former in 3 of 4 seeds",
        "b comes before c, in 5 of 5 seeds (p = 0.003)",
    ]


def test_no_event_is_said_too() -> None:
    nothing = pd.DataFrame({"recurs": pd.Series([], dtype=bool)})
    assert seed_words.events(nothing, 3, []) == ["nothing recurs in half of the 3 seeds"]
