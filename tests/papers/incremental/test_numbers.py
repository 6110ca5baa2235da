"""The numbers of a figure, from tables made by hand and from a run that was measured."""

import numpy as np
import pandas as pd
import pytest

from stagewise.findings.stages import find_stages
from stagewise.papers.incremental import _numbers as numbers
from stagewise.papers.incremental.published import LEVELS
from stagewise.papers.incremental.recipes import FIGURES, variants
from stagewise.reporting import Measured
from stagewise.table import conformed, in_order

SUMMARY = pd.DataFrame(
    {"run": ["base-seed0", "base-seed1"], "variant": "base", "seed": [0, 1], "end_1": [100, 120], "end_1_lo": [90, 100],
     "end_1_hi": [110, 130], "final_kl": [0.1, 0.3]}
)  # fmt: skip


def tidy(records: list[dict[str, object]]) -> pd.DataFrame:
    frame = pd.DataFrame(records)
    return conformed(frame, in_order(str(name) for name in frame))


def masses(head: int, *values: float) -> list[dict[str, object]]:
    return [
        {"run": "a", "step": 5, "probe": "AttentionTo", "quantity": "mass", "layer": 0, "head": head,
         "relation": f"I({i})", "value": value}
        for i, value in enumerate(values, start=1)
    ]  # fmt: skip


def test_averages_stand_beside_the_published_numbers_with_their_interval() -> None:
    rows = {row["quantity"]: row for row in numbers.averages("1", SUMMARY)}
    end = rows["base: end of stage 1, step"]
    assert (end["published"], end["ours"], end["remark"]) == ("330", "110", "2 seeds")
    (single,) = [row for row in numbers.averages("1", SUMMARY.iloc[:1]) if "end of stage 1" in row["quantity"]]
    assert (single["ours"], single["interval"]) == ("100", "[90, 110]")


def test_what_no_seed_has_never_happened() -> None:
    for summary in (SUMMARY.assign(end_1=float("nan")), SUMMARY.drop(columns=["end_1", "end_1_lo", "end_1_hi"])):
        rows = numbers.averages("1", summary)
        assert [row["ours"] for row in rows if "end of stage" in row["quantity"]] == ["never", "never"]


def test_the_size_is_that_of_the_recipe_at_both_settings() -> None:
    row = numbers.size_row("full", "small")
    assert row["published"].startswith("d = 50, spans 4 4 4, T = 20, n = 9000, temperature 0.1, m = 1.7, batch 3000")
    assert row["ours"].startswith("d = 16, spans 3 3 3, T = 12, n = 20000, temperature 0.167, m = 1.6, batch 256")


def test_a_head_belongs_to_the_group_with_its_largest_mass() -> None:
    table = tidy([*masses(0, 0.2, 0.7), *masses(1, 0.6, 0.3)])
    assert numbers.owners(table) == ["L0H0 I(2) 0.70", "L0H1 I(1) 0.60"]


def test_where_groups_share_lags_a_head_has_a_band_that_no_other_group_shares() -> None:
    recipe = variants()["overlap-heads=3"]
    rows = [
        {"run": "a", "step": 5, "probe": "MeanPattern", "quantity": "attention", "layer": 0, "head": head,
         "map": np.mean([np.eye(12, k=1 - lag) for lag in lags], axis=0).ravel()}
        for head, lags in enumerate([(1, 2), (3, 4), (4, 5, 6, 7)])
    ]  # fmt: skip
    run = numbers.band_row("a", Measured({}, pd.DataFrame(rows), first_query=8), recipe)
    assert run["ours"] == "L0H0 lags 1 to 2 1.00, L0H1 lags 3 to 4 1.00, L0H2 lags 5 to 6 0.50"


def test_the_closest_context_is_given_with_the_step_from_which_on() -> None:
    values = {2: (0.1, 0.2, 0.9), 4: (0.5, 0.1, 0.5), 6: (0.9, 0.3, 0.1)}
    table = tidy(
        [
            {"run": "a", "step": step, "probe": "KLToReference", "quantity": "kl", "reference": f"trained c={context}",
             "context": context, "nested": 0, "value": value}
            for context, own in values.items()
            for step, value in zip((0, 10, 20), own, strict=True)
        ]
    )  # fmt: skip
    assert numbers.context_row("a", table)["ours"] == "2 from step 0, 4 from step 10, 6 from step 20"


