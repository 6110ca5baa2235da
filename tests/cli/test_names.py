"""Names of tasks and probes on the command line."""

import pytest

from stagewise import tasks
from stagewise.cli.names import TASKS, kebab_case, probe_named, task_class
from stagewise.probes import Accuracy
from stagewise.task import AbstractTask

CATALOGUE = [each for each in vars(tasks).values() if isinstance(each, type) and issubclass(each, AbstractTask)]


def test_every_task_of_the_catalogue_has_a_name() -> None:
    assert {cls.__name__ for cls in CATALOGUE} <= set(TASKS.values())


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
        ("stagewise.tasks.text:Lines", "expected a subclass of AbstractTask called Lines in stagewise.tasks.text"),
        ("stagewise.probes.loss:Loss", "expected a subclass of AbstractTask called Loss"),
    ],
)
def test_what_is_no_task_is_refused(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        task_class(name)
