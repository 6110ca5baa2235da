"""How much each head's attention still changes from one checkpoint to the next."""

import dataclasses

import pandas as pd

from stagewise.papers.scan_and_snap._queries import scored_rows
from stagewise.probe import AbstractPatternProbe, Quantity, Reading, View


@dataclasses.dataclass(frozen=True)
class AttentionFreezing(AbstractPatternProbe):
    """Total-variation change of attention between consecutive checkpoints, by layer and head, in [0, 1].

        change(t) = mean_q (1/2) sum_k | A_qk(t) - A_qk(t_previous) |

    It detects attention that becomes sparse and continues to change, which an entropy does not. It compares the saved
    checkpoints: for rates of change, save evenly. It has layers * heads * rows * positions values a checkpoint.

    Args:
        rows: how many scored queries to follow, from the first sequence on.

    Source: the freezing of attention after the phase transition in Tian et al. (2023), arXiv:2305.16380, section 6;
    the measure is this library's.

    >>> rows = [(0, 0, 1.0), (0, 1, 0.0), (10, 0, 0.5), (10, 1, 0.5)]
    >>> table = pd.DataFrame(rows, columns=["step", "key", "value"])
    >>> table = table.assign(run="run", layer=0, head=0, row=0, quantity="attention")
    >>> AttentionFreezing().across(table)[["step", "value"]].to_dict("list")
    {'step': [10], 'value': [0.5]}
    """

    quantities = {
        "attention": Quantity("attention", range=(0, 1)),
        "change": Quantity("change of attention", range=(0, 1)),
    }
    reads_predictions = False

    of_all_sequences = True

    rows: int = 16

    def __post_init__(self) -> None:
        if self.rows < 1:
            raise ValueError(f"rows must be at least one scored query, got {self.rows}")

    def read(self, view: View) -> list[Reading]:
        """Return `attention` by layer, head, row and key; without interval."""
        attention, sequence = scored_rows(view.patterns, view.batch.scored, self.rows)
        labels = {"row": range(len(sequence)), "key": range(attention.shape[-1])}
        return [Reading("layer head row key", attention, "attention", labels)]

    def across(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return `change` by layer and head, at the later of each two checkpoints."""
        rows = table[table["quantity"] == "attention"].sort_values("step", kind="stable")
        moved = rows.groupby(["run", "layer", "head", "row", "key"])["value"].diff().abs().div(2)
        a_row = moved.groupby([rows[name] for name in ("run", "step", "layer", "head", "row")]).sum(min_count=1)
        change = a_row.groupby(["run", "step", "layer", "head"]).mean().dropna().reset_index()
        return change.assign(probe=type(self).__name__, quantity="change")
