"""The tidy table: columns, selection, and arrays with named axes that become rows."""

import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest

from stagewise import probes
from stagewise.probe import AbstractProbe
from stagewise.table import (
    DECLARED,
    ROLES,
    TEXT,
    LabelledArray,
    Quantity,
    Role,
    check_columns,
    declare,
    declared,
    head_label,
    select,
    tidy,
    with_role,
)


def frame(**columns: object) -> pd.DataFrame:
    return pd.DataFrame({"run": "run", "step": [0], "probe": "P", "quantity": "q", "value": 1.0} | columns)


@pytest.mark.parametrize("name", ["run", "step", "probe", "quantity", "value"])
def test_a_table_without_a_column_that_all_have_is_refused(name: str) -> None:
    check_columns(frame().columns, "mine.parquet")
    with pytest.raises(
        ValueError, match=f"^mine.parquet is no table of measurements: it has no column {name}; `stagewise.read_log`"
    ):
        check_columns(frame().drop(columns=name).columns, "mine.parquet")


def test_columns_come_in_order_and_missing_axes_are_null() -> None:
    table = tidy([frame(head=[2]), frame(relation=["I(1)"], lo=0.5, hi=1.5, n=3)])
    assert list(table.columns) == [
        "run", "step", "probe", "quantity", "head", "relation", "value", "lo", "hi", "n", "resamples"
    ]  # fmt: skip
    assert table["head"].tolist() == [2, pd.NA]
    assert table["relation"].isna().tolist() == [True, False]
    assert [str(table[name].dtype) for name in ("step", "head", "relation", "n", "value")] == [
        "int64", "Int64", TEXT, "Int64", "float64"
    ]  # fmt: skip


def test_masks_of_every_kind_of_axis_are_combined_in_any_order() -> None:
    table = tidy([frame(head=[2], kind="zero"), frame(head=[3], kind="zero"), frame()])
    masks = [table["head"] == 2, table["kind"] == "zero", table["probe"] == "P"]
    for first, second, third in itertools.permutations(masks):
        assert table[first & second & third]["head"].tolist() == [2]


def test_joining_twice_changes_nothing() -> None:
    once = tidy([frame(head=[2]), frame(relation=["I(1)"])])
    pd.testing.assert_frame_equal(tidy([once]), once)


def test_a_selection_is_in_the_order_of_the_steps() -> None:
    table = tidy([frame(step=[9], head=[0]), frame(step=[3], head=[0]), frame(step=[3], head=[1]), frame(probe="R")])
    assert select(table, "P", head=0)["step"].tolist() == [3, 9]
    assert select(table, "P", "q")["step"].tolist() == [3, 3, 9]
    assert "head" not in select(table, "R")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"probe": "R"}, "no rows of R; it has P"),
        ({"probe": "P", "quantity": "z"}, "no rows of P, z; it has q"),
        ({"probe": "P", "head": 7}, "no rows of P, head=7; it has q"),
        ({"probe": "P", "colour": 1}, "no rows of P, colour=1; it has q"),
    ],
    ids=str,
)
def test_a_selection_of_nothing_says_what_there_is(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        select(tidy([frame(head=[2])]), **arguments)


def test_heads_are_called_as_transformer_lens_users_do() -> None:
    assert head_label(0, 11) == "L0H11"


def test_an_array_becomes_a_row_a_value_by_its_axes() -> None:
    values = np.arange(12.0).reshape(2, 3, 2)
    labels: dict[str, list[str] | list[int]] = {"relation": ["a", "b", "c"], "layer": [4, 7]}
    frame = LabelledArray("layer relation head", values, "mass", labels).frame()
    expected = [(*place, "mass") for place in itertools.product([4, 7], "abc", [0, 1])]
    columns = ["layer", "relation", "head", "quantity"]
    assert list(frame[columns].itertuples(index=False, name=None)) == expected
    assert frame["value"].tolist() == list(range(12))


def test_a_single_number_is_one_row() -> None:
    assert LabelledArray("", np.asarray(2.5), "loss").frame().to_dict("records") == [{"quantity": "loss", "value": 2.5}]


@pytest.mark.parametrize(
    ("axes", "labels", "message"),
    [
        ("layer", {}, r"axes 'layer' do not fit values of shape \(2, 3\), of 'mass'"),
        ("layer relation", {}, "axes relation of 'mass' need labels"),
        ("layer relation", {"relation": ["a", "b"]}, "axis 'relation' of 'mass' has 3 entries, and 2 labels"),
    ],
)
def test_axes_that_do_not_fit_are_refused(axes: str, labels: dict[str, list[str]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LabelledArray(axes, np.zeros((2, 3)), "mass", labels)


def test_a_table_carries_the_quantities_of_every_probe_that_was_declared() -> None:
    table = pd.DataFrame({"value": [1.0]})
    loss, score = Quantity("loss", "nats", (0, None), progress="down"), Quantity("score", range=(-1, 1))
    declare(table, {"Loss": {"cross_entropy": loss}})
    declare(table, {"OVCopying": {"copying": score}})
    declare(table, {"Loss": {"excess": score}})
    assert declared(table) == {"Loss": {"cross_entropy": loss, "excess": score}, "OVCopying": {"copying": score}}


def test_a_table_made_by_hand_declares_nothing() -> None:
    assert declared(pd.DataFrame({"value": [1.0]})) == {}


def test_tables_that_declare_no_roles_have_those_that_the_catalogue_declares() -> None:
    catalogue = [cls for cls in vars(probes).values() if isinstance(cls, type) and issubclass(cls, AbstractProbe)]
    declares = {(cls.__name__, name): one.role for cls in catalogue for name, one in cls.quantities.items() if one.role}
    assert declares == ROLES
    assert set(ROLES.values()) == set(Role)


def test_quantities_of_roles_come_in_their_order_the_librarys_first() -> None:
    mine = frame(probe="Mine")
    declare(mine, {"Mine": {"q": Quantity("loss", "nats", role="loss")}})
    rows = [mine, frame(probe="Loss", quantity="cross_entropy"), frame(probe="Accuracy", quantity="accuracy")]
    table = tidy(rows)
    table.attrs = mine.attrs
    pairs = [("Accuracy", "accuracy"), ("Loss", "cross_entropy"), ("Mine", "q")]
    assert with_role(table, "accuracy", "attention", "loss") == pairs
    assert with_role(frame(), *Role) == []


def test_a_table_that_declared_its_quantities_before_there_were_roles_has_them_all_the_same() -> None:
    loss = frame(probe="Loss", quantity="cross_entropy")
    earlier = '{"Loss": {"cross_entropy": {"label": "loss", "unit": "nats", "range": [0, null], "progress": "down"}}}'
    loss.attrs[DECLARED] = earlier
    assert with_role(loss, Role.LOSS) == [("Loss", "cross_entropy")]
    declare(loss, {"Mine": {"score": Quantity("score")}})
    assert loss.attrs[DECLARED].startswith(earlier[:-1])
    assert "role" not in loss.attrs[DECLARED]


def test_an_unknown_role_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"the role of 'score' is one of loss, squared error, .*, or empty; got 'losses'"
    ):
        Quantity("score", role="losses")


def test_a_range_in_the_wrong_order_is_refused() -> None:
    with pytest.raises(ValueError, match="goes from its smallest to its largest value, got 1, 0"):
        Quantity("score", range=(1, 0))
