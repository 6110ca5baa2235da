"""The figures: what is drawn is what the table says."""

import itertools

import matplotlib
import numpy as np
import pandas as pd
import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from stagewise import plot
from stagewise.detection.stages import Stages
from stagewise.measurement.rows import bootstrap_weights, rows
from stagewise.plot.colours import head_colours, ink, ordered_colours
from stagewise.plot.maps import blend
from stagewise.plot.step_axis import cell_edges, spread, step_ticks
from stagewise.probe import Reading
from stagewise.table import tidy

STEPS = (0, 1, 10, 100, 300)
REFERENCES = ["uniform", "A*_1", "A*_1:2"]
RELATIONS = ["I(1)", "I(2)"]


def readings(step: int) -> dict[str, list[Reading]]:
    generator = torch.Generator().manual_seed(step)

    def draw(*shape: int) -> torch.Tensor:
        return torch.rand(shape, generator=generator)

    relation, feature = {"relation": RELATIONS}, {"feature": ["A*_1", "A*_2"]}
    ablation = {"kind": ["zero"], "control": ["head", "random head"]}
    pattern = draw(1, 2, 4, 4).tril().softmax(-1).tril()
    return {
        "KLToReference": [Reading("batch reference", draw(6, 3), "kl", {"reference": REFERENCES})],
        "Loss": [Reading("batch", draw(6), "cross_entropy"), Reading("batch", draw(6), "excess")],
        "AttentionTo": [Reading("batch layer head relation", draw(6, 1, 2, 2), "mass", relation)],
        "HeadSpecialisation": [Reading("batch", draw(6), name) for name in ("competition", "coverage")],
        "RestrictedContextKL": [Reading("batch context", draw(6, 2), "kl", {"context": [1, 2]})],
        "HeadAblation": [Reading("batch layer head kind control", draw(6, 1, 2, 1, 2), "kl", ablation)],
        "AttentionEntropy": [Reading("batch layer head", draw(6, 1, 2), "entropy")],
        "ValueAlignment": [Reading("layer head feature", draw(1, 2, 2) - 0.5, "projection", feature)],
        "MeanPattern": [Reading("layer head query key", pattern, "attention", {"query": range(4), "key": range(4)})],
        "PatternClusters": [Reading("layer head", torch.tensor([[0.0, float(step > 5)]]), "cluster")],
    }


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    weights = bootstrap_weights(6, 20)
    frames = [
        rows(reading, weights).assign(run="small", step=step, probe=probe)
        for step in STEPS
        for probe, found in readings(step).items()
        for reading in found
    ]
    frames = [frame.assign(nested=[0, 1, 2]) if "reference" in frame else frame for frame in frames]
    profile = pd.DataFrame(
        {"feature": ["offset 0", "I(1)"] * 2, "cluster": [0.0, 0.0, 1.0, 1.0], "value": [0.1, 0.2, 0.3, 0.4]}
    )
    centroid = profile.assign(run="small", step=300, probe="PatternClusters", quantity="centroid")
    return tidy([*frames, centroid])


def stages_between(*edges: tuple[float, float, float]) -> Stages:
    rows_of_stages = [
        dict(zip(("start", "start_lo", "start_hi", "end", "end_lo", "end_hi"), (*a, *b), strict=True))
        for a, b in itertools.pairwise(edges)
    ]
    frame = pd.DataFrame(rows_of_stages).assign(stage=range(1, len(edges)), t10=1.0, t50=2.0, t90=3.0, summary="")
    return Stages("small", frame, pd.DataFrame(), pd.DataFrame())


@pytest.fixture
def stages() -> Stages:
    return stages_between((0, 0, 0), (10, 5, 20), (100, 60, 150), (300, 300, 300))


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
    assert np.allclose(line(plot.entropy(table), "L0H1"), values(table, "AttentionEntropy", head=1))
    coverage = values(table, "HeadSpecialisation", quantity="coverage")
    assert np.allclose(line(plot.specialisation(table), "coverage"), coverage)
    aligned = plot.value_alignment(table, 0, 1, "projection")
    assert np.allclose(line(aligned, "A*_2"), values(table, "ValueAlignment", head=1, feature="A*_2"))


def test_the_kl_figure_shows_the_truncated_truths_unless_asked_for_others(table: pd.DataFrame) -> None:
    assert [text for text in texts(plot.kl_curves(table)) if "KL to" in text] == [
        "KL to A*_1",
        "KL to A*_1:2",
    ]
    assert texts(plot.kl_curves(table, ["uniform"])) == ["KL to uniform"]
    with pytest.raises(ValueError, match=r"no KL to trained c=2; it has uniform, A\*_1, A\*_1:2"):
        plot.kl_curves(table, ["trained c=2"])


def test_ribbons_span_the_intervals(table: pd.DataFrame) -> None:
    (ribbon,) = plot.loss_curve(table).collections
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


def test_above_narrow_stages_no_two_labels_touch(table: pd.DataFrame) -> None:
    edges = (0, 100, 110, 130, 150, 200, 202, 300)
    ax = plot.kl_curves(table, stages=stages_between(*((edge, edge, edge) for edge in edges)))
    above = [text for text in ax.texts if text.get_position()[1] > 1]
    boxes = sorted(tuple(text.get_window_extent().intervalx) for text in above)
    assert all(left[1] < right[0] for left, right in itertools.pairwise(boxes))
    assert {"stage 1", "5", "7"} <= {text.get_text() for text in above}


