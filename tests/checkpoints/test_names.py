"""Names of checkpoints: the schemes of public trainers, the right step or a line for each, never another in silence."""

import numpy as np
import pytest
import torch

from stagewise.checkpoints.names import LARGEST, Coordinates, convention, read_names, told, whole

SCHEMES: dict[str, list[tuple[str, int]]] = {
    "nanoGPT by hand": [("ckpt_0", 0), ("ckpt_250", 250), ("ckpt_2000", 2000)],
    "nanoGPT, iter": [("ckpt_iter_500", 500), ("ckpt_iter_1000", 1000)],
    "Lightning": [("epoch=0-step=150", 150), ("epoch=1-step=300", 300), ("epoch=1-step=300-v1", 300)],
    "Lightning, monitored": [("epoch=3-step=400-val_loss=0.52", 400), ("epoch=4-step=500-val_loss=0.48", 500)],
    "Lightning, no metric names": [("12-4000-1.25", 4000), ("13-4300-1.20", 4300)],
    "Hugging Face Trainer": [("checkpoint-500", 500), ("checkpoint-1000", 1000), ("checkpoint-10500", 10500)],
    "Composer": [("ep0-ba100-rank0", 100), ("ep0-ba200-rank0", 200), ("ep1-ba300-rank0", 300)],
    "Composer, sharded": [("ep0-ba4000", 4000), ("ep0-ba8000", 8000)],
    "Megatron": [("iter_0000500", 500), ("iter_0001000", 1000)],
    "NeoX, DeepSpeed": [("global_step1000", 1000), ("global_step2000", 2000), ("global_step143000", 143_000)],
    "fairseq": [("checkpoint_1_2500", 2500), ("checkpoint_2_5000", 5000), ("checkpoint_2_500", 500)],
    "levanter": [("step-1000", 1000), ("step-20000", 20_000)],
    "OLMo": [
        ("step1000-tokens4B", 1000),
        ("step101000-tokens424B", 101_000),
        ("stage1-step1000-tokens5B", 1000),
        ("step1000-unsharded", 1000),
        ("stage2-ingredient1-step11931-tokens100B", 11_931),
    ],
    "DataDecide": [("step1250-seed-default", 1250), ("step2500-seed-default", 2500)],
    "FineWeb ablations": [("step-001000-2BT", 1000), ("step-014000-28BT", 14_000)],
    "litgpt": [("step-00001000", 1000), ("iter-001000-ckpt", 1000), ("iter-002000-ckpt", 2000)],
    "TinyLlama": [
        ("step-480k-token-1007B", 480_000),
        ("TinyLlama-1.1B-intermediate-step-240k-503b", 240_000),
        ("TinyLlama-1.1B-intermediate-step-1195k-token-2.5T", 1_195_000),
        ("step-715k-1.5T", 715_000),
    ],
    "MultiBERTs": [("seed_0-step_20k", 20_000), ("multiberts-seed_0-step_2000k", 2_000_000)],
    "BabyLM": [("chck_1M", 10**6), ("chck_100M", 10**8), ("chck_1000M", 10**9)],
    "Pythia": [("step0", 0), ("step512", 512), ("step143000", 143_000)],
    "timm": [("checkpoint-0", 0), ("checkpoint-12", 12)],
    "Keras": [("weights.03-0.52", 3), ("weights.04-0.48", 4)],
    "torchtune": [("epoch_0", 0), ("epoch_1", 1)],
    "torchtitan": [("step-500", 500), ("step-1000", 1000)],
    "nanotron": [("1000", 1000), ("2000", 2000)],
    "orbax, T5X": [("checkpoint_1000000", 10**6), ("checkpoint_1100000", 1_100_000)],
    "ESPnet": [("12epoch", 12), ("13epoch", 13)],
    "OpenNMT": [("model_step_5000", 5000), ("model_step_10000", 10_000)],
    "tensor2tensor": [("model.ckpt-1000", 1000), ("model.ckpt-250000", 250_000)],
    "detectron2": [("model_0004999", 4999), ("model_0009999", 9999)],
    "mmengine": [("iter_4000", 4000), ("iter_8000", 8000)],
    "stable-baselines": [("rl_model_10000_steps", 10_000), ("rl_model_20000_steps", 20_000)],
    "OpenAI, guided diffusion": [("model010000", 10_000), ("model020000", 20_000)],
    "CleanRL and others": [("agent_1000000", 10**6), ("agent_2000000", 2 * 10**6)],
    "RWKV": [("rwkv-12", 12), ("rwkv-13", 13)],
    "TransformerLens, SoLU": [("SoLU_2L_v10_000300", 300), ("SoLU_2L_v10_000600", 600)],
    "mistral, by Stanford": [
        ("alias-gpt2-small-x21-checkpoint-400", 400),
        ("alias-gpt2-small-x21-checkpoint-900", 900),
    ],
    "grokking scripts": [("grok_p113_step_400", 400), ("grok_p113_step_800", 800)],
    "a loss behind": [("step_100_ppl_35", 100), ("step_200_ppl_21", 200), ("step_300_ppl_18", 300)],
    "a validation behind": [("iter100_val3", 100), ("iter200_val2", 200)],
    "accuracies": [("step100_acc91", 100), ("step200_acc94", 200)],
    "losses with decimals": [("step-100-loss-2.31", 100), ("step-200-loss-1.9", 200)],
    "losses in front": [("loss2.31_step100", 100), ("loss1.9_step200", 200)],
    "ranks": [("step_100_rank0", 100), ("step_200_rank0", 200)],
    "thousands": [("ckpt_0.5k", 500), ("ckpt_1.5k", 1500), ("ckpt_2k", 2000)],
    "thousands alone": [("1k", 1000), ("2.5k", 2500), ("10k", 10_000)],
    "iterations before steps": [("iter-020000-step-00005000", 5000), ("iter-040000-step-00010000", 10_000)],
    "underscores": [("step_1_000", 1000), ("step_10_000", 10_000), ("step_1_250_000", 1_250_000)],
    "commas": [("step 1,000", 1000), ("step 25,000", 25_000)],
    "thousands before the word": [("100ksteps", 100_000), ("200Kstep", 200_000), ("1.5kiter", 1500)],
    "one letter": [("e000_i000100", 100), ("e000_i000200", 200)],
    "an average, by its rate": [("ema_0.9999_010000", 10_000), ("ema_0.9999_020000", 20_000)],
    "a time behind": [("ckpt-100-1706696100", 100), ("ckpt-200-1706697211", 200)],
    "millions and billions": [("step1M", 10**6), ("step2.5M", 2_500_000), ("iter_1B", 10**9)],
    "exponents": [("step1e3", 1000), ("step2e3", 2000), ("step5e5", 500_000)],
    "counts in front": [("1000steps", 1000), ("2000steps", 2000), ("model_500k-iters", 500_000)],
    "of a whole": [("step_100_of_500", 100), ("step100of500", 100), ("step_200/of_500", 200)],
    "two words": [("epoch_3_step_400", 400), ("epoch-3-iter-400", 400), ("e2_s_step7", 7)],
    "steps before iterations": [("iter_800_step_100", 100), ("iter_1600_step_200", 200)],
    "updates": [("update_40", 40), ("num_updates_80", 80), ("upd120", 120)],
    "camel case": [("modelStep100", 100), ("GlobalStep=200", 200), ("trainIter300", 300)],
    "upper case": [("STEP_100", 100), ("CKPT_STEP_200", 200)],
    "dates": [("2024-01-31_step100", 100), ("20240131_123456_step_200", 200), ("2024-02-01-step-300", 300)],
    "steps like dates": [("step_20100101", 20_100_101), ("step_20100000", 20_100_000)],
    "sizes of the model": [("gpt2_124M_step_100", 100), ("llama-7b-step-200", 200), ("d512_l6_h8_iter_300", 300)],
    "hyperparameters": [("lr1e-3_bs64_step100", 100), ("lr3e-4_bs64_step200", 200), ("lr=0.001-step=300", 300)],
    "batch sizes": [("step100_batch32", 100), ("step200_batch32", 200)],
    "batches": [("batch_1000", 1000), ("epoch1_batch2000", 2000)],
    "an index in front": [("001_step50", 50), ("002_step100", 100), ("003_step150", 150)],
    "hashes": [("step_100_a3f9c2", 100), ("step_200_b81d07", 200)],
    "the step first": [("100_ckpt", 100), ("200_ckpt", 200), ("1000_ckpt", 1000)],
    "states behind": [("step_100_model", 100), ("step_200_model_states", 200), ("iter_100k.b", 100_000)],
    "numbers alone": [("0", 0), ("7", 7), ("00000300", 300)],
    "runs": [("run-1-300", 300), ("run-1-600", 600)],
    "Axolotl, with a merge": [("checkpoint-200-merged", 200), ("checkpoint-400-merged", 400)],
    "MosaicML, of time": [("ep1-ba1000", 1000), ("ep2-ba2000", 2000), ("latest-ba3000-rank0", 3000)],
    "SpeechBrain": [("CKPT+2024-01-31+12-30-00_step_100", 100), ("CKPT+2024-01-31+13-30-00_step_200", 200)],
    "Amber, K2": [("ckpt_000", 0), ("ckpt_100", 100), ("ckpt_358", 358)],
    "SmolLM": [("step-120000", 120_000), ("step-240000", 240_000)],
    "JAX, Flax": [("checkpoint_100", 100), ("checkpoint_2000", 2000)],
    "fast.ai and others": [("model_ep3_it400", 400), ("model_ep3_it800", 800)],
    "words": [("it_100", 100), ("itr_200", 200), ("iteration-300", 300), ("cp_400", 400), ("gs500", 500)],
}
"""What public trainers and scripts call their checkpoints, and the step that each name means."""

