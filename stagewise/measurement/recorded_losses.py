"""The loss on a batch beside the one that a trainer recorded with its weights."""

from collections.abc import Iterator

import pandas as pd

from stagewise.checkpoints.sources import TRAINER, Source
from stagewise.table import Role, select, with_role

ABOVE = 1.0
"""Nats by which a loss lies above a recorded one where both are hardly of one text."""


def above_recorded(source: Source, table: pd.DataFrame) -> Iterator[str]:
    """Say where the loss at the last checkpoint lies far above the one that its trainer recorded there."""
    last = source.entries[-1]
    here = [row for row in source.log() if row.get("step") == last.at.step]
    recorded = [(key, row[key]) for key in ("eval_loss", "loss") for row in here if isinstance(row.get(key), float)]
    for pair in with_role(table, Role.LOSS)[:1] if recorded else []:
        (key, value), measured = recorded[0], float(select(table, *pair)["value"].iloc[-1])
        if measured > value + ABOVE:
            yield (
                f"the loss at step {last.at.step} is {measured:.2f} on this batch, {TRAINER} beside it records {key} "
                f"{value:.2f}: another text than the models were trained on, another tokenizer, or other weights"
            )
