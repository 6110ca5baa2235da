"""How a quantity is written on an axis."""

import pandas as pd
import pytest
from matplotlib.figure import Figure

from stagewise.plot._quantities import axes_of, labels_in_words, quantity_of, set_value_axis
from stagewise.table import Quantity, declare


def test_a_table_made_by_hand_has_the_librarys_declarations() -> None:
    by_hand = pd.DataFrame({"probe": ["AttentionTo", "MyProbe"]})
    assert quantity_of(by_hand, "AttentionTo", "mass") == Quantity(
        "attention mass", range=(0, 1), progress="up", unless="along", role="attention"
    )
    assert quantity_of(by_hand, "MyProbe", "my_score").label == "my score"


def test_what_says_more_of_a_reference_is_no_axis() -> None:
    rows = pd.DataFrame({"step": [0], "value": [0.1], "reference": ["a"], "nested": [1], "context": [2]})
    assert axes_of(rows) == ["reference"]
    assert axes_of(rows.drop(columns="reference")) == ["context"]
    assert axes_of(rows.drop(columns="reference").assign(tokens=512, seed=3, head=1, layer=0)) == [
        "layer", "head", "context"
    ]  # fmt: skip
    assert labels_in_words({"layer": 0, "head": 1, "offset": 2, "relation": pd.NA}) == "L0H1, offset 2"


def test_what_a_table_declares_goes_before_the_librarys_own() -> None:
    table = pd.DataFrame({"probe": ["Loss"]})
    declare(table, {"Loss": {"cross_entropy": Quantity("my loss", "bits")}})
    assert quantity_of(table, "Loss", "cross_entropy") == Quantity("my loss", "bits")


@pytest.mark.parametrize(
    ("bounds", "values", "limits"),
    [
        ((0, None), [4.0, 0.5], (0, 4)),
        ((0, None), [4.0, 3.7], (3.7, 4)),
        ((0, 1), [0.6, 0.7], (0, 1)),
        ((None, 1), [0.6, 0.7], (0.6, 1)),
        ((None, None), [-3.0, 2.0], (-3, 2)),
    ],
    ids=str,
)
def test_an_axis_ends_where_its_range_does_unless_the_curves_stay_far_from_it(
    bounds: tuple[float | None, float | None], values: list[float], limits: tuple[float, float]
) -> None:
    ax = Figure().subplots()
    ax.margins(0)
    ax.plot(values)
    set_value_axis(ax, Quantity("loss of $x", "nats", bounds))
    assert ax.get_ylim() == pytest.approx(limits)
    assert ax.get_ylabel() == r"loss of \$x, nats"
