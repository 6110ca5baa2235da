"""The walks of docs/walks.md, as they stand there."""

import re
import shlex
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from stagewise import models
from stagewise.cli.app import app
from tests.own_model import as_here

PAGE = (Path(__file__).parents[1] / "docs" / "walks.md").read_text(encoding="utf8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
COMMANDS = [
    re.findall(r"^stagewise (.*?)(?: +#.*)?$", block, re.MULTILINE)
    for block in re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL)
]
(NATIVE,) = re.findall(r"```py\n(.*?)```", PAGE, re.DOTALL)
"""What the page has for TransformerLens 4."""


def walk(code: str, shorter: dict[str, str]) -> dict[str, Any]:
    """Run a walk with fewer steps, and return its names; `print` keeps what it is given."""
    code = code if models.has_hooked_transformer() else NATIVE + as_here(code)
    for text, other in shorter.items():
        assert text in code
        code = code.replace(text, other)
    names: dict[str, Any] = {"said": []}
    names["print"] = lambda value: names["said"].append(str(value))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        exec(code, names)
    return names


@pytest.mark.slow
def test_a_config_of_ones_own_is_trained_to_three_stages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = walk(BLOCKS[0], {})
    assert "stage 1, steps 0 to" in names["said"][0]
    assert (tmp_path / "runs/walk-recipe/report.html").exists()


@pytest.mark.docs
@pytest.mark.usefixtures("few_sequences", "undrawn")
def test_a_config_of_ones_own_runs_to_the_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = walk(BLOCKS[0], {"600": "20", "256": "16", "every=20": "every=5"})
    assert len(names["analysis"].series) == 5
    made = names["model"]
    assert type(made).__name__ == "HookedTransformer" if models.has_hooked_transformer() else models.is_native(made)


@pytest.mark.docs
def test_a_loop_of_ones_own_is_found_to_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    batch, said = walk(BLOCKS[1], {})["said"]
    assert batch.startswith("Batch(64 sequences of 31 tokens; 1984 of 1984 predictions are scored)")
    assert re.search(r"L\dH\d becomes an induction head", said)


@pytest.mark.docs
@pytest.mark.usefixtures("undrawn")
def test_adapters_that_trainer_saved_are_merged_and_found_to_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names = walk(BLOCKS[2], {})
    assert any("lora_A" in name for name, weight in names["model"].named_parameters() if weight.requires_grad)
    ((command,), _) = COMMANDS
    result = CliRunner().invoke(app, shlex.split(command))
    assert result.exit_code == 0, result.output
    (first,) = [line for line in result.output.splitlines() if line.startswith("One transition was found.")]
    (step,) = map(int, re.findall(r"Half-way at step (\d+)", first))
    (head,) = re.findall(r"L(\d)H(\d) becomes an induction head, or one of offset 15: the same on this batch", first)
    attention = copying_attention(names["tokens"][:64])
    assert attention[120].argmax() == 2 * int(head[0]) + int(head[1])
    of_head = {step: float(each.flatten()[attention[120].argmax()]) for step, each in attention.items()}
    late = next(each for each, value in of_head.items() if value > (of_head[10] + of_head[120]) / 2)
    assert late - 10 <= step <= late + 10


def copying_attention(tokens: torch.Tensor) -> dict[int, torch.Tensor]:
    """Return, by step, each head's attention 15 positions back in the second half, as peft's own models have it."""
    from peft import PeftModel
    from transformers import GPT2LMHeadModel

    seen = {}
    for step in range(10, 130, 10):
        base = GPT2LMHeadModel.from_pretrained("base", attn_implementation="eager")
        model = PeftModel.from_pretrained(base, f"my-lora/checkpoint-{step}").eval()
        with torch.no_grad():
            layers = torch.stack(model(tokens, output_attentions=True).attentions)
        seen[step] = layers.diagonal(-15, -2, -1)[..., 1:].mean((1, 3))
    return seen


@pytest.mark.docs
@pytest.mark.filterwarnings("ignore:.* the step is 'step':UserWarning")
def test_a_folder_of_text_logs_is_reported_by_its_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my-logs").mkdir()
    steps, generator = np.arange(0, 3000, 50), np.random.default_rng(0)
    for seed in (0, 1):
        rise = 0.1 + 0.8 / (1 + np.exp(-(steps - 1000 - 100 * seed) / 20)) + 0.003 * generator.standard_normal(60)
        pairs = zip(steps, rise, strict=True)
        lines = [f"[12:00:00] step {step}/3000 | loss: {3 - acc:.4f} | acc={acc:.4f}" for step, acc in pairs]
        (tmp_path / "my-logs" / f"seed-{seed}.log").write_text("\n".join(lines))
    results = [CliRunner().invoke(app, shlex.split(command)) for command in COMMANDS[1]]
    assert [result.exit_code for result in results] == [0, 0, 0], [result.output for result in results]
    assert "acc rises (0.10 -> 0.90)" in results[1].output
    assert "a larger batch" in results[2].output
    assert (tmp_path / "runs/walk-logs/report.html").exists()
