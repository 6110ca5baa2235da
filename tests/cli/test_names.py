"""Names of tasks and probes on the command line."""

from pathlib import Path

import pytest

from stagewise import tasks
from stagewise.checkpoints.run_folder import RUN
from stagewise.cli._names import TASK_NAMES, TASKS, kebab_case, probe_named, run_folder_named, task_class
from stagewise.probes import Accuracy

CATALOGUE = [getattr(tasks, name) for name in TASKS.values()]


def test_every_task_of_the_catalogue_has_a_name() -> None:
    known = {name for name, cls in vars(tasks).items() if isinstance(cls, type)}
    assert known - {"Windows"} <= set(TASKS.values())  # what baselines are trained on


@pytest.mark.parametrize("task", CATALOGUE, ids=lambda task: task.__name__)
def test_a_class_name_in_kebab_case_is_understood(task: type) -> None:
    assert task_class(kebab_case(task.__name__)) is task


def test_module_and_class_name_what_is_ones_own() -> None:
    assert task_class("stagewise.tasks.text:Text") is tasks.Text
    assert probe_named("stagewise.probes.accuracy:Accuracy") == probe_named("Accuracy") == Accuracy()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "nowhere_at_all:Task",
            "cannot be imported here .* Run this in the folder of nowhere_at_all.py",
        ),
        ("nowhere_at_all.py:Task", r"there is no file nowhere_at_all\.py"),
        ("some/nowhere.py:Task", r"there is no file some/nowhere\.py"),
        ("stagewise.tasks.text:Lines", "expected a subclass of AbstractTask called Lines in stagewise.tasks.text"),
        ("stagewise.probes.loss:Loss", "expected a subclass of AbstractTask called Loss"),
    ],
)
def test_what_is_no_task_is_refused(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        task_class(name)


def test_a_module_whose_own_import_fails_is_not_said_to_be_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "half_written.py").write_text("from stagewise import AbstractTusk", encoding="utf8")
    (tmp_path / "unmet.py").write_text("import nothing_like_it", encoding="utf8")
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("half_written", "unmet"):
        with pytest.raises(ValueError, match=f"{name} is there, and what it imports is not"):
            task_class(f"{name}:Task")


def test_a_class_without_a_method_that_it_must_have_is_refused_with_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [
        "from stagewise.probe import AbstractProbe",
        "from stagewise.task import AbstractTask",
        "class Half(AbstractTask):",
        "    d_vocab, n_ctx = 3, 4",
        "class Blind(AbstractProbe): ...",
    ]
    (tmp_path / "half_done.py").write_text("\n".join(lines), encoding="utf8")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ValueError, match="the task half_done:Half: every AbstractTask defines sample, and this on"):
        task_class("half_done:Half")
    with pytest.raises(ValueError, match="every AbstractProbe defines read, and this one does not"):
        probe_named("half_done:Blind")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which every task's name is that of a run folder, and so is one of its own."""
    for name in (*TASK_NAMES, "mine"):
        (tmp_path / name).mkdir()
        (tmp_path / name / RUN).touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("name", TASK_NAMES)
def test_a_tasks_name_is_the_task_and_its_path_the_run_folder(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_folder_named(name) is None
    expected = f"{name} is the task here, not the run folder of this name: that one is ./{name}\n"
    assert capsys.readouterr().err == expected
    assert run_folder_named(f"./{name}") == run_folder_named(f"{name}/") == Path(name)
    assert capsys.readouterr().err == ""


def test_another_name_is_the_run_folder_if_there_is_a_run_in_it(here: Path) -> None:
    assert run_folder_named("mine") == Path("mine")
    assert run_folder_named(str(here / "mine")) == here / "mine"
    (here / "mine" / RUN).unlink()
    assert run_folder_named("mine") is None


@pytest.mark.usefixtures("here")
def test_a_run_folder_in_the_place_of_a_task_is_named_with_the_command_that_resumes_it() -> None:
    with pytest.raises(ValueError, match=r"no task 'mine'.*mine is a run folder: `stagewise train mine` resumes it"):
        task_class("mine")
    with pytest.raises(ValueError, match=r"no task 'yours'.*as module:Class$"):
        task_class("yours")
