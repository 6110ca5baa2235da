"""The section of settings: all of the record, and nothing that is no setting."""

from stagewise.reporting.measured import RECORDED, Measured
from stagewise.reporting.sections.settings import SECTION


def cells_of(text: str) -> list[str]:
    return [part.partition("</td>")[0].partition(">")[2] for part in text.split("<td")[1:]]


def test_every_leaf_of_the_record_is_a_row_below_the_name_of_the_run(measured: Measured) -> None:
    record = {"recipe": {"plan": {"steps": 9, "save": [0, 3, 9]}}, "versions": {"torch": "2<3"}}
    (table,) = SECTION.blocks(measured._replace(run=record))
    cells = cells_of(str(table))
    named = dict(zip(cells[::2], cells[1::2], strict=True))
    assert named == {
        "run": "&lt;/script&gt;&lt;b&gt;run &amp; co",
        "plan.steps": "9",
        "plan.save": "0, 3, 9",
        "versions.torch": "2&lt;3",
    }


def test_what_is_known_of_the_probe_batch_is_no_setting(measured: Measured) -> None:
    (table,) = SECTION.blocks(measured._replace(run={RECORDED: {"size": [4, 4]}, "seed": 3}))
    assert cells_of(str(table))[2:] == ["seed", "3"]