NAMES = [(scheme, name, step) for scheme, names in SCHEMES.items() for name, step in names]


def test_the_names_are_two_hundred_with_those_that_have_no_step() -> None:
    assert len(NAMES) + len(WITHOUT) >= 200
    assert len({name for _, name, _ in NAMES}) > 0.9 * len(NAMES)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_names_of_a_trainer_are_read_as_it_means_them(scheme: str) -> None:
    names, steps = zip(*SCHEMES[scheme], strict=True)
    readings = read_names(names)
    assert [reading.at and reading.at.step for reading in readings] == list(steps)


@pytest.mark.parametrize(("name", "step"), [row[1:] for row in NAMES])
def test_a_name_alone_has_its_step_or_a_line(name: str, step: int) -> None:
    (reading,) = read_names([name])
    assert reading.at is None or reading.at.step == step or reading.ignored
    assert reading.at is not None or reading.why


WITHOUT = {
    "step_-1": "`step_-1` is no number of updates",
    "step=-100": "`step=-100` is no number of updates",
    "step--5": "`step--5` is no number of updates",
    "step-1.5-a": "`step-1.5` is no number of updates",
    "step_10.000": "`step_10.000` is no number of updates",
    "step_5b": "`step_5b` is no number of updates",
    "checkpoint-100000000000000000000": "is no number of updates",
    "step1e30": "`step1e30` is no number of updates",
    "step_1_of_step_2": "`step_1` and `step_2` may be its step",
    "m_2024-01-31": "no number in it counts updates",
    "model_ppl_35": "no number in it counts updates",
    "ckpt-1706696100": "no number in it counts updates",
    "model_1706696101": "no number in it counts updates",
    "v1.0": "`v1.0` is no number of updates",
    "main": "no number in it counts updates",
    "footstep": "no number in it counts updates",
    "m_1e3": "no number in it counts updates",
    "m-v1": "no number in it counts updates",
    "weights_seed3": "no number in it counts updates",
    "model-rank0": "no number in it counts updates",
    "resnet50_pretrained": "no number in it counts updates",
    "": "no number in it counts updates",
}


