"""The sections on the stages, and why they are where they are."""

import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from matplotlib.figure import Figure
from typer.testing import CliRunner

from stagewise.checkpoints.run_folder import TABLE
from stagewise.cli.app import app
from stagewise.findings.stages import find_stages
from stagewise.reporting._figure import Plot
from stagewise.reporting._measured import Measured
from stagewise.reporting.sections.stages import EVIDENCE, STAGES, _began, _has_partial_solutions


def figure_of(measured: Measured) -> Plot:
    (plot,) = (block for block in STAGES.blocks(measured) if isinstance(block, Plot) and block.name == "stages")
    return plot


def test_the_stage_table_has_a_row_a_stage_and_says_what_its_times_are(measured: Measured) -> None:
    *_, table, explanation = map(str, STAGES.blocks(measured))
    assert table.count("<tr>") == 1 + 2
    assert "fall in KL to the complete" in explanation


def test_curves_without_stages_are_shown_and_no_stage_is_claimed(
    table: pd.DataFrame, bare: Callable[..., Measured]
) -> None:
    said, _ = STAGES.blocks(bare(table[table["probe"] == "Loss"]))
    assert "so no stages are shown" in str(said)


def test_models_trained_on_less_context_are_left_to_their_own_section(measured: Measured, table: pd.DataFrame) -> None:
    shown = figure_of(measured).rows
    assert set(shown["reference"].dropna()) == {"A*_1", "A*_1:2"}
    assert (shown["probe"] == "Loss").sum() == (table["probe"] == "Loss").sum()


@pytest.mark.parametrize(("probes", "panels"), [(["KLToReference"], 1), (["Loss"], 1), (["KLToReference", "Loss"], 2)])
def test_kl_and_loss_have_a_panel_each_where_they_were_measured(
    probes: list[str], panels: int, table: pd.DataFrame, bare: Callable[..., Measured]
) -> None:
    figure = figure_of(bare(table[table["probe"].isin(probes)])).panels[""]
    assert isinstance(figure, Figure)
    assert len(figure.axes) == panels


def test_the_caption_speaks_of_minima_only_where_stages_end_at_them(measured: Measured) -> None:
    assert "<em>minimum</em>" in figure_of(measured).caption
    assert "<em>minimum</em>" not in figure_of(measured._replace(stages=None)).caption


def test_every_turning_point_has_its_row_and_reason(measured: Measured) -> None:
    assert measured.stages is not None
    points = measured.stages.turning_points
    table, explanation = map(str, EVIDENCE.blocks(measured))
    assert table.count("<tr>") == 1 + len(points)
    assert all(name in table for name in points["reference"])
    assert "p" in explanation
    assert EVIDENCE.blocks(measured._replace(stages=None)) == []


@pytest.mark.parametrize(
    ("reference", "references", "expected"),
    [
        (["A*_1", "A*_1:2"], (), True),
        (["trained c=1"], ("A*_1", "A*_1:2"), False),
        ([], ("A*_1", "A*_1:2"), True),
        ([], ("A*_1",), False),
    ],
)
def test_what_was_measured_says_whether_there_are_partial_solutions_else_the_task_does(
    reference: list[str],
    references: tuple[str, ...],
    expected: bool,
    table: pd.DataFrame,
    bare: Callable[..., Measured],
) -> None:
    rows = table[table["reference"].isin(reference) | (table["probe"] == "Loss")]
    assert _has_partial_solutions(bare(rows, references=references)) is expected


def test_the_section_says_what_began_and_why_others_did_not(one_onset: pd.DataFrame) -> None:
    measured = Measured({}, one_onset, find_stages(one_onset))
    listed, why, tested, plot = _began(measured)
    assert "L0H0 becomes a previous-token head" in str(listed)
    assert "2 scores were examined, 1 of them without onset: 1 moved too little." in str(why)
    assert "at least 0.1 (where neither a unit nor bounds are declared: 0.05 of the score's range)" in str(tested)
    assert isinstance(plot.panels[""], Figure)  # type: ignore[union-attr]
    assert len(plot.rows) == len(one_onset)  # type: ignore[union-attr]


@pytest.mark.slow
def test_the_command_prints_stages_and_onsets(one_onset: pd.DataFrame, tmp_path: Path) -> None:
    (tmp_path / TABLE).parent.mkdir(parents=True)
    one_onset.to_parquet(tmp_path / TABLE)
    words = CliRunner().invoke(app, ["stages", str(tmp_path)])
    assert words.exit_code == 0, words.output
    assert "L0H0 becomes a previous-token head (0.0" in words.output
    data = json.loads(CliRunner().invoke(app, ["stages", str(tmp_path), "--json"]).output)
    assert [row["stage"] for row in data["table"]] == [1, 2]
    assert [row["onset"] for row in data["onsets"]] == [True, False]
