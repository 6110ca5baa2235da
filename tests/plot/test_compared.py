"""Curves of two runs over one another: solid and dashed, at the checkpoints of each."""

import numpy as np
import pandas as pd
import pytest

from stagewise.plot._compared import compared


def rows(run: str, steps: list[int], **labels: str) -> pd.DataFrame:
    of = {"run": run, "probe": "KLToReference", "quantity": "kl", **labels}
    return pd.DataFrame({"step": steps, "value": np.linspace(2, 1, len(steps))}).assign(**of)


def test_the_first_run_is_solid_and_the_second_one_dashed_in_the_same_colour() -> None:
    table = pd.concat([rows("a", [0, 10, 20], reference="one"), rows("b", [0, 15], reference="one")])
    solid, dashed = compared(table, "KLToReference", "kl").get_lines()
    assert (solid.get_linestyle(), dashed.get_linestyle()) == ("-", "--")
    assert solid.get_color() == dashed.get_color()
    assert np.array_equal(solid.get_xdata(), [0, 10, 20])
    assert np.array_equal(dashed.get_xdata(), [0, 15])
    assert (solid.get_label(), dashed.get_label()) == ("reference one", "_reference one")


def test_a_curve_that_the_first_run_lacks_is_named_too() -> None:
    table = pd.concat(
        [rows("a", [0, 10], reference="one"), *(rows("b", [0, 10], reference=name) for name in ("one", "two"))]
    )
    labels = [str(line.get_label()) for line in compared(table, "KLToReference", "kl").get_lines()]
    assert sorted(label for label in labels if not label.startswith("_")) == ["reference one", "reference two"]


def test_one_run_is_not_compared() -> None:
    with pytest.raises(ValueError, match="between two runs, KLToReference kl has 1"):
        compared(rows("a", [0, 10]), "KLToReference", "kl")
