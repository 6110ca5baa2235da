"""Every block of code and every command of the pages runs, at small sizes, in a folder that holds what they name.

A page is read from top to bottom, as one would: its blocks share their names and their folder. What a new page adds is
run too; a command that is of no known kind fails here.
"""

import functools
import importlib.resources
import importlib.util
import json
import math
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from typer.testing import CliRunner

import stagewise
from stagewise import models
from stagewise.checkpoints.hub import Hub
from stagewise.checkpoints.run_folder import ANALYSIS, TABLE, write, write_json
from stagewise.cli.app import app
from stagewise.measurement.probe_batch import THE_BASE
from stagewise.probes import AttentionTo, KLToReference, Loss
from stagewise.table import Quantity, declare
from tests.own_model import as_here, own_config, own_model

pytestmark = pytest.mark.usefixtures("few_sequences", "undrawn", "unchecked", "no_workers")

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)
INCLUDED = re.compile(r'--8<-- "([^":]+)')
PYTHON, SHELL = {"py", "python"}, {"bash", "sh"}

ELSEWHERE = {"README.md": ("MarkovChain(d_vocab=24", "test_readme.py")}
"""Page -> how a block of it begins that a test file of its own runs, and that file."""

SMALL = {
    "run": ["--steps", "4", "--heads", "2", "--layers", "1", "--set", "plan.batch_size=8", "--set", "plan.save=[2]"],
    "train": ["--steps", "4"],
    "train markov": ["--set", "task.n_sequences=100"],
    "run markov": ["--set", "task.n_sequences=100"],
    "cause intervene": ["--from", "16"],
    "cause branch": ["--from", "16"],
    "cause certify": ["--from", "16", "--dry-run"],
    "cause samples": ["--head", "L0H0", "--event", "1", "--from", "16"],
}
"""Command, or command and task -> options that make it small; those of the page stay."""

EXAMPLES = {"examples/induction_heads.py": {"steps": 40}}
"""Example -> arguments of its `main` that make it small."""

LATE = "late"
"""The run with a transition, in the place of the pages."""

PUBLIC = "EleutherAI/pythia-70m"
"""The repository of the hub that pages name."""

WITH_BARS = {"run", "train", "report", "measure"}
NOT_RUN = {"pre-commit": "it writes into the repository", "pip": "it needs the network"}
"""Program that a page calls -> why no test runs it."""


ONLY_4 = "transformer_lens.model_bridge.sources.native import boot"
"""What a block imports that TransformerLens 4 alone has: in its environment the walks run with it."""


class Block(NamedTuple):
    """A block of a page: its language, its code."""

    language: str
    code: str


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf8")
    return [Block(found[1], found[2]) for found in BLOCK.finditer(text) if found[1]]


WHOLE_PAGES = {"other-tools.md": "reporting/test_other_tools.py"}
"""Page -> the test file of its own that runs all its blocks, on a run that they suit."""

WITH_BLOCKS = [page for page in PAGES if blocks(page) and page.name not in WHOLE_PAGES]


@functools.cache
def model() -> Any:
    sizes: dict[str, Any] = {"n_layers": 1, "d_model": 8, "d_head": 4, "n_heads": 2, "n_ctx": 8, "d_vocab": 8}
    return own_model(own_config(**sizes, attn_only=True, seed=0))