@pytest.mark.parametrize("name", WITHOUT)
def test_a_name_without_a_step_says_why(name: str) -> None:
    (reading,) = read_names([name])
    assert reading.at is None
    assert WITHOUT[name] in reading.why


@pytest.mark.parametrize("name", ["main", "v1.0", "step", "footstep3", "fp16", "refs/pr/1", "model_300", "7", ""])
def test_a_revision_needs_a_word(name: str) -> None:
    assert read_names([name], bare=False)[0].at is None


@pytest.mark.parametrize(
    ("name", "at"),
    [
        ("stage1-step-40000", Coordinates(40_000, None, "stage1")),
        ("stage2-ingredient1-step11931-tokens100B", Coordinates(11_931, 100 * 10**9, "stage2-ingredient1")),
        ("seed_0-step_20k", Coordinates(20_000, None, "seed_0")),
        (
            "TinyLlama-1.1B-intermediate-step-240k-503b",
            Coordinates(240_000, 503 * 10**9, "TinyLlama-1.1B-intermediate"),
        ),
        ("step1250-seed-small-aux-2", Coordinates(1250, None, "seed-small-aux-2")),
        ("step_100_seed3", Coordinates(100, None, "seed3")),
        ("epoch=3-val_loss=0.5-step=400", Coordinates(400)),
        ("train_global_step100", Coordinates(100)),
        ("step-1195k-token-2.5T", Coordinates(1_195_000, 2500 * 10**9)),
        ("chck_100M", Coordinates(10**8, 10**8)),
        ("model_tokens-1.5B", Coordinates(15 * 10**8, 15 * 10**8)),
        ("16.78B", Coordinates(16_780_000_000, 16_780_000_000)),
    ],
)
def test_tokens_and_the_training_are_read_too(name: str, at: Coordinates) -> None:
    assert read_names([name])[0].at == at


