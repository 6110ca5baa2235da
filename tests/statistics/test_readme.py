"""The room's README: its examples run, and it names the whole door."""

import doctest
from pathlib import Path

from stagewise import statistics

README = Path(statistics.__file__).with_name("README.md")


def test_the_examples_run() -> None:
    failed, tried = doctest.testfile(str(README), module_relative=False)
    assert (failed, tried > 5) == (0, True)


def test_every_public_name_is_explained() -> None:
    text = README.read_text(encoding="utf8")
    assert [name for name in dir(statistics) if f"`{name}`" not in text] == []
