"""Of heads that do the same the first one stands for all, so that models of different sizes can be aligned."""

import pandas as pd
import pytest

from stagewise.findings._milestones import milestones, names
from stagewise.findings.replicates import replicates_of
from stagewise.findings.stages import find_stages


def test_the_first_of_the_heads_that_do_the_same_stands_for_all(one_onset: pd.DataFrame) -> None:
    early = one_onset[one_onset["head"] == 0]
    late = early.assign(head=3, step=3 * early["step"])
    one, other = find_stages(early), find_stages(pd.concat([late, early.assign(head=2)]).assign(run="larger"))
    assert (other.onsets["onset"].sum(), len(milestones(other).onsets)) == (2, 1)
    found = replicates_of([milestones(one), milestones(other)])
    assert names(found.catalogue, found.quantities) == ["the first head attends more to the previous token"]
    (event,) = found.events.to_dict("records")
    assert (event["seeds"], event["step"]) == (2, pytest.approx(one.onsets["t50"].iloc[0], rel=0.01))


def test_stages_without_onsets_stay_as_they_are(one_onset: pd.DataFrame) -> None:
    flat = find_stages(one_onset[one_onset["head"] == 1])
    assert milestones(flat).onsets.empty
