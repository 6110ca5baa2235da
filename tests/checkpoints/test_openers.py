"""One list of ways to open a source: whatever kind it is, every function and command takes it for the same."""

import dataclasses
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM
from typer.testing import CliRunner

from stagewise.checkpoints import openers
from stagewise.checkpoints.logged_curves import read_log
from stagewise.checkpoints.openers import Opener, is_log
from stagewise.checkpoints.series import open_series
from stagewise.checkpoints.sources import in_memory
from stagewise.cli.app import app
from stagewise.recipe import Recipe
from stagewise.training import train
from tests.checkpoints.test_log_folders import by_torch, mlflow_run
from tests.test_foreign_folders import COMMANDS

pytestmark = pytest.mark.usefixtures("unchecked", "undrawn", "few_sequences")

ROWS = [{"step": 10 * k, "loss": 3 - k / 10} for k in range(8)]

LLAMA = LlamaConfig(
    hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2, vocab_size=12, head_dim=8
)


def llama(seed: int) -> LlamaForCausalLM:
    torch.manual_seed(seed)
    return LlamaForCausalLM(LLAMA)


def a_run(folder: Path, recipe: Recipe) -> Path:
    train(recipe, folder / "run", progress=False)
    return folder / "run"


def trainers_folders(folder: Path, recipe: Recipe) -> Path:
    for step in (10, 20):
        llama(step).save_pretrained(folder / f"checkpoint-{step}")
    return folder


def one_model(folder: Path, recipe: Recipe) -> Path:
    llama(0).save_pretrained(folder)
    return folder


def one_file(folder: Path, recipe: Recipe) -> Path:
    trainers_folders(folder, recipe)
    return (folder / "checkpoint-10" / "model.safetensors").rename(folder / "checkpoint-10" / "step_10.safetensors")


def a_list_in_a_file(folder: Path, recipe: Recipe) -> Path:
    states = [llama(seed).state_dict() for seed in (0, 1)]
    torch.save({"checkpoints": states, "config": LLAMA.to_dict()}, folder / "run.pt")
    return folder / "run.pt"


def files_beside_a_log(folder: Path, recipe: Recipe) -> Path:
    LLAMA.save_pretrained(folder)
    for step in (10, 20):
        torch.save(llama(step).state_dict(), folder / f"model_{step}.pt")
    for row in ROWS:
        (folder / f"metrics_{row['step']}.json").write_text(json.dumps(row))
    by_torch(folder)
    return folder


