"""What a section needs, what is said where it lacks it."""

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from stagewise.reporting._measured import Measured
from stagewise.reporting._section import Section
from stagewise.reporting.sections import LAST, SECTIONS


def section(*needs: str) -> Section:
    return Section("mine", "My section", lambda measured: ["<p>shown</p>"], needs)


@pytest.mark.parametrize(
    ("needs", "is_there"),
    [
        ((), True),
        (("Loss",), True),
        (("Loss.excess",), True),
        (("Loss.cross_entropy",), False),
        (("Loss", "Nothing"), True),
    ],
)
def test_a_section_is_there_where_enough_was_measured(
    needs: tuple[str, ...], is_there: bool, measured: Measured
) -> None:
    assert section(*needs).blocks(measured) == (["<p>shown</p>"] if is_there else [])


def test_what_is_missing_is_said_by_title_and_probes() -> None:
    assert section().missing == "My section"
    assert section("Loss.excess", "Loss.cross_entropy", "Accuracy").missing == "My section (Loss, Accuracy)"


def test_a_section_is_missing_only_where_the_task_has_what_it_shows(
    table: pd.DataFrame, bare: Callable[..., Measured]
) -> None:
    unknown = bare(table[table["probe"] == "AttentionEntropy"], run={"recipe": {"plan": {}}})
    missing = {each.identifier for each in (*SECTIONS, *LAST) if each.applies_to(unknown)} - {"entropy", "settings"}
    assert {"stages", "maps", "context", "ablation", "training"} <= missing
    assert not {"heads", "evidence", "audit"} & missing
    known = unknown._replace(relations={"I(1)": np.eye(4, dtype=bool)}, references=("A*_1", "A*_1:2"))
    further = {each.identifier for each in SECTIONS if each.applies_to(known)} - missing - {"entropy"}
    assert further == {"heads", "evidence"}
