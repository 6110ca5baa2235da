"""The section on models of text: the order of n-gram models in words, and the loss beside theirs."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from stagewise.findings.crossings import Crossing
from stagewise.papers.wikitext.text_section import SECTION, _loss_in_words, _order_in_words
from stagewise.reporting._figure import Plot
from stagewise.reporting._measured import Measured

STEPS = (0, 10, 100, 1000)
KL = {"unigram": (1.0, 0.2, 0.6, 0.9), "bigram": (1.5, 0.8, 0.3, 0.5), "trigram": (2.0, 1.0, 0.9, 0.7)}


def curve(probe: str, quantity: str, values: tuple[float, ...], margin: float = 0.0, **axes: Any) -> pd.DataFrame:
    value = np.array(values)
    rows = pd.DataFrame({"step": STEPS, "value": value, "lo": value - margin, "hi": value + margin})
    return rows.assign(run="run", probe=probe, quantity=quantity, nested=0, **axes)


def bare(rows: pd.DataFrame, **known: Any) -> Measured:
    """What is known of a run from its rows alone."""
    return Measured({}, rows)._replace(**known)


@pytest.fixture
def text() -> pd.DataFrame:
    """A model of text that is closest to the unigram model until step 10, then to the bigram model."""
    gaps = {"unigram": -0.5, "bigram": 0.02, "trigram": 0.3}
    frames = [curve("KLToReference", "kl", values, reference=name) for name, values in KL.items()]
    frames += [curve("LossAgainstReferences", "gap", (gap,) * 4, 0.1, reference=name) for name, gap in gaps.items()]
    frames += [
        curve("LossAgainstReferences", "cross_entropy", (4 - gap,) * 4, reference=name) for name, gap in gaps.items()
    ]
    return pd.concat([*frames, curve("Loss", "cross_entropy", (7, 6, 5, 4))], ignore_index=True)


def test_the_section_says_which_model_is_closest_and_from_when(text: pd.DataFrame) -> None:
    order, loss, plot = SECTION.blocks(bare(text))
    expected = "Closest to the unigram model until steps 10 to 100, then to the bigram model; not to the trigram model"
    assert expected in str(order)
    assert "At step 1000 the loss" in str(loss)
    assert isinstance(plot, Plot)
    assert len(plot.rows) == len(text)


def test_a_gap_whose_interval_holds_zero_is_not_told_apart(text: pd.DataFrame) -> None:
    assert _loss_in_words(text) == (
        "At step 1000 the loss on held-out text is 4.00 nats a token: "
        "below the unigram model's 4.50 (-0.50 [-0.60, -0.40]), "
        "not distinguishable from the bigram model's 3.98 (+0.02 [-0.08, +0.12]), "
        "above the trigram model's 3.70 (+0.30 [+0.20, +0.40])."
    )


def test_crossings_whose_intervals_overlap_have_no_order() -> None:
    found = [Crossing("unigram", "bigram", 30, 50), Crossing("bigram", "trigram", 40, 90)]
    assert _order_in_words(found).endswith(
        "whether the trigram model came later cannot be decided: the intervals overlap."
    )


def test_windows_that_repeat_are_told_and_other_references_have_no_section(text: pd.DataFrame) -> None:
    repeating = bare(text, run={"recipe": {"task": {"repeating": 0.3}}})
    assert "30% of the training windows repeat an excerpt" in str(SECTION.blocks(repeating)[0])
    assert SECTION.blocks(bare(text[text["reference"] != "trigram"])) == []
