"""Some of each trial of `make torture`, on the smallest run: killed, refused, raced and flipped, nothing is lost."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest
import typer

from evidence.torture import trials
from evidence.torture.trees import Tree, differing, tree
from evidence.torture.trials import Child, copied, ended, killed, one_line
from stagewise.analysis import measure_run
from stagewise.checkpoints._checksums import LIST
from stagewise.probes import Loss
from stagewise.recipe import Recipe
from stagewise.reporting.page import report
from stagewise.training import train

times = pytest.mark.parametrize("times", [2, pytest.param(10, marks=pytest.mark.slow)])
"""How often each is tried: in the default suite, and in `make slow`."""

SECONDS = 1.0
"""Longer than any of these commands takes undisturbed: some kills come too late, which is a trial too."""

Command = Callable[[], None]


def in_a_line(run: Callable[[], object]) -> Command:
    """Run a function as the command line does."""

    def reported() -> None:
        from stagewise.cli._commands import reported_errors

        try:
            with reported_errors():
                run()
        except typer.Exit as ending:
            raise SystemExit(ending.exit_code) from None

    return reported


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("torture") / "run"


@pytest.fixture(scope="module")
def runs(work: Path, small_recipe: Recipe) -> dict[str, Command]:
    """The verbs on one folder, in the order of a run."""
    trials.preload()
    return {
        "train": in_a_line(lambda: train(small_recipe, work, progress=False)),
        "measure": in_a_line(lambda: measure_run(small_recipe, work, probes=[Loss()], progress=False)),
        "report": in_a_line(lambda: report(work)),
    }


@pytest.fixture(scope="module")
def stages(work: Path, runs: dict[str, Command], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """What the folder is after each verb, undisturbed."""
    after = {}
    for name, run in runs.items():
        assert ended(run).status == 0
        after[name] = copied(work, tmp_path_factory.mktemp("after") / name)
    return after


BEFORE = {"train": None, "measure": "train", "report": "measure"}


def start(name: str, work: Path, stages: dict[str, Path]) -> Tree:
    """Bring the folder to what it is before a verb; return what it is after it."""
    trials.emptied(work)
    if (before := BEFORE[name]) is not None:
        copied(stages[before], work)
    return tree(stages[name])


@pytest.mark.one_of(3)
@times
@pytest.mark.parametrize("name", BEFORE)
def test_a_process_killed_again_and_again_gives_the_bytes_of_one_never_killed(
    name: str, times: int, work: Path, runs: dict[str, Command], stages: dict[str, Path]
) -> None:
    reference, draws = start(name, work, stages), random.Random(name)
    for _ in range(times):
        killed(runs[name], SECONDS / 4, draws)
    assert ended(runs[name]).status == 0
    assert differing(tree(work), reference) == []


@pytest.mark.one_of(3)
@times
@pytest.mark.parametrize("name", BEFORE)
def test_a_disk_that_refuses_is_named_in_a_line_and_costs_nothing(
    name: str, times: int, work: Path, runs: dict[str, Command], stages: dict[str, Path]
) -> None:
    reference, draws = start(name, work, stages), random.Random(name)
    for _ in range(times):
        result = ended(runs[name], trials.small_disk(int(1000 * 10 ** draws.random())))
        assert result.status == 0 or (result.status == 2 and one_line(result.printed)), result.printed
    assert ended(runs[name]).status == 0
    assert differing(tree(work), reference) == []


@pytest.mark.one_of(2)
@times
@pytest.mark.parametrize("name", ["train", "measure"])
def test_of_two_writers_one_writes_and_the_other_says_who(
    name: str, times: int, work: Path, runs: dict[str, Command], stages: dict[str, Path]
) -> None:
    for _ in range(times):
        reference = start(name, work, stages)
        results = [child.wait() for child in (Child(runs[name]), Child(runs[name]))]
        refused = [result.printed for result in results if result.status]
        assert len(refused) < 2
        assert all("Wait until it has ended" in printed for printed in refused), refused
        assert differing(tree(work), reference) == []


@pytest.mark.parametrize("times", [8, pytest.param(20, marks=pytest.mark.slow)])
def test_a_flipped_bit_is_noticed_or_harmless(
    times: int, work: Path, runs: dict[str, Command], stages: dict[str, Path]
) -> None:
    draws, whole = random.Random(0), stages["measure"]
    reference = tree(whole)
    outcomes = []
    for _ in range(times):
        path, _ = draws.choice(trials.places(copied(whole, work)))
        trials.flipped(path, draws)
        outcomes.append(trials.noticed(path, work, [runs["train"], runs["measure"]], reference))
    assert not [outcome for outcome in outcomes if outcome.startswith(("LOST", "WRONG"))]
    assert "noticed and named" in outcomes


def test_a_change_that_nothing_lists_would_be_called_wrong(
    work: Path, runs: dict[str, Command], stages: dict[str, Path]
) -> None:
    reference = tree(stages["measure"])
    path = next((copied(stages["measure"], work) / "checkpoints").glob("*.safetensors"))
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    (path.parent / LIST).unlink()
    assert trials.noticed(path, work, [runs["train"], runs["measure"]], reference).startswith("WRONG: a bit of step-")
