"""The viewers hold the values of the table, say what they leave out, and cannot break the page."""

import base64
import json
from typing import Any

import numpy as np
import pandas as pd
import pytest

from stagewise.findings.stages import Stages
from stagewise.plot.maps import patterns
from stagewise.reporting import _viewer as viewers
from stagewise.reporting._measured import Measured
from stagewise.reporting._viewer import circuitsvis_view, json_script, viewer
from tests.fixtures.packed import data_in


def of(table: pd.DataFrame) -> Measured:
    return Measured({}, None, table, None, {}, 0)


def data_of(page: str) -> dict[str, Any]:
    found: dict[str, Any] = data_in(page, "viewer-data")
    return found


def test_the_viewer_holds_every_map_to_the_nearest_of_256_values(table: pd.DataFrame) -> None:
    data = data_of(viewer(of(table), None))
    packed = np.frombuffer(base64.b64decode(data["values"]), dtype=np.uint8)
    maps = packed.reshape(len(data["steps"]), 2, 4, 4) / 255
    assert data["steps"] == sorted(table["step"].unique())
    assert np.abs(maps[7] - patterns(table, data["steps"][7])).max() <= 0.5 / 255


def test_every_checkpoint_says_the_stage_that_it_is_in(table: pd.DataFrame, stages: Stages) -> None:
    boundary = stages.table["end"].iloc[0]
    data = data_of(viewer(of(table), stages))
    assert data["stages"] == [f"stage {1 + (step >= boundary)}" for step in data["steps"]]
    assert set(data_of(viewer(of(table), None))["stages"]) == {""}


def test_checkpoints_beyond_the_room_are_left_out_evenly(table: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(viewers, "VIEWER_VALUES", 3 * 32 + 5)  # 2 heads of 4 by 4 a checkpoint
    monkeypatch.setattr(viewers, "STEPS", 3)
    page = viewer(of(table), None)
    assert data_of(page)["steps"] == [0, 240, 600]
    assert "16 of 19 checkpoints are left out" in page


def test_heads_that_moved_least_make_room_for_checkpoints(table: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(viewers, "VIEWER_VALUES", 4 * 16)
    monkeypatch.setattr(viewers, "STEPS", 4)
    page = viewer(of(table), None)
    first, last = patterns(table, 0), patterns(table, 600)
    most = int(np.abs(last - first).mean((1, 2)).argmax())
    assert (data_of(page)["heads"], len(data_of(page)["steps"])) == ([f"L0H{most}"], 4)
    assert "the 1 of 2 heads whose attention moved most" in page


def test_long_maps_are_shown_in_blocks_that_keep_what_a_query_attends_to(
    table: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(viewers, "SIDE", 2)
    table = table.assign(map=table["map"].map(lambda cells: cells / 4))  # no more than one in a row
    data = data_of(viewer(of(table), None))
    maps = np.frombuffer(base64.b64decode(data["values"]), dtype=np.uint8).reshape(-1, 2, 2, 2) / 255
    whole = patterns(table, 600)
    expected = sum(whole[0, query, key] for query in (2, 3) for key in (0, 1)) / 2
    assert (data["size"], data["block"]) == ([2, 2], 2)
    assert maps[-1, 0, 1, 0] == pytest.approx(expected, abs=0.5 / 255)
    np.testing.assert_allclose(maps[-1].sum(-1), whole.sum(-1).reshape(2, 2, 2).mean(-1), atol=1 / 255)


def test_circuitsvis_is_given_the_last_mean_attention(table: pd.DataFrame) -> None:
    place, script = circuitsvis_view(of(table))
    given = data_in(script, "circuitsvis-data")
    assert "Step 600, the end" in place
    assert given["attentionHeadNames"] == ["L0H0", "L0H1"]
    np.testing.assert_allclose(given["attention"], patterns(table, 600), atol=1e-4)


def test_circuitsvis_shows_the_checkpoint_at_each_boundary(table: pd.DataFrame, stages: Stages) -> None:
    place, script = circuitsvis_view(of(table)._replace(stages=stages))
    (boundary,) = stages.table["start"].iloc[1:]
    steps = np.array(sorted(table["step"].unique()))
    nearest = steps[np.abs(steps - boundary).argmin()]
    assert f"Step {nearest}, the end of stage 1" in place
    given = data_in(script, "circuitsvis-0-data")
    np.testing.assert_allclose(given["attention"], patterns(table, int(nearest)), atol=1e-4)
    assert place.count("<details") == 2


def test_no_text_ends_a_script_of_data() -> None:
    script = json_script("a&b", {"name": "</script><b>"})
    assert script.startswith('<script type="application/json" id="a&amp;b">')
    assert script.count("</script") == 1
    assert json.loads(script.partition(">")[2].removesuffix("</script>")) == {"name": "</script><b>"}