def test_of_several_numbers_without_a_word_the_one_that_changes_is_the_step() -> None:
    names = ["300_of_model_12", "600_of_model_12", "900_of_model_12"]
    assert [reading.at and reading.at.step for reading in read_names(names)] == [300, 600, 900]


def test_of_two_steps_in_a_name_the_one_that_changes_counts() -> None:
    readings = read_names(["step_100_of_step_500", "step_200_of_step_500"])
    assert [reading.at and reading.at.step for reading in readings] == [100, 200]
    assert readings[0].ignored == ("step_500",)


@pytest.mark.parametrize(
    ("names", "left"),
    [
        (["step_100", "step_200", "model_7"], "model_7"),
        (["checkpoint_1_2500", "checkpoint_2_5000", "checkpoint2"], "checkpoint2"),
        (["iter_100", "iter_200", "epoch_1"], "epoch_1"),
        (["model_100", "model_200", "model_300", "step_7"], "step_7"),
    ],
)
def test_a_number_that_counts_something_else_than_most_is_left_out(names: list[str], left: str) -> None:
    readings = dict(zip(names, read_names(names), strict=True))
    assert [name for name, reading in readings.items() if reading.at is None] == [left]
    assert readings[left].why.endswith("counts something else than the others")


def test_a_number_of_its_own_in_front_of_each_name_is_no_branch() -> None:
    assert {reading.at and reading.at.branch for reading in read_names(["01_step50", "02_step60", "03_step70"])} == {""}
    seeds = read_names([f"seed_{seed}-step_{step}" for seed in (0, 1) for step in (1, 2)])
    assert {reading.at and reading.at.branch for reading in seeds} == {"seed_0", "seed_1"}


def test_what_is_ignored_is_said_and_plain_names_say_nothing() -> None:
    names = ["step_100", "step_200", "step_300_ppl_18", "epoch_7_step_9", "best"]
    lines = told(list(zip(names, read_names(names), strict=True)))
    assert lines == [
        "best -> left out: no number in it counts updates",
        "epoch_7_step_9 -> step 9, read from `step_9`, ignored `epoch_7`",
        "step_300_ppl_18 -> step 300, read from `step_300`, ignored `ppl_18`",
    ]
    assert told([("epoch_3", read_names(["epoch_3"])[0])]) == [
        "epoch_3 -> step 3, read from `epoch_3`, which counts epochs"
    ]


def test_many_names_that_are_read_alike_are_a_few_lines() -> None:
    names = [f"step_{step}_ppl_{step}" for step in range(100)]
    lines = told(list(zip(names, read_names(names), strict=True)))
    assert len(lines) == 4
    assert lines[2] == "... 97 more so"


def test_one_convention_has_one_form() -> None:
    names = ["step_1_000", "step_100", "step_2.5k", "step_7"]
    assert {convention(name) for name in names} == {"step_#"}


def test_a_parser_of_ones_own_may_return_just_the_step() -> None:
    assert read_names(["e3"], lambda name: 100 * int(name[1:]))[0].at == Coordinates(300)
    assert read_names(["e3"], lambda name: Coordinates(3, 9))[0].at == Coordinates(3, 9)
    assert read_names(["e3"], lambda name: None)[0].why == "`parse` gives it no step"


def test_an_expression_gives_step_tokens_and_branch() -> None:
    expression = r"(?P<branch>\w)at(?P<step>[\d.]+k?)with(?P<tokens>\d+M)"
    readings = read_names(["aat1.5kwith3M", "other"], expression)
    assert [reading.at for reading in readings] == [Coordinates(1500, 3_000_000, "a"), None]


@pytest.mark.parametrize("expression", ["(", r"\d+", r"(?P<stp>\d+)", r"(?P<step>\d+)(?P<epoch>\d+)"])
def test_an_expression_that_gives_no_step_is_refused(expression: str) -> None:
    with pytest.raises(ValueError, match=r"`parse` (is no regular expression|has a group of the name)"):
        read_names(["e3"], expression)


@pytest.mark.parametrize("step", [3, np.int64(3), torch.tensor(3)], ids=str)
def test_a_step_of_any_whole_type_is_a_number(step: object) -> None:
    assert type(whole(step)) is int
    assert whole(step) == 3


@pytest.mark.parametrize("step", [-1, 0.5, 1.0, "7", None, True, torch.tensor(0.5), LARGEST + 1], ids=str)
def test_what_counts_no_updates_is_no_step(step: object) -> None:
    with pytest.raises(ValueError, match=r"a step is a whole number of optimiser updates, got"):
        whole(step)
