"""The sections on a run's record."""

import numpy as np
import pandas as pd
import pytest

from stagewise.reporting._figure import Plot
from stagewise.reporting._measured import RECORDED, Measured
from stagewise.reporting.sections.record import AUDIT, DRAWN, SETTINGS, TRAINING

DAMAGED = {"kind": "damaged", "steps": [3, 17], "message": "a < b"}


def test_faults_are_counted_and_listed_with_their_steps(measured: Measured) -> None:
    lead, table = AUDIT.blocks(measured._replace(run={"audit": {"findings": [DAMAGED]}}))
    assert "found 1 fault." in str(lead)
    cells = [part.partition("</td>")[0].partition(">")[2] for part in str(table).split("<td")[1:]]
    assert cells == ["damaged", "3, 17", "a &lt; b"]
    assert "found 2 faults." in str(AUDIT.blocks(measured._replace(run={"audit": {"findings": [DAMAGED, DAMAGED]}}))[0])


def test_how_names_were_read_is_a_table_of_its_own(measured: Measured) -> None:
    names = ["step_1_ppl_9.pt -> step 1, read from `step_1`, ignored `ppl_9`"]
    (table,) = AUDIT.blocks(measured._replace(run={"audit": {"findings": [], "names": names}}))
    cells = [part.partition("</td>")[0].partition(">")[2] for part in str(table).split("<td")[1:]]
    assert cells == ["step_1_ppl_9.pt", "step 1, read from `step_1`, ignored `ppl_9`"]


@pytest.mark.parametrize("run", [{}, {"audit": None}, {"audit": {"findings": []}}], ids=str)
def test_without_faults_nothing_is_said(run: dict[str, object], measured: Measured) -> None:
    assert AUDIT.blocks(measured._replace(run=run)) == []


def test_steps_are_drawn_evenly_on_their_logarithmic_axis(measured: Measured) -> None:
    metrics = pd.DataFrame({"step": range(5), "loss": np.linspace(3, 1, 5)})  # 5 ** (0, .25, .5, .75, 1): 1, 1, 2, 3, 5
    (plot,) = TRAINING.blocks(measured._replace(metrics=metrics))
    assert isinstance(plot, Plot)
    lines = {str(line.get_label()): line for line in plot.panels[""].get_lines()}  # type: ignore[union-attr]
    assert np.asarray(lines["training batch"].get_ydata()).tolist() == [3, 2.5, 2, 1]
    assert plot.caption.endswith("4 of 5 updates are drawn.")


def test_of_many_steps_the_first_and_the_last_are_drawn_and_the_number_is_told(measured: Measured) -> None:
    metrics = pd.DataFrame({"step": range(20_000), "loss": 1.0})
    (plot,) = TRAINING.blocks(measured._replace(metrics=metrics))
    assert isinstance(plot, Plot)
    steps = plot.rows["step"].tolist()
    assert (steps[0], steps[-1]) == (0, 19_999)
    assert steps == sorted(set(steps))
    assert len(steps) <= DRAWN
    assert plot.caption.endswith(f"{len(steps)} of 20000 updates are drawn.")


@pytest.mark.parametrize("metrics", [None, pd.DataFrame({"step": [], "loss": []})], ids=["none", "empty"])
def test_without_metrics_it_is_missing_only_for_what_was_trained_here(
    metrics: pd.DataFrame | None, measured: Measured
) -> None:
    elsewhere = measured._replace(metrics=metrics)
    assert TRAINING.blocks(elsewhere) == []
    assert not TRAINING.applies_to(elsewhere)
    assert TRAINING.applies_to(elsewhere._replace(run={"recipe": {"plan": {}}}))


def cells_of(text: str) -> list[str]:
    return [part.partition("</td>")[0].partition(">")[2] for part in text.split("<td")[1:]]


def test_every_leaf_of_the_record_is_a_row_below_the_name_of_the_run(measured: Measured) -> None:
    record = {"recipe": {"plan": {"steps": 9, "save": [0, 3, 9]}}, "versions": {"torch": "2<3"}}
    (table,) = SETTINGS.blocks(measured._replace(run=record))
    cells = cells_of(str(table))
    named = dict(zip(cells[::2], cells[1::2], strict=True))
    assert named == {
        "run": "&lt;/script&gt;&lt;b&gt;run &amp; co",
        "plan.steps": "9",
        "plan.save": "0, 3, 9",
        "versions.torch": "2&lt;3",
    }


def test_what_is_known_of_the_probe_batch_is_no_setting(measured: Measured) -> None:
    (table,) = SETTINGS.blocks(measured._replace(run={RECORDED: {"size": [4, 4]}, "seed": 3}))
    assert cells_of(str(table))[2:] == ["seed", "3"]
