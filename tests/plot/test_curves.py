"""The figures: what is drawn is what the table says."""

import itertools
from collections.abc import Callable

import matplotlib
import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from stagewise import plot
from stagewise.findings import Stages
from stagewise.plot.axes import ALONE, _step_ticks
from stagewise.plot.curves import (
    _KL_FLOOR,
    axes_of,
    labels_in_words,
    quantity_of,
    set_value_axis,
)
from stagewise.table import Quantity, declare


def line(ax: Axes, label: str) -> np.ndarray:
    (found,) = [line for line in ax.get_lines() if line.get_label() == label]
    return np.asarray(found.get_xydata())


def texts(ax: Axes) -> list[str]:
    return [text.get_text() for text in ax.texts]


def values(table: pd.DataFrame, probe: str, **axes: object) -> np.ndarray:
    here = table["probe"] == probe
    for name, value in axes.items():
        here &= (table[name] == value).fillna(False).astype(bool)
    return table.loc[here, ["step", "value"]].sort_values("step").to_numpy(float)


def test_every_curve_goes_through_the_values_of_the_table(table: pd.DataFrame) -> None:
    kl = values(table, "KLToReference", reference="A*_1")
    assert np.allclose(line(plot.kl_curves(table), "KL to A*_1"), kl)
    mass = values(table, "AttentionTo", head=1, relation="I(2)")
    assert np.allclose(line(plot.head_masses(table, 0, 1), "I(2)"), mass)
    assert np.allclose(line(plot.loss_curve(table), "excess loss"), values(table, "Loss", quantity="excess"))
    context = values(table, "RestrictedContextKL", context=2)
    assert np.allclose(line(plot.restricted_context(table), "c = 2"), context)
    (entropy,) = plot.quantity(table, "AttentionEntropy", "entropy").axes
    assert np.allclose(line(entropy, "L0H1"), values(table, "AttentionEntropy", head=1))
    coverage = values(table, "HeadSpecialisation", quantity="coverage")
    (ax,) = plot.quantity(table, "HeadSpecialisation", "coverage").axes
    assert np.allclose(line(ax, ALONE), coverage)


def test_ribbons_span_the_intervals(table: pd.DataFrame) -> None:
    ribbon, _ = plot.loss_curve(table).collections  # the other one leads from the line to its label
    own = table[(table["probe"] == "Loss") & (table["quantity"] == "excess")]
    corners = np.concatenate([path.vertices for path in ribbon.get_paths()])
    for bound in ("lo", "hi"):
        assert {tuple(row) for row in own[["step", bound]].to_numpy(float)} <= {tuple(row) for row in corners}


def test_bands_lie_where_the_stages_are_and_hatching_where_the_intervals_are(
    table: pd.DataFrame, stages: Stages
) -> None:
    ax = plot.kl_curves(table, stages=stages)
    spans: dict[bool, list[tuple[float, ...]]] = {False: [], True: []}
    for patch in ax.patches:
        edges = ax.transData.inverted().transform(patch.get_extents().get_points())[:, 0]
        spans[bool(patch.get_hatch())].append(tuple(edges.round(3).tolist()))
    assert spans[False] == [(0, 10), (10, 100), (100, 300)]
    assert spans[True] == [(5, 20), (60, 150)]
    assert {"stage 1", "10", "100"} <= set(texts(ax))


def test_above_narrow_stages_no_two_labels_touch(table: pd.DataFrame, stages_between: Callable[..., Stages]) -> None:
    edges = (0, 100, 110, 130, 150, 200, 202, 300)
    ax = plot.kl_curves(table, stages=stages_between(*((edge, edge, edge) for edge in edges)))
    above = [text for text in ax.texts if text.get_position()[1] > 1]
    boxes = sorted(tuple(text.get_window_extent().intervalx) for text in above)
    assert all(left[1] < right[0] for left, right in itertools.pairwise(boxes))
    assert {"stage 1", "5", "7"} <= {text.get_text() for text in above}


def test_one_stage_is_not_shaded(table: pd.DataFrame, stages: Stages) -> None:
    one = Stages("small", stages.table.iloc[:1], stages.turning_points, stages.events)
    assert not plot.kl_curves(table, stages=one).patches


def test_step_0_is_at_the_left_end_and_labelled(table: pd.DataFrame) -> None:
    ax = plot.kl_curves(table)
    assert ax.get_xlim() == (0, 300)
    assert ax.get_xticklabels()[0].get_text() == "0"
    assert _step_ticks(10, 5000) == [0, 10, 30, 100, 300, 1000, 3000, 5000]


def test_several_runs_in_one_figure_are_refused(table: pd.DataFrame) -> None:
    with pytest.raises(ValueError, match="one run, the table has 2"):
        plot.kl_curves(pd.concat([table, table.assign(run="other")]))


def test_the_training_loss_needs_no_table(stages: Stages) -> None:
    metrics = pd.DataFrame({"step": range(5), "loss": np.linspace(3, 1, 5), "gradient_norm": 0.1})
    assert line(plot.training_loss(metrics, stages), "training batch")[:, 1].tolist() == [3, 2.5, 2, 1.5, 1]


def test_drawing_on_given_axes_makes_no_figure_and_touches_no_global_state(table: pd.DataFrame) -> None:
    before = dict(matplotlib.rcParams)
    ax = Figure().subplots()
    assert plot.loss_curve(table, ax=ax) is ax
    assert dict(matplotlib.rcParams) == before


def test_the_kl_figure_shows_the_truncated_truths_unless_asked_for_others(table: pd.DataFrame) -> None:
    assert [text for text in texts(plot.kl_curves(table)) if "KL to" in text] == [
        "KL to A*_1",
        "KL to A*_1:2",
    ]
    assert texts(plot.kl_curves(table, ["uniform"])) == ["KL to uniform"]
    with pytest.raises(ValueError, match=r"no KL to trained c=2; it has uniform, A\*_1, A\*_1:2"):
        plot.kl_curves(table, ["trained c=2"])


def test_theory_is_dashed_in_the_colour_of_its_reference(table: pd.DataFrame) -> None:
    lines = plot.kl_curves(table, ["A*_1"], theory=table).get_lines()
    measured, theory = lines
    assert (measured.get_linestyle(), theory.get_linestyle()) == ("-", "--")
    assert measured.get_color() == theory.get_color()


def test_contexts_are_in_their_order_on_a_log_scale(table: pd.DataFrame) -> None:
    shuffled = table.sample(frac=1, random_state=0)
    ax = plot.restricted_context(shuffled)
    assert [str(line.get_label()) for line in ax.get_lines()] == ["c = 1", "c = 2"]
    assert (ax.get_yscale(), ax.get_ylim()[0]) == ("log", _KL_FLOOR)
    rows = table[(table["probe"] == "RestrictedContextKL") & (table["context"] == 2)].sort_values("step")
    np.testing.assert_allclose(np.asarray(ax.get_lines()[1].get_ydata()), rows["value"].astype(float))


def test_references_without_an_order_are_all_drawn(table: pd.DataFrame) -> None:
    lines = plot.kl_curves(table.assign(nested=0)).get_lines()
    assert [line.get_label() for line in lines] == ["KL to uniform", "KL to A*_1", "KL to A*_1:2"]


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