def tokens() -> torch.Tensor:
    return torch.randint(8, (8, 8), generator=torch.Generator().manual_seed(0))


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, one_onset: Any, late_folder: Path) -> Iterator[Path]:
    """A folder with the files that the pages name: a run of one's own, its data, three seeds, a task and a probe."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    shutil.copytree(late_folder, LATE)
    Path("my-run").mkdir()
    for step in (0, 10, 20, 30):
        torch.save(
            {name: weight + step / 100 for name, weight in model().state_dict().items()}, f"my-run/step-{step}.pt"
        )
    Path("my-run/config.json").write_text(json.dumps(model().cfg.to_dict(), default=str), encoding="utf8")
    Path("base-model").mkdir()
    torch.save(dict(model().state_dict()), "base-model/pytorch_model.bin")
    shutil.copy("my-run/config.json", "base-model")
    torch.save(tokens(), "my-data.pt")
    Path("my.txt").write_text("the cat saw the dog and the dog saw the cat again while a bird sang " * 40)
    verses = (importlib.resources.files("stagewise.papers.tasks") / "king_james.txt").read_text(encoding="utf8")
    Path("wikitext-2").mkdir()
    for split in ("train", "valid", "test"):
        Path(f"wikitext-2/{split}.txt").write_text(verses, encoding="utf8")
    Path("my-logs").mkdir()
    for seed in range(2):
        lines = (f"step {k}/2000, loss={4 - 3 / (1 + math.exp((1000 - k) / 60)):.3f}" for k in range(seed, 2001, 40))
        Path(f"my-logs/seed-{seed}.log").write_text("\n".join(lines), encoding="utf8")
    shutil.copy(ROOT / "examples" / "own_task_and_probe.py", "mine.py")
    for seed in range(3):
        Path(f"runs/seed-{seed}/tables").mkdir(parents=True)
        one_onset.assign(run=f"seed-{seed}", nested=0).to_parquet(f"runs/seed-{seed}/tables/measurements.parquet")
    margins = one_onset.assign(run="mine", probe="AnswerMargin", quantity="margin", n=8)
    declare(margins, {"AnswerMargin": {"margin": Quantity("answer margin", "nats", progress="up")}})
    write(Path("runs/mine", TABLE), lambda partial: margins.to_parquet(partial, index=False))
    record = {"format": 1, "series": {"name": "mine"}, "recipe": {"architecture": {"config": {"d_vocab": 8}}}}
    write_json(Path("runs/mine", ANALYSIS), record)
    yield tmp_path
    sys.modules.pop("mine", None)


@pytest.fixture
def hub(
    tmp_path: Path, local_hub: Callable[..., Any], saved: Callable[..., Any], tokenizer: str, monkeypatch: Any
) -> None:
    """The repository that the pages name, on this machine."""
    texts = {"tokenizer.json": Path(tokenizer).read_bytes()}
    served = local_hub({name: saved("GPTNeoX", i) | texts for i, name in enumerate(("main", "step0", "step512"))})
    served.repository = PUBLIC
    here = functools.partial(Hub, cache=tmp_path / "cache", endpoint=served.endpoint)
    monkeypatch.setattr("stagewise.checkpoints.hub.Hub", here)


@pytest.fixture
def few_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    """What takes the default probes takes two, three after a base; reports of one run are left out. The slow suite has
    all of it.
    """

    def few(architecture: Any, batch: stagewise.Batch, *_: Any) -> list[Any]:
        return [Loss(), AttentionTo(), *([KLToReference()] if THE_BASE in batch.references else [])]

    monkeypatch.setattr("stagewise.probes.default_probes.default_probes", few)
    monkeypatch.setattr("stagewise.analysis.report", lambda folder, **_: folder / "report.html")


def trainer() -> Any:
    """A trainer of transformers that trains for one step."""
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

    sizes = {"n_embd": 8, "n_layer": 1, "n_head": 2, "n_positions": 8, "bos_token_id": 0, "eos_token_id": 0}
    rows = [{"input_ids": row, "labels": row} for row in tokens()]
    arguments = TrainingArguments("trained", max_steps=1, use_cpu=True, disable_tqdm=True, report_to=[])
    return Trainer(GPT2LMHeadModel(GPT2Config(vocab_size=8, **sizes)), arguments, train_dataset=rows)


def call(words: list[str]) -> None:
    """Run a command line of a page, made small."""
    program, *rest = words
    if program == "stagewise":
        if rest[0] == "cause":
            rest = _with_transition(rest)
        small = [
            *SMALL.get(rest[0], []),
            *SMALL.get(" ".join(rest[:2]), []),
            *(["--quiet"] if rest[0] in WITH_BARS else []),
        ]
        result = CliRunner().invoke(app, [*rest, *small])
        assert result.exit_code == 0, f"{shlex.join(words)}: {result.output}"
    elif program == "make":
        subprocess.run(["make", "--dry-run", *rest], cwd=ROOT, check=True, capture_output=True)
    elif rest[:1] and rest[0] in EXAMPLES:
        folder = Path("runs", Path(rest[0]).stem.replace("_", "-"))
        runpy.run_path(str(ROOT / rest[0]))["main"](folder, **EXAMPLES[rest[0]])
    elif program.endswith("python"):
        assert importlib.util.find_spec(rest[1]) if rest[0] == "-m" else any((ROOT / word).exists() for word in rest)
    else:
        assert program in NOT_RUN, f"there is no way to run {shlex.join(words)}: add one here"


def _with_transition(words: list[str]) -> list[str]:
    """A command on causes, of a short run with a transition in the place of the page's, whose relation is `lag`."""
    shutil.rmtree(words[2], ignore_errors=True)
    shutil.copytree(LATE, words[2])
    return [word.replace("I(2)", "lag").replace("L1H0", "L0H0") for word in words]


def read(page: Path) -> None:
    """Run the blocks of a page in their order, with the names that they take as given."""
    names: dict[str, Any] = {"__name__": "page", "model": model(), "tokens": tokens()}
    names["batch"] = stagewise.Batch.from_tokens(tokens())
    for language, code in blocks(page):
        if ONLY_4 in code and models.has_hooked_transformer():
            continue
        if INCLUDED.search(code) or (page.name in ELSEWHERE and ELSEWHERE[page.name][0] in code):
            continue
        if re.search(r"\btrainer\b", code):
            names["trainer"] = trainer()
        if language == "pycon":
            continue  # tests/test_reference.py runs it
        if language in SHELL:
            for line in filter(None, (line.partition("#")[0].strip() for line in code.splitlines())):
                call(shlex.split(line))
        else:
            assert language in PYTHON, f"{page.name} has a block of {language}: say here how it is run"
            exec(compile(as_here(code), page.name, "exec"), names)
    if "trainer" in names:
        names["trainer"].train()


@pytest.mark.docs
@pytest.mark.filterwarnings("ignore:.*the step is:UserWarning")
@pytest.mark.usefixtures("place", "few_probes")
@pytest.mark.parametrize("page", WITH_BLOCKS, ids=lambda page: page.name)
def test_every_block_of_a_page_runs(page: Path, request: pytest.FixtureRequest) -> None:
    if PUBLIC in page.read_text(encoding="utf8"):
        request.getfixturevalue("hub")
    read(page)


@pytest.mark.slow
@pytest.mark.usefixtures("hub", "place")
@pytest.mark.parametrize("page", WITH_BLOCKS, ids=lambda page: page.name)
def test_every_block_of_a_page_runs_with_all_probes(page: Path) -> None:
    read(page)


def test_what_another_file_runs_is_there() -> None:
    for page, file in WHOLE_PAGES.items():
        assert page in (ROOT / "tests" / file).read_text(encoding="utf8")
    for page, (beginning, file) in ELSEWHERE.items():
        assert beginning in (ROOT / page).read_text(encoding="utf8")
        assert f'"{page}"' in (ROOT / "tests" / file).read_text(encoding="utf8")
