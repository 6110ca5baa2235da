"""Data are never code: whatever a stranger plants in a folder, no command that is run on it, or in it, starts it.

Each plant would write a file, or change one that lies elsewhere. The commands are those of the command line itself.
"""

import json
import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch
import typer
from transformers import GPT2Config, GPT2LMHeadModel
from typer.testing import CliRunner

from stagewise import architectures
from stagewise.analysis import measure_run
from stagewise.checkpoints._digest import file_sha256
from stagewise.checkpoints._table_file import PROVENANCE
from stagewise.checkpoints._writing import INSIDE, LOCK
from stagewise.checkpoints.run_folder import RESUME, RUN, TABLE
from stagewise.cli.app import app
from stagewise.measurement._provenance import PROBES
from stagewise.probes import AttentionTo, KLToReference, Loss
from stagewise.recipe import Recipe
from stagewise.training import train

pytestmark = pytest.mark.usefixtures("few_sequences", "unchecked", "undrawn")

FEW: dict[str, list[str]] = {
    "densify": ["--between", "2", "4"],
    "cause branch": ["--from", "2", "--set", "plan.learning_rate=0.1", "--no-controls"],
    "cause intervene": ["--from", "2", "--hold", "L0H0", "--no-controls"],
    "cause certify": ["--from", "2"],
    "cause samples": ["--head", "L0H0"],
    "watch": ["--once"],
    "series sweep": ["recall", "--steps", "1", "--set", "task.n_pairs=0"],
    "run TASK": ["--steps", "1"],
    "run emergence": ["--figure", "4", "--budget", "1", "--grid", "N_pairs=", "--quiet"],
    "run incremental": ["--figure", "none of them"],
    "run scan-and-snap": ["--figure", "none of them"],
}
"""What makes a command do its work, or as little of a paper's as it can."""


