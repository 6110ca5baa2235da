"""Layouts of public suites, with the real names of their revisions, against a hub on this machine."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stagewise.checkpoints.series import CheckpointSeries, open_series
from stagewise.checkpoints.suites import suites

Opened = Callable[..., CheckpointSeries]


@pytest.fixture
def opened(local_hub: Callable[..., Any], saved: Callable[..., dict[str, bytes]], tmp_path: Path) -> Opened:
    def open_named(repository: str, *revisions: str, **options: Any) -> CheckpointSeries:
        served = local_hub({name: saved("GPT2", 0) for name in ("main", *revisions)})
        served.repository = repository
        return open_series(repository, hub={"cache": tmp_path, "endpoint": served.endpoint}, **options)

    return open_named


@pytest.mark.parametrize(
    ("repository", "revisions", "steps", "tokens"),
    [
        ("EleutherAI/pythia-70m", ("step0", "step512", "step143000"), (0, 512, 143000), 143000 * 2097152),
        ("EleutherAI/pythia-14m-seed3", ("step0", "step2", "step1000"), (0, 2, 1000), 1000 * 2097152),
        ("allenai/OLMo-1B", ("step20000-tokens84B", "step117850-tokens494B"), (20000, 117850), 494 * 10**9),
        (
            "allenai/OLMo-2-1124-7B",
            ("step150-tokens1B", "stage1-step1000-tokens5B", "stage1-step2000-tokens9B"),
            (150, 1000, 2000),
            9 * 10**9,
        ),
        (
            "HuggingFaceTB/SmolLM3-3B-checkpoints",
            ("stage1-step-40000", "stage1-step-3440000", "stage2-step-3480000", "stage3-step-4720000"),
            (40000, 3440000, 3480000, 4720000),
            4720000 * 2359296,
        ),
        (
            "HuggingFaceFW/ablation-model-fineweb-edu",
            ("step-001000-2BT", "step-002000-4BT"),
            (1000, 2000),
            4 * 10**9,
        ),
        ("BabyLM-community/BabyLM-2026-Baseline-GPT2-Strict", ("chck_1M", "chck_100M"), (10**6, 10**8), 10**8),
        (
            "HuggingFaceTB/SmolLM2-1.7B-intermediate-checkpoints",
            ("step-125000", "step-5125000"),
            (125000, 5125000),
            5125000 * 2097152,
        ),
        ("HuggingFaceTB/SmolLM2-360M-intermediate-checkpoints", ("step-160000", "step-320000"), (160000, 320000), None),
        ("stanford-crfm/alias-gpt2-small-x21", ("checkpoint-50", "checkpoint-400000"), (50, 400000), None),
        ("allenai/OLMoE-1B-7B-0924", ("step10000-tokens41B", "step20000-tokens83B"), (10000, 20000), 83 * 10**9),
        ("allenai/Olmo-3-7B-RL-Zero-Math", ("step_100", "step_1900"), (100, 1900), None),
        ("bigscience/bloom-560m-intermediate", ("global_step1000", "global_step10000"), (1000, 10000), None),
        (
            "swiss-ai/Apertus-8B-2509",
            ("step0050000-tokens210B", "step0100000-tokens420B"),
            (50000, 100000),
            420 * 10**9,
        ),
        ("OpenLLM-France/Lucie-7B", ("step0005000", "step0753851"), (5000, 753851), None),
        ("owner/B-GPT", ("0", "128000", "256000"), (0, 128000, 256000), None),
        ("owner/lit", ("iter-001000-ckpt", "iter-002000-ckpt"), (1000, 2000), None),
        ("stanford-crfm/alias-gpt2-small-x21", ("checkpoint-0", "checkpoint-100"), (0, 100), None),
        ("LLM360/Amber", ("ckpt_000", "ckpt_001", "ckpt_358"), (0, 1, 358), None),
        ("pico-lm/pico-decoder-tiny", ("step_0", "step_1000"), (0, 1000), None),
        ("owner/bloom", ("global_step1000", "global_step10000"), (1000, 10000), None),
        ("owner/megatron", ("iter_0001000", "iter_0143000"), (1000, 143000), None),
        ("owner/numbered", ("1000-tokens4B", "2000-tokens8B", "3000-tokens12B"), (1000, 2000, 3000), 12 * 10**9),
        ("owner/reversed", ("tokens2B-step1000", "tokens4B-step2000"), (1000, 2000), 4 * 10**9),
        ("LumiOpen/Poro-34B", ("100B", "200B", "1000B"), (10**11, 2 * 10**11, 10**12), 10**12),
        (
            "m-a-p/neo_7b",
            ("10.49B", "20.97B", "41.94B"),
            (10_490_000_000, 20_970_000_000, 41_940_000_000),
            41_940_000_000,
        ),
    ],
)
def test_steps_and_tokens_are_those_of_the_suite(
    repository: str, revisions: tuple[str, ...], steps: tuple[int, ...], tokens: int | None, opened: Opened
) -> None:
    series = opened(repository, *revisions)
    assert series.steps == steps
    assert series.tokens.get(steps[-1]) == tokens


def test_folders_that_count_tokens_are_steps_beside_those_of_megatron(
    local_hub: Callable[..., Any], saved: Callable[..., dict[str, bytes]], tmp_path: Path
) -> None:
    sizes, one = ("16.78B", "33.55B", "67.11B"), saved("GPT2", 0)
    files = {f"hf_ckpt/{size}/{name}": content for size in sizes for name, content in one.items()}
    files |= {f"checkpoint/iter_000{n}000/mp_rank_00/model_optim_rng.pt": b"" for n in (2, 4, 8)}
    served = local_hub({"main": {**files, "checkpoint/latest_checkpointed_iteration.txt": b"8000"}})
    served.repository = "m-a-p/neo_scalinglaw_980M"
    series = open_series(served.repository, hub={"cache": tmp_path, "endpoint": served.endpoint})
    assert series.steps == (16_780_000_000, 33_550_000_000, 67_110_000_000)
    assert series.tokens == {step: step for step in series.steps}
    assert series.weights(series.steps[1])


def test_seeds_of_one_repository_are_branches(opened: Opened) -> None:
    names = ("step1250-seed-default", "step2500-seed-default", "step1250-seed-large-aux-2")
    assert opened("allenai/DataDecide-c4-4M", *names, branch="seed-default").steps == (1250, 2500)
    with pytest.raises(ValueError, match="several branches"):
        opened("allenai/DataDecide-c4-4M", *names)


@pytest.mark.parametrize(
    ("names", "branch"),
    [
        (("seed1-step100", "seed1-step200", "seed2-step100"), "seed1"),
        (("step100-seed1", "step200-seed1", "step100-seed2"), "seed1"),
        (("iter_0000100_stage1", "iter_0000200_stage1", "iter_0000150_stage2"), "stage1"),
    ],
)
def test_another_seed_or_stage_is_not_mixed_into_a_series(names: tuple[str, ...], branch: str, opened: Opened) -> None:
    assert opened("owner/several", *names, branch=branch).steps == (100, 200)
    with pytest.raises(ValueError, match="several branches"):
        opened("owner/several", *names)


def test_parts_of_a_training_in_percent_are_no_steps(opened: Opened) -> None:
    with pytest.raises(FileNotFoundError, match="no revision of owner/parts is named like a checkpoint"):
        opened("owner/parts", "checkpoint-10pct", "checkpoint-50pct", "checkpoint-100pct")


def test_a_stage_that_counts_anew_is_a_branch(opened: Opened) -> None:
    names = ("stage1-step1000-tokens5B", "stage2-ingredient1-step1000-tokens5B", "stage2-ingredient1-step2000-tokens9B")
    series = opened("allenai/OLMo-2-0425-1B", *names, branch="stage2-ingredient1")
    assert series.steps == (1000, 2000)


def test_each_stage_of_olmo_3_is_a_branch(opened: Opened) -> None:
    names = ("stage1-step0", "stage1-step1000", "stage1-step1413814", "stage2-step47684", "stage3-step11921")
    assert opened("allenai/Olmo-3-1025-7B", *names, branch="stage1").steps == (0, 1000, 1413814)
    with pytest.raises(ValueError, match="several branches"):
        opened("allenai/Olmo-3-1025-7B", *names)


def test_known_faults_are_told_where_a_suite_is_opened(opened: Opened, capsys: pytest.CaptureFixture[str]) -> None:
    opened("EleutherAI/pythia-2.8b", "step0", "step1000")
    assert "EleutherAI/pythia#205" in capsys.readouterr().err
    opened("owner/model", "step0", "step1000")
    assert "known of" not in capsys.readouterr().err


def test_tokens_a_step_can_be_given(opened: Opened) -> None:
    assert opened("owner/model", "step0", "step1000", tokens_per_step=512).tokens == {0: 0, 1000: 512000}


def test_every_row_has_a_source() -> None:
    assert all(suite.source.startswith("https://") and "/" in suite.repositories for suite in suites())


STAGES = ("phase1-step100-tokens1B", "phase1-step200-tokens2B", "phase2-step300-tokens3B", "phase3-step100-tokens4B")


def test_branches_whose_steps_go_on_counting_are_joined_by_hand(opened: Opened) -> None:
    series = opened("owner/mine", *STAGES, join=("phase1", "phase2"), branch="")
    assert (series.steps, series.tokens[300]) == ((100, 200, 300), 3 * 10**9)
    assert series[-1:].weights(300)
    assert opened("owner/mine", *STAGES, join=("phase1", "phase2"), branch="", steps=2).steps == (100, 300)


@pytest.mark.parametrize(
    ("stages", "join", "why"),
    [
        (STAGES, ("phase1", "phase3"), "not one count: phase1-step100-tokens1B and phase3-step100-tokens4B"),
        (
            ("a-step9-tokens3B", "b-step10-tokens2B"),
            ("a", "b"),
            "not one count: a-step9-tokens3B and b-step10-tokens2B",
        ),
        (STAGES, ("phase1", "phase4"), "owner/mine has no branch 'phase4'; it has 'phase1', 'phase2', 'phase3'"),
    ],
)
def test_branches_that_are_not_one_count_are_not_joined(
    stages: tuple[str, ...], join: tuple[str, ...], why: str, opened: Opened
) -> None:
    with pytest.raises(ValueError, match=why):
        opened("owner/mine", *stages, join=join)
