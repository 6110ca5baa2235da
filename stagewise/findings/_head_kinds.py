"""Previous-token and induction heads of a model of text: which heads, and from which step on."""

import pandas as pd

from stagewise.event import HEAD_KINDS
from stagewise.findings._frames import rows_of
from stagewise.findings.onsets import find_onsets
from stagewise.statistics import DEFAULT, StageCriteria
from stagewise.table import Role


def head_onsets(table: pd.DataFrame, criteria: StageCriteria = DEFAULT) -> pd.DataFrame:
    """Return the onsets of every head's attention along each kind's relation, with the `kind`, the `largest` value, and
    whether it is `named`: it has an onset, and once had 0.3 (`criteria.named`) there.
    """
    rows = rows_of(table, Role.ATTENTION_ALONG)
    onsets = find_onsets(rows[rows["relation"].isin(HEAD_KINDS.values())], criteria)
    largest = rows.groupby(["relation", "layer", "head"])["value"].max().rename("largest").reset_index()
    kinds = {relation: kind for kind, relation in HEAD_KINDS.items()}
    onsets = onsets.merge(largest, on=["relation", "layer", "head"])
    named = onsets["onset"] & (onsets["largest"] >= criteria.named)
    return onsets.assign(kind=onsets["relation"].map(kinds), named=named)
