"""Lists within rows and tables with several rows a step: every curve is found, and heads are heads."""

import itertools
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from stagewise.checkpoints._log_layout import flat, head_of, wide
from stagewise.checkpoints.logged_curves import read_log
from stagewise.checkpoints.openers import is_log

STEPS = [*range(0, 60, 10)]
HEADS = [*itertools.product(range(2), range(3))]


def scores(step: int) -> list[list[float]]:
    return [[step * (1 + layer + 10 * head) / 1000 + 0.01 for head in range(3)] for layer in range(2)]


def check_heads(table: pd.DataFrame, quantity: str) -> None:
    assert table["quantity"].unique().tolist() == [quantity]
    for layer, head in HEADS:
        rows = table[(table["layer"] == layer) & (table["head"] == head)]
        np.testing.assert_allclose(rows["value"].to_numpy(), [scores(step)[layer][head] for step in STEPS])
        assert rows["step"].tolist() == STEPS


def test_lists_of_layers_by_heads_in_json_are_curves_of_heads(tmp_path: Path) -> None:
    rows = [{"step": step, "ind": scores(step)} for step in STEPS]
    (tmp_path / "log.json").write_text(json.dumps(rows))
    (tmp_path / "log.jsonl").write_text("\n".join(map(json.dumps, rows)))
    check_heads(read_log(tmp_path / "log.json"), "ind")
    check_heads(read_log(tmp_path / "log.jsonl"), "ind")


@pytest.mark.parametrize("columns", ["step layer head score value", "step Head Layer value score"])
def test_a_long_table_of_heads_is_curves_of_heads(columns: str) -> None:
    rows = [(step, layer, head, "prefix", scores(step)[layer][head]) for step in STEPS for layer, head in HEADS]
    named = dict(zip(("step", "layer", "head", "score", "value"), zip(*rows, strict=True), strict=True))
    frame = pd.DataFrame({name: named[name.lower()] for name in columns.split()})
    check_heads(read_log(frame.sample(frac=1, random_state=0).sort_values("step", kind="stable")), "prefix")


def test_a_long_table_may_name_its_layers_and_leave_out_what_is_of_the_whole_model() -> None:
    rows = [
        (f"checkpoint_{step}.pt", step, layer, name, step / 100)
        for step in STEPS
        for layer, name in (("embed.weight", "norm"), ("head.weight", "norm"), ("head.weight", "rank"))
    ]
    table = read_log(pd.DataFrame(rows, columns=["path", "step", "layer", "metric_name", "metric_value"]))
    assert table["quantity"].unique().tolist() == ["embed.weight/norm", "head.weight/norm", "head.weight/rank"]
    of = ((None, None, "loss"), (1, None, "norm"), (1, 0, "ind"))
    numbers = [(step, *one, step / 100) for step in STEPS for one in of]
    table = read_log(pd.DataFrame(numbers, columns=["step", "layer", "head", "metric", "value"]))
    assert table["quantity"].unique().tolist() == ["loss", "norm/layer 1", "ind"]
    assert table.loc[table["quantity"] == "ind", ["layer", "head"]].drop_duplicates().to_numpy().tolist() == [[1, 0]]


@pytest.mark.parametrize("name", ["ind_L{}H{}", "ind/L{}H{}", "L{}H{}_ind", "L{}.H{}.ind", "ind.L{}_H{}"])
def test_a_column_a_head_is_a_curve_of_that_head(name: str) -> None:
    columns = {name.format(layer, head): [scores(step)[layer][head] for step in STEPS] for layer, head in HEADS}
    check_heads(read_log({"step": STEPS, **columns}), "ind")


def test_a_row_a_task_is_a_column_a_task_and_what_is_absent_did_not_end() -> None:
    rows = [(step, task, step / 100, 50) for step in STEPS for task in ("copy", "add") if (task, step) != ("add", 50)]
    table = read_log(pd.DataFrame(rows, columns=["step", "task", "accuracy", "n"]))
    assert table["quantity"].unique().tolist() == ["copy/accuracy", "add/accuracy"]
    assert table["value"].notna().all()
    assert table["lo"].notna().all()


def test_rows_that_a_resumed_run_wrote_again_are_no_table_of_several_curves() -> None:
    frame = pd.DataFrame({"step": [0, 1, 2, 1, 2], "note": ["a", "b", "c", "b", "c"], "loss": [3.0, 2, 1, 2, 1]})
    assert wide(frame, "step", None, "value") is frame


def test_a_list_of_texts_is_no_curve_and_long_lists_are_named() -> None:
    assert flat({"step": 1, "argv": ["--lr", "1"], "loss": 2.0}) == {"step": 1, "loss": 2.0}
    with pytest.warns(UserWarning, match="'logits' is left out"):
        assert flat({"step": 1, "logits": [0.0] * 5000}) == {"step": 1}


@pytest.mark.parametrize("name", ["H3", "L1", "loss L1H2", "L1H2", "AL1H2 x", "L1H2score"])
def test_names_that_only_look_like_a_heads_are_kept(name: str) -> None:
    assert head_of(name) == (name, {})


def test_arrays_of_numpy_are_curves_and_heads_by_layer(tmp_path: Path) -> None:
    np.savez(tmp_path / "log.npz", step=np.array(STEPS), prefix=np.array([scores(step) for step in STEPS]))
    check_heads(read_log(tmp_path / "log.npz"), "prefix")
    np.savez(tmp_path / "log.npz", step=np.array(STEPS), loss=np.arange(6) / 7, names=np.array(["a", "b"]))
    with pytest.warns(UserWarning, match=r"log.npz: left out, as they have no row a step: names"):
        table = read_log(tmp_path / "log.npz")
    assert table["value"].tolist() == [value / 7 for value in range(6)]


def test_arrays_of_weights_are_no_curves(tmp_path: Path) -> None:
    np.savez(tmp_path / "weights.npz", W_E=np.zeros((4, 4)))
    assert not is_log(tmp_path / "weights.npz")