def of_llama_cpp(folder: Path, recipe: Recipe) -> Path:
    gguf = pytest.importorskip("gguf", reason="gguf is not installed")
    writer = gguf.GGUFWriter(folder / "tiny.gguf", "llama")
    for name, size in {
        "embedding_length": 16,
        "feed_forward_length": 32,
        "context_length": 32,
        "block_count": 1,
    }.items():
        getattr(writer, f"add_{name}")(size)
    writer.add_head_count(2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(12)
    known = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
    known |= {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v"}
    known |= {"self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up"}
    known |= {"mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm"}
    for name, weight in llama(0).state_dict().items():
        theirs = known[name.removesuffix(".weight").removeprefix("model.layers.0.")]
        within = "blk.0." if "layers.0." in name else ""
        writer.add_tensor(f"{within}{theirs}.weight", weight.numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return folder / "tiny.gguf"


def a_folder_of_llama_cpp(folder: Path, recipe: Recipe) -> Path:
    return of_llama_cpp(folder, recipe).parent


CHECKPOINTS = {
    make.__name__: make
    for make in (
        *(a_run, trainers_folders, one_model, one_file, a_list_in_a_file, files_beside_a_log),
        *(of_llama_cpp, a_folder_of_llama_cpp),
    )
}


def separated(folder: Path) -> Path:
    pd.DataFrame(ROWS).to_csv(folder / "log.csv", index=False)
    return folder / "log.csv"


def parquet(folder: Path) -> Path:
    pd.DataFrame(ROWS).to_parquet(folder / "log.parquet")
    return folder / "log.parquet"


def json_lines(folder: Path) -> Path:
    (folder / "log.jsonl").write_text("\n".join(map(json.dumps, ROWS)))
    return folder / "log.jsonl"


def printed(folder: Path) -> Path:
    (folder / "train.out").write_text("\n".join(f"step {row['step']} loss {row['loss']}" for row in ROWS))
    return folder / "train.out"


def folder_of_texts(folder: Path) -> Path:
    return printed(folder).parent


def json_a_step(folder: Path) -> Path:
    for row in ROWS:
        (folder / f"step_{row['step']}.json").write_text(json.dumps(row))
    return folder


def of_mlflow(folder: Path) -> Path:
    mlflow_run(folder / "0" / "calm-sea", "calm-sea")
    return folder


def of_tensorboard(folder: Path) -> Path:
    by_torch(folder)
    torch.save({"a": torch.ones(2)}, folder / "model.pt")  # no step in its name: no series
    return folder


CURVES = {
    make.__name__: make
    for make in (separated, parquet, json_lines, printed, folder_of_texts, json_a_step, of_mlflow, of_tensorboard)
}

TAKE_A_SOURCE = {
    name: command
    for name, command in COMMANDS.items()
    if any(each.param_type_name == "argument" and each.name in ("source", "sources") for each in command.params)
}

OF_WEIGHTS = {"measure", "audit", "relations"}
"""Last words of the commands that need weights."""


LITTLE = {"--sequences": "4", "--only": "Loss"}
"""Options that leave little to measure."""


def answered(name: str, source: Path, out: Path, few: Mapping[str, str]) -> Any:
    """Run a command on a source."""
    values = {**few, "--out": str(out), **({"--to": "parquet"} if name.endswith("export") else {})}
    options = {option for each in TAKE_A_SOURCE[name].params for option in each.opts}
    flags = ["--once"] if "--once" in options else []
    given = [word for option, value in values.items() if option in options for word in (option, value)]
    return CliRunner().invoke(app, [*name.split(), str(source), *flags, *given])


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "elsewhere"
    place.mkdir()
    monkeypatch.chdir(place)
    return place


@pytest.mark.filterwarnings("default")  # which say how a text was read
@pytest.mark.each_value
@pytest.mark.parametrize("kind", CURVES)
@pytest.mark.parametrize("name", TAKE_A_SOURCE)
def test_curves_are_curves_to_everything(kind: str, name: str, tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    source = CURVES[kind](tmp_path / "source")
    assert is_log(source)
    assert len(read_log(source))
    with pytest.raises(ValueError, match="holds curves and no checkpoints"):
        open_series(source)
    result = answered(name, source, tmp_path / "out", {})
    refused = "holds curves and no checkpoints" in result.stderr
    assert refused is (name.split()[-1] in OF_WEIGHTS), result.stderr
    assert result.exit_code == 2 or not refused
    assert result.exit_code == 0 or name != "report"


@pytest.mark.one_of(2)
@pytest.mark.parametrize(
    ("kind", "names"),
    [(kind, ["audit", "measure"]) for kind in CHECKPOINTS if kind != "of_llama_cpp"]
    + [("of_llama_cpp", ["audit", "measure", "report", "stages"])]
    + [pytest.param(kind, [*TAKE_A_SOURCE], marks=pytest.mark.slow) for kind in CHECKPOINTS],
)
def test_checkpoints_are_checkpoints_to_everything(
    kind: str, names: list[str], small_recipe: Recipe, tmp_path: Path
) -> None:
    (tmp_path / "source").mkdir()
    source = CHECKPOINTS[kind](tmp_path / "source", small_recipe)
    assert not is_log(source)
    assert len(open_series(source))
    with pytest.raises(ValueError, match=r"holds no curves: `stagewise\.open_series` opens it"):
        read_log(source)
    for name in names:
        result = answered(name, source, tmp_path / name, LITTLE)
        assert not re.search("holds curves|is no text|no columns", result.stderr), (name, result.stderr)
        if name.split()[-1] in ("measure", "report", "audit"):
            assert result.exit_code == 0, (name, result.stderr)


def test_a_source_that_is_not_there_is_missing_to_everything(tmp_path: Path) -> None:
    for name in TAKE_A_SOURCE:
        result = answered(name, tmp_path / "nothing.csv", tmp_path / name, {})
        assert result.exit_code == 2, (name, result.output)
        assert len(result.stderr.splitlines()) < 4, (name, result.output)
    with pytest.raises(FileNotFoundError, match=r"there is no .*nothing\.csv"):
        read_log(tmp_path / "nothing.csv")


@pytest.mark.parametrize("name", ["weights.npz", "weights.msgpack", "model.h5"])
def test_weights_in_another_form_are_said_to_be_so(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"\0\1\2")
    assert not is_log(tmp_path / name)
    with pytest.raises(FileNotFoundError, match=r"holds weights of .*: "):
        open_series(tmp_path / name)


def two_of_mine(path: Any) -> bool:
    return isinstance(path, str | Path) and Path(path).suffix == ".mine"


def test_a_package_adds_a_way_to_open_a_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = Opener("mine", two_of_mine, lambda path, _: in_memory([(7, llama(0))], "mine"))
    curves = Opener("my curves", lambda path: str(path).endswith(".curve"), curves=lambda path: pd.DataFrame(ROWS))
    ways = {"a": mine, "b": curves}

    @dataclasses.dataclass(frozen=True)
    class Entry:
        name: str

        def load(self) -> Opener:
            return ways[self.name]

    monkeypatch.setattr(openers, "added", lambda group: {name: Entry(name) for name in ways if group == "formats"})
    for name in ("x.mine", "x.curve"):
        (tmp_path / name).touch()
    assert open_series(tmp_path / "x.mine").steps == (7,)
    assert read_log(tmp_path / "x.curve")["value"].tolist() == [row["loss"] for row in ROWS]
