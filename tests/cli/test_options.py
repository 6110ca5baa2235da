"""The options of the commands: memory, and what a measurement is made of."""

import pytest

from stagewise.architecture import Architecture
from stagewise.cli._options import (
    Measurement,
    ProbeOptions,
    read_causes,
    read_memory,
    read_names,
)
from stagewise.probes import HeadAblation
from stagewise.tasks import RepeatedTokens


@pytest.mark.parametrize(
    ("memory", "expected"), [(None, None), ("512MB", 512_000_000), ("1.5 gb", 1_500_000_000), ("2GiB", 2**31)]
)
def test_memory_is_a_size_with_its_unit(memory: str | None, expected: int | None) -> None:
    assert read_memory(memory) == expected


@pytest.mark.parametrize("memory", ["512", "MB", "-1MB", "0MB", "2TB", "1IB"])
def test_memory_without_a_meaning_is_refused(memory: str) -> None:
    with pytest.raises(ValueError, match="--memory takes a size with its unit, as in 512MB or 2GB; got"):
        read_memory(memory)


@pytest.mark.parametrize("exact", [False, True])
def test_exact_ablates_every_head_of_a_large_model_on_all_sequences(exact: bool) -> None:
    choose = ProbeOptions(only=["HeadAblation"], exact=exact).arguments()["probes"]
    sizes = {"n_layers": 12, "d_model": 768, "d_head": 64, "n_heads": 12, "n_ctx": 1024, "d_vocab": 50_257}
    batch = RepeatedTokens(64, length=32).probe_batch(8, seed=0)
    assert choose(Architecture(sizes), batch, None) == [HeadAblation(kinds=("mean",), exact=exact)]


def test_options_of_measuring_are_the_arguments_of_a_run() -> None:
    given = Measurement(workers=2, memory="1MB", quiet=True, probe=["Loss"], sequences=8).arguments()
    assert {name: given[name] for name in ("workers", "memory", "progress", "sequences")} == {
        "workers": 2,
        "memory": 10**6,
        "progress": False,
        "sequences": 8,
    }
    assert [type(probe).__name__ for probe in given["extra_probes"]] == ["Loss"]
    assert "sequences" not in Measurement().arguments()


def test_a_cause_has_a_step_or_a_first_and_a_last_one() -> None:
    causes = read_causes(["3000=a larger batch", "0-500=the warm-up"])
    assert causes == {"a larger batch": 3000, "the warm-up": (0, 500)}


def test_names_stand_between_commas() -> None:
    assert read_names("stage1, stage2") == ("stage1", "stage2")
    assert read_names(None) == ()
