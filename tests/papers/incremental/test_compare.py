"""Runs beside each other: means and ranges over seeds, ends of stages, KL at the best step; by hand."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from stagewise.papers.incremental._compare import boundaries, compare, excess_curves, restricted_curves

STEPS = [0, 10, 100]
SUMMARY = pd.DataFrame(
    {
        "run": ["a0", "a1", "b0", "b1"],
        "variant": ["a", "a", "b", "b"],
        "seed": [0, 1, 0, 1],
        "best_step": [100, 10, 100, 100],
        "best_excess": [0.1, 0.2, 0.3, 0.4],
        **{"end_1": [20.0, 40.0, np.nan, np.nan], "end_1_lo": [10.0, 30.0, np.nan, np.nan]},
        "end_1_hi": [25.0, 60.0, np.nan, np.nan],
    }
)


@pytest.fixture
def tables() -> dict[str, pd.DataFrame]:
    """The excess of run i is that of run 0 and i more; KL to the context of c tokens is c (i + 1)."""
    made = {}
    for i, run in enumerate(SUMMARY["run"]):
        excess = pd.DataFrame({"step": STEPS, "value": [3.0 + i, 2.0 + i, 1.0 + i]})
        kl = pd.DataFrame([(s, c, c * (i + 1.0)) for s in STEPS for c in (2, 4)], columns=["step", "context", "value"])
        kl["reference"] = "trained c=" + kl["context"].astype(str)
        rows = [
            excess.assign(probe="Loss", quantity="excess"),
            kl.assign(probe="KLToReference", quantity="kl", nested=0),
        ]
        made[run] = pd.concat(rows, ignore_index=True).assign(run=run)
    return made


def test_a_curve_is_the_mean_of_its_seeds_and_the_band_their_range(tables: dict[str, pd.DataFrame]) -> None:
    ax = excess_curves(tables, SUMMARY)
    lines = {str(line.get_label()): np.asarray(line.get_ydata()) for line in ax.get_lines()}
    np.testing.assert_allclose(lines["a"], [3.5, 2.5, 1.5])
    np.testing.assert_allclose(lines["b"], [5.5, 4.5, 3.5])
    corners = np.concatenate([path.vertices for path in ax.collections[0].get_paths()])
    assert {(0, 3), (0, 4), (100, 1), (100, 2)} <= {tuple(corner) for corner in corners.tolist()}


def test_every_run_has_its_interval_and_a_variant_without_an_end_says_so() -> None:
    ax = boundaries(SUMMARY, 100)
    spans = [tuple(np.asarray(line.get_xdata()).tolist()) for line in ax.get_lines()]
    assert {(10.0, 25.0), (30.0, 60.0), (20.0,), (40.0,), (30.0,)} <= set(spans)
    (said,) = [text for text in ax.texts if text.get_text() == "no stage ends"]
    assert said.get_position()[1] == 1


@pytest.mark.parametrize(("seeds", "named"), [([0, 1], 1), ([0], 0)])
def test_the_mean_of_several_seeds_has_its_name_in_the_legend(seeds: list[int], named: int) -> None:
    ax = boundaries(SUMMARY[SUMMARY["seed"].isin(seeds)], 100)
    legend = ax.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()].count("mean of the seeds") == named
    assert sum(line.get_marker() == "D" and len(np.asarray(line.get_xdata())) > 0 for line in ax.get_lines()) == named


def test_the_legend_stands_below_the_last_variant() -> None:
    four = pd.concat([SUMMARY[:2].assign(variant=name) for name in "cde"] + [SUMMARY[2:]], ignore_index=True)
    four = four.assign(**{name.replace("_1", "_2"): 2 * four[name] for name in ("end_1", "end_1_lo", "end_1_hi")})
    ax = boundaries(four, 100, Figure(figsize=(5, 4.2), layout="constrained").subplots())
    ax.figure.draw_without_rendering()  # type: ignore[union-attr]
    legend = ax.get_legend()
    assert legend is not None
    (said,) = (text.get_window_extent() for text in ax.texts)
    assert said.y0 > legend.get_window_extent().y1 + said.height / 2


def test_restricted_curves_are_averaged_over_seeds_and_marked_at_every_best_step(
    tables: dict[str, pd.DataFrame],
) -> None:
    ax = restricted_curves(tables, SUMMARY[SUMMARY["variant"] == "a"])
    drawn = {str(line.get_label()): np.asarray(line.get_ydata()).tolist() for line in ax.get_lines()}
    assert drawn.items() >= {"trained c=2": [3.0] * 3, "trained c=4": [6.0] * 3}.items()
    best = [np.asarray(line.get_xdata()).tolist() for line in ax.get_lines() if line.get_linestyle() == ":"]
    assert best == [[100, 100], [10, 10]]


def test_the_best_checkpoints_have_a_panel_of_restricted_curves_for_each_variant(
    tables: dict[str, pd.DataFrame],
) -> None:
    plain, best = (compare(tables, SUMMARY, best=best).axes for best in (False, True))
    assert [ax.get_title("left") for ax in best[len(plain) :]] == ["a", "b"]