def test_one_stage_is_not_shaded(table: pd.DataFrame, stages: Stages) -> None:
    one = Stages("small", stages.table.iloc[:1], stages.turning_points, stages.events)
    assert not plot.kl_curves(table, stages=one).patches


def test_theory_is_dashed_in_the_colour_of_its_reference(table: pd.DataFrame) -> None:
    lines = plot.kl_curves(table, ["A*_1"], theory=table).get_lines()
    measured, theory = lines
    assert (measured.get_linestyle(), theory.get_linestyle()) == ("-", "--")
    assert measured.get_color() == theory.get_color()


def test_step_0_is_at_the_left_end_and_labelled(table: pd.DataFrame) -> None:
    ax = plot.kl_curves(table)
    assert ax.get_xlim() == (0, 300)
    assert ax.get_xticklabels()[0].get_text() == "0"
    assert step_ticks(5000) == [0, 10, 30, 100, 300, 1000, 3000, 5000]


def test_several_runs_in_one_figure_are_refused(table: pd.DataFrame) -> None:
    with pytest.raises(ValueError, match="one run, the table has 2"):
        plot.kl_curves(pd.concat([table, table.assign(run="other")]))


def test_a_figure_of_rows_that_are_not_there_says_what_there_is(table: pd.DataFrame) -> None:
    with pytest.raises(ValueError, match=r"no rows of AttentionTo, mass, layer=0, head=7"):
        plot.head_masses(table, 0, 7)


def test_a_grid_holds_one_panel_a_head(table: pd.DataFrame) -> None:
    figure = plot.all_head_masses(table)
    assert [ax.get_title(loc="left") for ax in figure.axes] == ["L0H0", "L0H1"]


def test_a_pixel_is_the_product_of_the_heads_colours() -> None:
    weights = np.random.default_rng(0).random((3, 2, 2))
    colours = ["#0072B2", "#E69F00", "#009E73"]
    image = blend(weights, colours)
    for query, key, channel in np.ndindex(2, 2, 3):
        expected = 1.0
        for weight, colour in zip(weights[:, query, key], colours, strict=True):
            expected *= (1 - weight) + weight * to_rgb(colour)[channel]
        assert image[query, key, channel] == pytest.approx(expected)


def test_an_attention_map_shows_the_step_asked_for_without_the_queries_left_out(table: pd.DataFrame) -> None:
    ax = plot.attention_map(table, 10, relations={"I(1)": np.eye(4, dtype=bool)}, first_query=1)
    rows_of_step = table[(table["probe"] == "MeanPattern") & (table["step"] == 10)]
    weights = rows_of_step.sort_values(["head", "query", "key"])["value"].to_numpy().reshape(2, 4, 4)
    shown = np.asarray(ax.images[0].get_array())
    assert np.allclose(shown, blend(weights, list(head_colours(table).values()))[1:])
    assert texts(ax) == ["I(1)"]


def test_an_ablation_and_its_control_share_one_colour_scale(table: pd.DataFrame, stages: Stages) -> None:
    figure = plot.ablation_with_control(table, "zero", stages=stages)
    head, control = (ax.collections[0] for ax in figure.axes if ax.get_yticklabels()[0].get_text() == "L0H0")
    assert head.get_clim() == control.get_clim()
    of_head_1 = values(table, "HeadAblation", head=1, control="random head")[:, 1]
    assert np.allclose(np.asarray(control.get_array())[1], of_head_1)


def test_each_run_of_a_cluster_is_numbered_once(table: pd.DataFrame, stages: Stages) -> None:
    assert sorted(texts(plot.clusters(table))) == ["0", "0", "1"]
    assert len(plot.centroids(table).get_yticklabels()) == 2


def test_the_training_loss_needs_no_table(stages: Stages) -> None:
    metrics = pd.DataFrame({"step": range(5), "loss": np.linspace(3, 1, 5), "gradient_norm": 0.1})
    assert line(plot.training_loss(metrics, stages), "training batch")[:, 1].tolist() == [3, 2.5, 2, 1.5, 1]


def test_drawing_on_given_axes_makes_no_figure_and_touches_no_global_state(table: pd.DataFrame) -> None:
    before = dict(matplotlib.rcParams)
    ax = Figure().subplots()
    assert plot.loss_curve(table, ax=ax) is ax
    assert dict(matplotlib.rcParams) == before


def test_labels_keep_their_order_and_distance() -> None:
    places = np.random.default_rng(1).random(8).tolist()
    moved = np.array(spread(places, 0.1))
    assert (np.diff(np.sort(moved)) > 0.1 - 1e-9).all()
    assert (np.argsort(moved) == np.argsort(places)).all()
    assert moved.min() >= 0
    assert moved.max() <= 1


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


def test_cells_meet_halfway_and_cover_the_axis() -> None:
    edges = cell_edges([0, 1, 10, 100])
    assert edges[[0, -1]].round(9).tolist() == [0, 100]
    assert (np.diff(edges) > 0).all()
