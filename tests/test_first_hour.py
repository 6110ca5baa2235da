"""Two newcomers with a model of their own follow the README's lines, and nothing else."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from stagewise.checkpoints.audit import audit
from stagewise.checkpoints.series import find
from stagewise.checkpoints.trainer_callbacks import save_on
from stagewise.cli.app import app
from stagewise.schedules import linear
from stagewise.words import CAVEAT
from tests.own_model import own_config, own_model

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf8")
OWN = README[README.index("## Your own model") :]
COMMANDS = re.findall(r"^stagewise (.*?)(?: +#.*)?$", OWN[: OWN.index("## Train")], re.MULTILINE)
LINES = re.findall(r"```py\n(.*?)```", OWN, re.DOTALL)
EVERY = [*range(0, 200, 10), 200]


def call(*arguments: str) -> str:
    result = CliRunner().invoke(app, [*arguments])
    assert result.exit_code == 0, result.output
    return result.output


def twice(n: int, half: int, vocabulary: int) -> torch.Tensor:
    x = torch.randint(vocabulary, (n, half), generator=torch.Generator().manual_seed(n))
    return torch.cat([x, x], 1)


def hooked(folder: Path) -> Any:
    """A model of one's own that learns to copy, saved as its state dictionaries."""
    model = own_model(
        own_config(n_layers=2, d_model=64, n_ctx=32, d_head=16, n_heads=4, d_vocab=32, attn_only=True, seed=0)
    )
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3)
    data = twice(64 * 201, 16, 32).split(64)
    folder.mkdir()
    for step in range(201):
        if step in EVERY:
            torch.save(model.state_dict(), folder / f"step-{step}.pt")
        optimiser.zero_grad()
        model(data[step], return_type="loss").backward()
        optimiser.step()
    return model


def claims_nothing(printed: str) -> None:
    """What was found on a foreign batch stands below a line that says so."""
    before, after = printed.split(f"\n{CAVEAT}:\n")
    assert before.startswith("The probe batch is foreign to this model")
    assert not re.search(r"L\dH\d|stage \d", before)
    assert all(line.startswith(("  ", "report: ")) for line in after.splitlines())


@pytest.mark.slow
def test_a_hooked_transformer_of_ones_own_is_found_to_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    model = hooked(tmp_path / "my-run")
    printed: list[str] = []
    (lines,) = LINES
    exec(lines, {"model": model, "tokens": twice(64, 16, 32), "print": lambda value: printed.append(str(value))})
    assert "nothing is wrong" in printed[0]
    assert "foreign" not in printed[0]
    (tmp_path / "my-run" / "config.json").write_text(json.dumps(model.cfg.to_dict(), default=str))
    assert audit(find("my-run")).clean
    torch.save(twice(64, 16, 32), "my-data.pt")
    found = call(*shlex.split(COMMANDS[0]), "--quiet")
    assert re.search(r"L\dH\d becomes an induction head", found)
    assert not found.startswith("The probe batch is foreign")
    assert "becomes an induction head" in call(*shlex.split(COMMANDS[1]))
    default = call("report", "my-run", "--quiet")
    assert default.startswith("The probe batch is foreign to this model")
    assert "--tokens FILE" in default.splitlines()[0]
    claims_nothing(default)
    claims_nothing(call("stages", "my-run"))


@pytest.mark.slow
def test_a_gpt_2_of_trainer_has_its_heads_at_a_fixed_offset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    rows = [{"input_ids": row, "labels": row} for row in twice(32 * 400, 32, 64)]
    sizes = {"n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 64, "bos_token_id": 0, "eos_token_id": 0}
    model = GPT2LMHeadModel(GPT2Config(vocab_size=64, **sizes, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0))
    arguments = TrainingArguments(
        "my-run", max_steps=300, per_device_train_batch_size=32, use_cpu=True, disable_tqdm=True, learning_rate=3e-3,
        lr_scheduler_type="constant", save_strategy="no", logging_strategy="no", report_to=[],
    )  # fmt: skip
    Trainer(model, arguments, train_dataset=rows, callbacks=[save_on(linear(15, 300))]).train()
    torch.save(twice(64, 32, 64), "my-data.pt")
    cheap = ["--quiet", "--without", "HeadAblation", "--without", "RestrictedContextKL"]
    found = call(*shlex.split(COMMANDS[0]), *cheap)
    assert "nothing is wrong" in found
    assert not found.startswith("The probe batch is foreign")
    assert re.search(r"becomes an induction head|attends to offset 31", found)
    claims_nothing(call("report", "my-run", *cheap))
    named = call(*shlex.split(COMMANDS[0]), "--relation", "self", "--out", "by-offset", *cheap)
    assert "attends to offset 31" in named