def test_kl_to_the_first_reference_is_lowest_between_two_checkpoints() -> None:
    levels = {0: (3.0, 3.0), 20: (2.0, 1.8), 40: (1.4, 1.1), 80: (1.5, 0.9)}
    table = tidy(
        [
            {"run": "a", "step": step, "probe": "KLToReference", "quantity": "kl", "reference": f"A*_1:{k}",
             "nested": k, "value": value}
            for step, own in levels.items()
            for k, value in enumerate(own, start=1)
        ]
    )  # fmt: skip
    *_, step, kl = numbers.kl_rows("3", "a", Measured({}, table))
    assert (step["ours"], step["interval"], kl["ours"]) == ("40", "[20, 80]", "1.40, 1.10")


def test_the_offset_is_the_lowest_value_of_the_head_of_the_first_group() -> None:
    values = [
        {"run": "a", "step": step, "probe": "ValueAlignment", "quantity": "projection", "layer": 0, "head": head,
         "feature": "A*_3", "value": value}
        for head, own in ((0, (0.0, 0.9)), (1, (-0.5, -0.1)))
        for step, value in zip((0, 5), own, strict=True)
    ]  # fmt: skip
    recipe = variants()["base"]
    square = float((recipe.task.value_features()["A*_3"] ** 2).sum())
    product, share = numbers.offset_rows("a", tidy([*masses(0, 0.2, 0.7), *masses(1, 0.6, 0.3), *values]), recipe)
    assert float(product["ours"]) == pytest.approx(-0.5 * square, abs=1)
    assert (share["ours"], product["remark"]) == ("-0.50", "step 0")


@pytest.mark.parametrize(
    ("figure", "expected"),
    [("1", {"size", "KL to A", "heads'"}), ("2", {"size", "heads'"}), ("3", {"size", "KL to A"})],
)
def test_a_figure_has_the_rows_of_its_kind(figure: str, expected: set[str]) -> None:
    kl: list[dict[str, object]] = [
        {"run": "a", "step": 5, "probe": "KLToReference", "quantity": "kl", "reference": f"A*_1:{k}", "nested": k,
         "value": 1.0 - k / 4}
        for k in (1, 2, 3)
    ]  # fmt: skip
    run = Measured({}, tidy([*kl, *masses(0, 0.2, 0.7)]))
    variant = FIGURES[figure].variants[0]
    rows = numbers.figure_numbers(figure, "small", SUMMARY.assign(variant=variant), {"mine": run})
    whats = " ".join(row["quantity"] for row in rows)
    assert {what for what in ("size", "KL to A", "heads'") if what in whats} == expected
    if figure == "1":
        assert "0.75, 0.50, 0.25" in [row["ours"] for row in rows]


def test_a_stage_is_counted_by_its_reference_where_the_one_before_has_no_boundary() -> None:
    steps = list(range(0, 1000, 20))
    curves = {
        "A*_1": [3 - step / 1000 for step in steps],
        "A*_1:2": [abs(step - 300) / 300 + 0.2 for step in steps],
        "A*_1:3": [3 - 0.9 * step / 330 if step <= 300 else 1 - step / 1000 for step in steps],
    }
    table = tidy(
        [
            {"run": "a", "step": step, "probe": "KLToReference", "quantity": "kl", "reference": name, "nested": i,
             "value": value}
            for i, (name, curve) in enumerate(curves.items(), start=1)
            for step, value in zip(steps, curve, strict=True)
        ]
    )  # fmt: skip
    stages = find_stages(table)
    run = Measured({}, table, stages)
    assert stages.turning_points.query("boundary")["reference"].to_list() == ["A*_1:2"]
    assert numbers.stage_ends(run) == {2: 300, 3: 980}
    assert [row["published"] for row in numbers.kl_rows("1", "a", run)] == [*LEVELS["1"][1:], "-", LEVELS["1"][0]]
