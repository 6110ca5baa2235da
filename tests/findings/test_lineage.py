"""Lineages: planted histories come back as their events, noise as none, and files as what was saved."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from stagewise.checkpoints.run_folder import TABLE, write
from stagewise.findings.lineage import FRAMES, Lineage, _moves_of, _without_passing, _without_short, find_lineage
from stagewise.saved_findings import LINEAGE, load_lineage
from stagewise.table import tidy
from tests.fixtures.profiles import profile_rows

HISTORY: list[Sequence[int | None]] = [
    *[[None, None, None]] * 6,
    *[[3, None, None]] * 6,
    *[[3, 3, None]] * 6,
    *[[3, 6, None]] * 6,
]


def test_a_birth_a_move_and_a_split_come_back_with_their_heads_and_steps() -> None:
    events = find_lineage(profile_rows(HISTORY, noise=0.01)).events
    assert events[["event", "heads", "last_step_before", "first_step_after"]].to_numpy().tolist() == [
        ["birth", "L0H0", 50, 60],
        ["move", "L0H1", 110, 120],
        ["split", "L0H1", 170, 180],
    ]


def test_kinds_are_named_by_what_they_attend_to() -> None:
    lineage = find_lineage(profile_rows(HISTORY))
    assert lineage.kinds[["kind", "name", "heads"]].to_numpy().tolist() == [
        [1, "diffuse", 3],
        [2, "offset 3", 2],
        [3, "offset 6", 1],
    ]
    assert "L0H1 leaves kind 2 (offset 3): kind 3 (offset 6) splits off" in str(lineage)


def test_noise_alone_has_no_events() -> None:
    assert find_lineage(profile_rows([[None, 2, 2]] * 25, noise=0.03)).events.empty


def test_a_folder_keeps_its_lineage_until_the_table_changes(tmp_path: Path) -> None:
    write(tmp_path / TABLE, tidy([profile_rows(HISTORY)]).to_parquet)
    lineage = load_lineage(tmp_path)
    assert lineage is not None
    saved = Lineage.of(json.loads((tmp_path / LINEAGE).read_text(encoding="utf8")))
    for name in FRAMES:
        pd.testing.assert_frame_equal(getattr(saved, name), getattr(lineage, name))
    written = (tmp_path / LINEAGE).stat().st_mtime_ns
    load_lineage(tmp_path)
    assert (tmp_path / LINEAGE).stat().st_mtime_ns == written
    write(tmp_path / TABLE, tidy([profile_rows(HISTORY[:14])]).to_parquet)
    shorter = load_lineage(tmp_path)
    assert shorter is not None
    assert len(shorter.events) == 2


def test_a_table_without_patterns_is_refused() -> None:
    rows = pd.DataFrame({"run": ["a"], "step": [0], "probe": ["Loss"], "quantity": ["excess"], "value": [1.0]})
    with pytest.raises(ValueError, match=r"no patterns of heads: measure the attention of heads"):
        find_lineage(rows)


CASES = {
    "birth": ([0, 0, 0], [0, 0, 1], (2,)),
    "split": ([1, 1, 0], [1, 2, 0], (1,)),
    "change": ([1, 0, 0], [2, 0, 0], (0,)),
    "merge": ([1, 2, 2], [1, 1, 1], (1, 2)),
    "death": ([1, 0, 0], [0, 0, 0], (0,)),
    "move": ([1, 1, 0], [1, 0, 0], (1,)),
    "swap": ([1, 2, 0], [2, 1, 0], (0, 1)),
}
"""Event -> kinds of three heads before and after, and the heads that move; kind 0 is what all started with."""


@pytest.mark.parametrize("event", CASES)
def test_an_event_is_named_by_what_becomes_of_the_kinds(event: str) -> None:
    before, after, heads = CASES[event]
    ((t, move),) = _moves_of(np.array([before, before, after, after]), lambda _, kind: kind == 0)
    assert (t, move.event, move.heads) == (2, event, heads)


def test_kinds_that_are_one_half_way_have_changed_places() -> None:
    labels = np.array([[1, 2], [1, 2], [1, 1], [1, 1], [2, 1], [2, 1]])
    ((t, move),) = _moves_of(labels, lambda *_: False)
    assert (t, move.event, move.before, move.heads) == (4, "swap", (1, 2), (0, 1))


def test_a_permutation_of_three_is_one_swap() -> None:
    ((_, move),) = _moves_of(np.array([[0, 1, 2, 2], [1, 2, 0, 2]]), lambda *_: False)
    assert (move.event, move.heads) == ("swap", (0, 1, 2))


def test_a_head_keeps_its_label_on_short_visits_and_passing_kinds_go() -> None:
    short = _without_short(np.array([[0], [0], [1], [0], [2], [2]]), 2)
    assert short.ravel().tolist() == [0, 0, 0, 0, 2, 2]
    passing = _without_passing(np.array([[0], [0], [1], [1], [2], [2]]))
    assert passing.ravel().tolist() == [0, 0, 2, 2, 2, 2]
