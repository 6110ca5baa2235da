"""The report's section on emergence, from curves made by hand."""

import numpy as np
import pandas as pd
import pytest

from stagewise.plot.emergence import emergence, rise
from stagewise.reporting.measured import Measured
from stagewise.reporting.sections.emergence import SECTION, emergence_section
from stagewise.table import tidy

STEPS = np.arange(0, 1000, 50)


def step_up(at: float, height: float) -> np.ndarray:
    return height / (1 + np.exp(-(STEPS - at) / 20))


@pytest.fixture
def table() -> pd.DataFrame:
    curves = {(0, 0, "value to key"): step_up(420, 0.9), (1, 0, "value to key"): step_up(420, 0.1)}
    frames = [
        pd.DataFrame({"step": STEPS, "value": values}).assign(
            probe="AttentionTo", quantity="along", layer=layer, head=head, relation=relation
        )
        for (layer, head, relation), values in curves.items()
    ]
    accuracy = pd.DataFrame({"step": STEPS, "value": step_up(540, 1.0)}).assign(probe="Accuracy", quantity="accuracy")
    loss = accuracy.assign(value=4 - 3.9 * accuracy["value"], probe="Loss", quantity="cross_entropy")
    return tidy(frame.assign(run="made") for frame in (*frames, accuracy, loss))


def measured(table: pd.DataFrame) -> Measured:
    return Measured({}, None, table, None, {}, 0)


def test_the_section_says_when_and_shows_the_curves(table: pd.DataFrame) -> None:
    words, rows, plot = emergence_section(measured(table))
    assert "the accuracy is half-way between steps 500 and 550" in str(words)
    assert "accuracy passes 0.50" in str(rows)
    assert len(plot.rows) == 4 * len(STEPS)  # type: ignore[union-attr]


def test_loss_accuracy_and_attention_share_their_steps_on_one_page(table: pd.DataFrame) -> None:
    loss, both = emergence(table).axes
    assert loss.get_xlim() == both.get_xlim() == (0, 950)
    assert (loss.get_ylabel(), both.get_ylabel()) == ("loss, nats", "attention, accuracy")
    assert len(emergence(table[table["probe"] != "Loss"]).axes) == 1


def test_only_what_emerged_is_named_in_the_drawing(table: pd.DataFrame) -> None:
    labels = [str(line.get_label()) for line in rise(table).get_lines()]
    assert [label for label in labels if not label.startswith("_")] == ["L0H0, value to key", "accuracy"]


def test_without_its_probes_there_is_no_section(table: pd.DataFrame) -> None:
    assert SECTION.blocks(measured(table[table["probe"] == "Accuracy"])) == []
    assert SECTION.blocks(measured(table))


def test_a_run_in_which_nothing_emerged_says_so(table: pd.DataFrame) -> None:
    (words, _) = emergence_section(measured(table.assign(value=0.1)))
    assert str(words).startswith("<p>Nothing emerged")


def test_a_drawing_without_its_probes_says_what_to_measure(table: pd.DataFrame) -> None:
    with pytest.raises(ValueError, match="measure with both probes"):
        rise(table[table["probe"] == "Accuracy"])
