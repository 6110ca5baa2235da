"""The section on what the audit found wrong with the checkpoints."""

from stagewise.reporting.measured import Measured
from stagewise.reporting.prose import html_table
from stagewise.reporting.section import Blocks, Section, never_missing
from stagewise.words.grammar import count


def _audit_section(measured: Measured) -> Blocks:
    """Return the faults that the audit found, if it found any, and how names were read where a part was ignored."""
    audit = measured.run.get("audit") or {}
    findings, names = audit.get("findings", []), [line.partition(" -> ")[::2] for line in audit.get("names", [])]
    read: Blocks = [html_table(["name", "read as"], names)] if names else []
    if not findings:
        return read
    rows = [[finding["kind"], ", ".join(map(str, finding["steps"])), finding["message"]] for finding in findings]
    return [
        f"<p><strong>The audit of the checkpoints found {count(len(rows), 'fault')}.</strong> "
        "What follows was measured on them as they are.</p>",
        html_table(["kind", "steps", "what was found"], rows),
        *read,
    ]


SECTION = Section("audit", "What is wrong with the checkpoints", _audit_section, applies=never_missing, of_batch=False)
