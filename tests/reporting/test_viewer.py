"""The viewers hold the values of the table, say what they leave out, and cannot break the page."""

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest

from stagewise.plot.maps import patterns
from stagewise.reporting import _viewer as viewers
from stagewise.reporting._html import json_script
from stagewise.reporting._measured import Measured
from stagewise.reporting._viewer import viewer
from tests.fixtures.packed import data_in, packed_in


def of(table: pd.DataFrame) -> Measured:
    return Measured({}, table)


def views_of(page: str) -> list[dict[str, Any]]:
    """The views of a page with their values, which lie one behind the other."""
    found: list[dict[str, Any]] = data_in(page, "viewer-data")
    values = packed_in(page, "viewer-values")
    stops = [*(view["start"] for view in found[1:]), len(values)]
    return [{**view, "values": values[view["start"] : stop]} for view, stop in zip(found, stops, strict=True)]


def maps_in_view(view: dict[str, Any]) -> np.ndarray:
    """The maps [step, head, query, key] of a view, as the page's script reads them."""
    sizes = len(view["heads"]), len(view["tokens"]), len(view["tokens"]), len(view["steps"])
    return np.moveaxis(np.frombuffer(view["values"], dtype=np.uint8).reshape(sizes), -1, 0) / 255


def test_the_viewer_holds_every_mean_map_to_the_nearest_of_256_values(table: pd.DataFrame) -> None:
    page = viewer(of(table))
    (view,) = views_of(page)
    assert view["steps"] == sorted(table["step"].unique())
    assert (view["heads"], view["tokens"]) == (["L0H0", "L0H1"], ["0", "1", "2", "3"])
    assert np.abs(maps_in_view(view)[7] - patterns(table, view["steps"][7])).max() <= 0.5 / 255
    assert b"CircuitsVis" in packed_in(page, "circuitsvis-library")


def test_checkpoints_beyond_the_room_are_left_out_evenly(table: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(viewers, "VIEWER_VALUES", 3 * 32 + 5)  # 2 heads of 4 by 4 a checkpoint
    monkeypatch.setattr(viewers, "STEPS", 3)
    page = viewer(of(table))
    (view,) = views_of(page)
    assert view["steps"] == [0, 240, 600]
    assert view["name"].endswith("3 checkpoints")
    assert "16 of 19 checkpoints are left out" in page


@pytest.mark.parametrize("limit", [{"VIEWER_VALUES": 4 * 16, "STEPS": 4}, {"HEADS": 1}])
def test_heads_that_moved_least_are_left_out_first(
    limit: dict[str, int], table: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in limit.items():
        monkeypatch.setattr(viewers, name, value)
    page = viewer(of(table))
    (view,) = views_of(page)
    first, last = patterns(table, 0), patterns(table, 600)
    most = int(np.abs(last - first).mean((1, 2)).argmax())
    assert (view["heads"], len(view["steps"])) == ([f"L0H{most}"], limit.get("STEPS", 19))
    assert "the 1 of 2 heads whose attention moved most" in page


def test_long_maps_are_shown_in_blocks_that_keep_what_a_query_attends_to(
    table: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(viewers, "SIDE", 2)
    table = table.assign(map=table["map"].map(lambda cells: cells / 4))  # no more than one in a row
    (view,) = views_of(viewer(of(table)))
    maps, whole = maps_in_view(view), patterns(table, 600)
    expected = sum(whole[0, query, key] for query in (2, 3) for key in (0, 1)) / 2
    assert view["tokens"] == ["0-1", "2-3"]
    assert maps[-1, 0, 1, 0] == pytest.approx(expected, abs=0.5 / 255)
    np.testing.assert_allclose(maps[-1].sum(-1), whole.sum(-1).reshape(2, 2, 2).mean(-1), atol=1 / 255)


def test_one_sequence_is_beside_the_mean_and_no_text_in_it_ends_the_script(table: pd.DataFrame) -> None:
    last = [[1.0, 0.0], [0.25, 0.75]]
    attention = {"140": [np.eye(2).tolist()], "600": [last]}
    example = {"tokens": ["</script>", " cat"], "heads": ["L0H1"], "attention": attention}
    corrupted = {"tokens": ["</script>", " dog"], "attention": attention}
    page = viewer(of(table)._replace(example={**example, "corrupted": corrupted}))
    _, view, other = views_of(page)
    assert (other["name"], other["tokens"]) == ("the same one, corrupted, 2 checkpoints", ["</script>", " dog"])
    assert (view["steps"], view["heads"], view["tokens"]) == ([140, 600], ["L0H1"], ["</script>", " cat"])
    np.testing.assert_allclose(maps_in_view(view)[1, 0], last, atol=0.5 / 255)
    assert "</script> cat" not in page


def test_no_text_ends_a_script_of_data() -> None:
    script = json_script("a&b", {"name": "</script><b>"})
    assert script.startswith('<script type="application/json" id="a&amp;b">')
    assert script.count("</script") == 1
    assert json.loads(script.partition(">")[2].removesuffix("</script>")) == {"name": "</script><b>"}
