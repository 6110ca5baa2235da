"""Words on a probe batch: a foreign one is told with what to do, a known one with its losses."""

from stagewise.findings.batch_familiarity import BatchFamiliarity, Familiarity
from stagewise.words._findings import CAVEAT, caution, familiarity, qualified, warned

RISES = BatchFamiliarity(Familiarity.RISES, 2.0, 3.0, 4.0, 9)
KNOWN = BatchFamiliarity(Familiarity.HOME, 4.0, 2.0, 4.2, 9)


def test_findings_on_a_foreign_batch_stand_below_a_line_that_says_so() -> None:
    assert qualified("L0H1 attends to offset 3", RISES) == f"{CAVEAT}:\n  L0H1 attends to offset 3"
    assert warned("a", RISES).startswith("The probe batch is foreign to this model: its loss rises over training")
    assert warned("a", KNOWN) == qualified("a", None) == "a"


def test_a_known_batch_is_told_with_its_losses_and_needs_no_caution() -> None:
    assert familiarity(KNOWN) == (
        "This model knows the probe batch: its loss goes from 4.00 to 2.00 nats, below the 4.20 of a guess."
    )
    assert caution(KNOWN) == caution(None) == ""
