"""Every sentence about whether models know sequences like those of a probe batch."""

import textwrap

from stagewise.findings.batch_familiarity import BatchFamiliarity
from stagewise.words._times import at

ADVICE = (
    "Measure on sequences that it was trained on: --tokens FILE or --text FILE; in Python, `tokens=` or `text=` of "
    "analyse, or batch=Batch.from_tokens(tokens)."
)
LISTED = 8
"""Positions that are named."""

CAVEAT = "Measured on a batch that is foreign to the model"
"""The line above every finding on such a batch."""


def familiarity(judged: BatchFamiliarity) -> str:
    """Say whether the models know the probe batch, by which losses, and what to do where they do not."""
    if judged.unknown:
        return "Whether the probe batch is foreign to this model is not known: no loss was measured (Loss)."
    if not judged.foreign:
        return (
            f"This model knows the probe batch: its loss goes from {judged.first:.2f} to {judged.last:.2f} nats, "
            f"below the {judged.guess:.2f} of a guess."
        )
    barely = "hardly" if judged.last < judged.guess else "no"
    why = (
        f"its loss rises over training, from {judged.first:.2f} nats"
        if judged.rises
        else f"at {at(judged.step)} the model predicts it {barely} better than a guess"
    )
    known = ", ".join(map(str, judged.positions[:LISTED])) + (", ..." if len(judged.positions) > LISTED else "")
    partly = (
        f" It does predict the tokens after position{'s'[: len(judged.positions) - 1]} {known}: if it was trained on "
        "these alone, leave the others out, with `labels` of -100 in the file, or scored= of Batch.from_tokens."
    )
    return (
        f"The probe batch is foreign to this model: {why} (loss {judged.last:.2f} nats, a guess {judged.guess:.2f}). "
        f"What it shows is not what the model was trained for. {ADVICE}{partly if known else ''}"
    )


def qualified(findings: str, judged: BatchFamiliarity | None) -> str:
    """Return findings in words; on a foreign batch indented below a line that says so."""
    if judged is None or not judged.foreign:
        return findings
    return f"{CAVEAT}:\n{textwrap.indent(findings, '  ')}"


def warned(findings: str, judged: BatchFamiliarity | None) -> str:
    """Return findings in words, as `qualified`, below what `caution` says."""
    return caution(judged) + qualified(findings, judged)


def caution(judged: BatchFamiliarity | None) -> str:
    """Return a line that says of a batch that it is foreign, and what to do, or that nobody knows; else nothing."""
    return f"{familiarity(judged)}\n" if judged is not None and (judged.foreign or judged.unknown) else ""
