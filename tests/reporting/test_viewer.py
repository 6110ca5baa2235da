"""The viewers hold the values of the table, say what they leave out, and cannot break the page."""

import base64
import json
import re
from typing import Any

import numpy as np
import pandas as pd
import pytest

from stagewise.detection.stages import Stages
from stagewise.plot.maps import patterns
from stagewise.reporting import viewer as viewers
from stagewise.reporting.viewer import circuitsvis_view, json_script, viewer
from stagewise.table import select


def data_of(page: str) -> dict[str, Any]:
    (text,) = re.findall(r'<script type="application/json" id="viewer-data">(.*?)</script>', page)
    found: dict[str, Any] = json.loads(text)
    return found


def test_the_viewer_holds_every_map_to_the_nearest_of_256_values(table: pd.DataFrame) -> None:
    data = data_of(viewer(table, None))
    packed = np.frombuffer(base64.b64decode(data["values"]), dtype=np.uint8)
    maps = packed.reshape(len(data["steps"]), 2, 4, 4) / 255
    assert data["steps"] == sorted(table["step"].unique())
    assert np.abs(maps[7] - patterns(table, data["steps"][7])).max() <= 0.5 / 255


def test_every_checkpoint_says_the_stage_that_it_is_in(table: pd.DataFrame, stages: Stages) -> None:
    boundary = stages.table["end"].iloc[0]
    data = data_of(viewer(table, stages))
    assert data["stages"] == [f"stage {1 + (step >= boundary)}" for step in data["steps"]]
    assert set(data_of(viewer(table, None))["stages"]) == {""}


def test_checkpoints_beyond_the_room_are_left_out_evenly(table: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(viewers, "VIEWER_VALUES", 3 * 32 + 5)  # 2 heads of 4 by 4 a checkpoint
    page = viewer(table, None)
    assert data_of(page)["steps"] == [0, 300, 600]
    assert "28 of 31 checkpoints are left out" in page
    monkeypatch.setattr(viewers, "VIEWER_VALUES", 31)
    assert "one checkpoint hold 32 values: too many" in viewer(table, None)


def test_circuitsvis_is_given_the_last_mean_attention(table: pd.DataFrame) -> None:
    place, script = circuitsvis_view(table)
    given = json.loads(script.rpartition("CircuitsVis.AttentionHeads, ")[2].partition(");</script>")[0])
    last = select(table, "MeanPattern", "attention", step=600).sort_values(["head", "query", "key"])["value"]
    assert "Step 600." in place
    assert given["attentionHeadNames"] == ["L0H0", "L0H1"]
    np.testing.assert_allclose(np.array(given["attention"]).ravel(), last, atol=1e-4)


def test_no_text_ends_a_script_of_data() -> None:
    script = json_script("a&b", {"name": "</script><b>"})
    assert script.startswith('<script type="application/json" id="a&amp;b">')
    assert script.count("</script") == 1
    assert json.loads(script.partition(">")[2].removesuffix("</script>")) == {"name": "</script><b>"}