def leaves(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Every command of the command line, by its words."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from leaves(command, (*path, name))
        else:
            yield " ".join((*path, name)), command


SCRIPT = "from stagewise.cli.app import app\nif __name__ == '__main__':\n    app()"
"""What an installation writes as the console script."""

COMMANDS = dict(leaves(typer.main.get_command(app)))


def arguments_of(name: str, folder: str) -> list[str]:
    """A command on a folder: in the place of each source, or as the place of its runs, and of its data."""
    command, given = COMMANDS[name], FEW.get(name, [])
    options = {option for each in command.params for option in each.opts}
    places = [each for each in command.params if each.param_type_name == "argument" and name != "series sweep"]
    words = [*name.replace("TASK", "recall").split(), *(folder for _ in places), *given]
    for option in ("--folder", "--data"):
        words += [option, folder] if option in options and not places else []
    return words


@pytest.fixture(scope="module")
def measured(small_recipe: Recipe, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with its table."""
    folder = tmp_path_factory.mktemp("measured") / "run"
    recipe = Recipe(small_recipe.task, architectures.full(4, small_recipe.task.n_ctx, n_heads=2), small_recipe.plan)
    train(recipe, folder, progress=False)
    measure_run(recipe, folder, probes=[Loss(), AttentionTo(), KLToReference()], sequences=16, progress=False)
    return folder


def unlisted(measured: Path, folder: Path) -> Path:
    """Copy a run without its checksums, which a stranger leaves out: what is changed is no damage."""
    return Path(shutil.copytree(measured, folder, ignore=shutil.ignore_patterns("SHA256SUMS")))


def changed(path: Path, change: Callable[[Any], None]) -> None:
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def trap(folder: Path, name: str, written: Path) -> None:
    """A module that writes, whatever is asked of it."""
    lines = ["import pathlib", f"pathlib.Path({str(written / name)!r}).write_text('ran')"]
    lines += ["def __getattr__(name): return type(name, (), {})"]
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.py").write_text("\n".join(lines))


class Bomb:
    """What a pickle can hold: a call."""

    def __init__(self, written: Path) -> None:
        self.written = written

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.written / "pickled"),)


def bombs(folder: Path, written: Path) -> None:
    """Pickles where this library had its own, and in the place of every file that torch reads."""
    bomb, parts = pickle.dumps(Bomb(written)), [each.name for each in folder.glob("tables/parts/*/")]
    for place in ("", "tables/parts", "parts", *(f"tables/parts/{name}" for name in parts)):
        (folder / place).mkdir(parents=True, exist_ok=True)
        for name in ("measurement.pickle", "measurement", ".measurement.pickle.host-1-00000000.partial"):
            (folder / place / name).write_bytes(bomb)
    (folder / RESUME).write_bytes(bomb)
    (folder / "checkpoints" / "step-00000004.pt").write_bytes(bomb)
    torch.save(Bomb(written), folder / "checkpoints" / "step-00000005.pt")
    (folder / "states").mkdir(exist_ok=True)
    torch.save({"step": 2, "optimiser": Bomb(written)}, folder / "states" / "step-00000002.pt")


def modules(folder: Path, written: Path) -> None:
    """Modules with the names of packages, installed and not, and files that packages look for where they run."""
    for name in (
        *("torch", "numpy", "pandas", "pickle", "multiprocessing", "transformer_lens", "sitecustomize"),
        *("usercustomize", "conftest", "kernels", "bitsandbytes", "flash_attn", "wandb", "cupy", "tests", "small"),
    ):
        trap(folder, name, written)
    (folder / "matplotlibrc").write_text("text.usetex: True\nbackend: module://conftest")


def named(folder: Path, written: Path, change: Callable[[Any], None]) -> None:
    trap(folder, "evil", written)
    changed(folder / RUN, lambda run: change(run["recipe"]))


def task(folder: Path, written: Path) -> None:
    named(folder, written, lambda recipe: recipe.update(task={"type": "evil:Task"}))


def relation(folder: Path, written: Path) -> None:
    given = {"type": "Tokens", "file": str(folder / "tokens.pt"), "length": 4, "relations": ["evil:back"]}
    torch.save(torch.randint(4, (9, 5)), folder / "tokens.pt")
    named(folder, written, lambda recipe: recipe.update(task=given))


def initialisation(folder: Path, written: Path) -> None:
    named(folder, written, lambda recipe: recipe["architecture"].update(init={"type": "evil:Init"}))


def schedule(folder: Path, written: Path) -> None:
    named(folder, written, lambda recipe: recipe.update(schedules={"plan.draw": {"type": "evil:Ramp"}}))


def model(folder: Path, written: Path) -> None:
    named(folder, written, lambda recipe: recipe.update(architecture={"type": "evil:Model"}))


def everything(folder: Path, written: Path) -> None:
    named(folder, written, lambda recipe: recipe.update(type="evil:Recipe", plan={"type": "evil:Plan"}))


def probe(folder: Path, written: Path) -> None:
    """A probe that the table's record names, and those of the measurements beside it."""
    trap(folder, "evil", written)
    table = pq.read_table(folder / TABLE)
    record = json.loads(table.schema.metadata[PROVENANCE])
    record[PROBES] = {"evil:Probe": "Probe()", "Loss": f"Loss(__import__('os').mkdir({str(written / 'made')!r}))"}
    metadata = {**table.schema.metadata, PROVENANCE: json.dumps(record).encode()}
    pq.write_table(table.replace_schema_metadata(metadata), folder / TABLE)
    for settings in folder.glob("tables/parts/*/settings.json"):
        changed(settings, lambda content: content.update(probes=["evil.Probe()"]))


def tokenizer(folder: Path, written: Path) -> None:
    """A model whose tokenizer has code of its own, which its config trusts."""
    trap(folder / "tok", "evil", written)
    (folder / "tok" / "config.json").write_text(
        json.dumps({"model_type": "evil", "auto_map": {"AutoConfig": "evil.C"}})
    )
    own = {"tokenizer_class": "Evil", "auto_map": {"AutoTokenizer": ["evil.Evil", "evil.Evil"]}}
    (folder / "tok" / "tokenizer_config.json").write_text(json.dumps(own))
    given = {"tokenizer_name": str(folder / "tok"), "trust_remote_code": True}
    changed(folder / RUN, lambda run: run["recipe"]["architecture"]["config"].update(given))


def auto_map(folder: Path, written: Path) -> None:
    """Checkpoints of transformers whose config names code that lies beside them, and a kernel."""
    shutil.rmtree(folder)
    config = GPT2Config(n_layer=1, n_head=2, n_embd=8, n_positions=16, vocab_size=11)
    for step in (1, 2, 3):
        GPT2LMHeadModel(config).save_pretrained(folder / f"checkpoint-{step}")
        trap(folder / f"checkpoint-{step}", "evil", written)
        names = {f"Auto{kind}": f"evil.{kind}" for kind in ("Config", "Model", "ModelForCausalLM", "Tokenizer")}
        given = {"auto_map": names, "trust_remote_code": True, "attn_implementation": "evil/evil", "use_kernels": True}
        path = folder / f"checkpoint-{step}" / "config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **given}))
    trap(folder, "evil", written)


def links(folder: Path, written: Path) -> None:
    """Links out of the folder in the place of each folder in it."""
    elsewhere = written.with_name("elsewhere")
    for name in INSIDE:
        (folder / name).mkdir(exist_ok=True)
        (folder / name).rename(elsewhere / name)
        (folder / name).symlink_to(elsewhere / name)


def file_links(folder: Path, written: Path) -> None:
    """Links out of the folder, and second names of another file, in the place of each file that is written."""
    precious = written.with_name("elsewhere") / "precious"
    precious.write_text("untouched")
    tables = (
        "stages.json",
        "lineage.json",
        "measurements.parquet",
        "certificate.parquet",
        "batch.json",
        "example.json",
    )
    names = ("report.html", "summary.csv", "analysis.json", "SHA256SUMS")
    for number, name in enumerate((*names, LOCK, *(f"tables/{each}" for each in tables), f"tables/parts/{LOCK}")):
        (folder / name).unlink(missing_ok=True)
        link = (folder / name).hardlink_to if number % 2 else (folder / name).symlink_to
        link(precious)


INSIDE_AND_OUTSIDE = (modules, links, file_links)
PLANTS = (bombs, task, relation, initialisation, schedule, model, everything, probe, tokenizer, auto_map)
CASES = [(plant, True) for plant in (*INSIDE_AND_OUTSIDE, *PLANTS)] + [(plant, False) for plant in INSIDE_AND_OUTSIDE]


def contents(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): file_sha256(path) if path.is_file() else "" for path in sorted(folder.rglob("*"))
    }


@pytest.fixture
def foreign(measured: Path, tmp_path: Path) -> Path:
    """A stranger's run, beside places that nothing may be written to."""
    for name in ("written", "elsewhere", "mine"):
        (tmp_path / name).mkdir()
    return unlisted(measured, tmp_path / "foreign")


@pytest.mark.each_value
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(("plant", "inside"), CASES, ids=lambda each: getattr(each, "__name__", f"inside-{each}"))
def test_no_command_starts_what_a_stranger_planted(
    foreign: Path, plant: Callable[[Path, Path], None], inside: bool, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    written, elsewhere = foreign.with_name("written"), foreign.with_name("elsewhere")
    plant(foreign, written)
    before = contents(elsewhere)
    monkeypatch.chdir(foreign if inside else foreign.with_name("mine"))
    result = CliRunner().invoke(app, arguments_of(command, "." if inside else str(foreign)))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exc_info
    assert contents(written) == {}
    assert contents(elsewhere) == before
    assert "evil" not in sys.modules


@pytest.fixture(scope="module")
def trapped(measured: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stranger's run in which modules lie, and the console script as an installation writes it."""
    place = tmp_path_factory.mktemp("trapped")
    (place / "written").mkdir()
    modules(unlisted(measured, place / "foreign"), place / "written")
    (place / "bin").mkdir()
    (place / "bin" / "stagewise").write_text(SCRIPT)
    return place


MEASURE = "measure . --sequences 8 --workers 2 --only Loss --quiet"


@pytest.mark.parametrize(
    "command",
    ["stages .", *(pytest.param(each, marks=pytest.mark.slow) for each in ("audit .", MEASURE))],
)
def test_a_process_and_its_workers_import_nothing_of_the_folder_they_start_in(trapped: Path, command: str) -> None:
    start = [str(trapped / "bin" / "stagewise")] if command == MEASURE else ["-m", "stagewise"]
    words = [sys.executable, *start, *command.split()]
    ended = subprocess.run(words, cwd=trapped / "foreign", capture_output=True, text=True)
    assert ended.returncode in (0, 1), ended.stderr
    assert contents(trapped / "written") == {}


def test_the_traps_are_traps(foreign: Path) -> None:
    written = foreign.with_name("written")
    modules(foreign, written)
    bombs(foreign, written)
    subprocess.run([sys.executable, "-c", "import torch"], cwd=foreign, check=True)
    pickle.loads((foreign / RESUME).read_bytes())
    assert {"torch", "pickled"} <= contents(written).keys()
