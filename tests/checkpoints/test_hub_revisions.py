"""Revisions as a series: huggingface_hub itself, against a server on this machine."""

import dataclasses
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cloudpickle
import pytest
import torch
from torch import nn

from stagewise import models
from stagewise.architecture import Architecture
from stagewise.checkpoints.audit import audit
from stagewise.checkpoints.findings import Kind
from stagewise.checkpoints.openers import expanded
from stagewise.checkpoints.series import CheckpointSeries, find, open_series
from stagewise.checkpoints.sources import Source
from stagewise.measurement.engine import measure
from stagewise.probes import AttentionEntropy, Loss
from stagewise.tasks import MarkovChain

REVISIONS = ("main", "step0", "step512", "step2000")
WEIGHTS = "model.safetensors"


@pytest.fixture
def hub(local_hub: Callable[..., Any], saved: Callable[..., dict[str, bytes]]) -> Any:
    return local_hub({name: saved("GPTNeoX", seed) for seed, name in enumerate(REVISIONS)})


def opened(hub: Any, cache: Path, cache_bytes: int = 10**9, **options: Any) -> CheckpointSeries:
    places = {"cache": cache, "cache_bytes": cache_bytes, "endpoint": hub.endpoint}
    return open_series("owner/model", hub=places, **options)


def bytes_of(series: CheckpointSeries) -> int:
    """What is said of its download before it begins."""
    assert series.source is not None
    return sum(entry.download() for entry in series.source.entries)


def opened_source(hub: Any, cache: Path) -> Source:
    return find("owner/model", hub={"cache": cache, "endpoint": hub.endpoint})


def test_the_revisions_are_a_series_and_opening_downloads_no_weights(hub: Any, tmp_path: Path) -> None:
    series = opened(hub, tmp_path)
    assert (series.name, series.steps) == ("owner/model", (0, 512, 2000))
    assert (series.architecture.n_layers, series.architecture.n_heads) == (2, 4)
    assert not any(WEIGHTS in asked for asked in hub.asked)


def test_the_weights_are_those_of_the_revision(
    hub: Any, tmp_path: Path, hugging_face: Callable[..., nn.Module]
) -> None:
    series = opened(hub, tmp_path)
    for seed, step in enumerate(series.steps, start=1):
        expected = dict(hugging_face("GPTNeoX", seed).named_parameters())
        state = series.weights(step)
        assert state.keys() == expected.keys()
        assert all(torch.equal(state[name], expected[name]) for name in state)


def test_a_second_reading_downloads_nothing(hub: Any, tmp_path: Path) -> None:
    list(opened(hub, tmp_path))
    hub.asked.clear()
    list(opened(hub, tmp_path))
    assert not [asked for asked in hub.asked if asked.startswith("GET") and WEIGHTS in asked]


def test_the_next_revision_is_fetched_while_the_current_one_is_used(hub: Any, tmp_path: Path) -> None:
    series = opened(hub, tmp_path)
    series.weights(0)
    series.weights(512)
    assert all(hub.asked[f"GET {name}/{WEIGHTS}"] == 1 for name in ("step0", "step512"))


def test_a_series_can_be_handed_to_another_process(hub: Any, tmp_path: Path) -> None:
    series = opened(hub, tmp_path, steps=2)
    again = pickle.loads(cloudpickle.dumps(series))
    assert again.steps == (0, 2000)
    assert all(torch.equal(weight, series.weights(2000)[name]) for name, weight in again.weights(2000).items())


def test_the_cache_stays_below_its_size(hub: Any, tmp_path: Path) -> None:
    size = len(hub.files["step0"][WEIGHTS])
    for _ in opened(hub, tmp_path, cache_bytes=2 * size):
        held = sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file() and not path.is_symlink())
        assert held < 3.2 * size  # the current one, the next one on its way, and their small files
    assert not list(tmp_path.rglob(f"*{hub.commit('step0')}*/{WEIGHTS}"))


def test_a_hub_series_is_measured(hub: Any, tmp_path: Path) -> None:
    batch = MarkovChain(d_vocab=8, spans=(1, 1), length=8).probe_batch(6, seed=0)
    batch = dataclasses.replace(batch, references={})
    table = measure(opened(hub, tmp_path), [Loss(), AttentionEntropy()], batch, progress=False)
    assert table["step"].drop_duplicates().tolist() == [0, 512, 2000]
    assert table[table["probe"] == "AttentionEntropy"].groupby("step").size().tolist() == [8, 8, 8]


def test_tokens_in_a_name_are_a_column_of_the_table(
    local_hub: Callable[..., Any], saved: Callable[..., dict[str, bytes]], tmp_path: Path
) -> None:
    names = ("stage1-step1000-tokens4B", "stage1-step2000-tokens8B", "stage2-step10-tokens9B")
    hub = local_hub({name: saved("GPTNeoX", seed) for seed, name in enumerate(names)})
    with pytest.raises(ValueError, match=r"has several branches of training.*one of 'stage1', 'stage2'"):
        opened(hub, tmp_path)
    series = opened(hub, tmp_path, branch="stage1")
    batch = dataclasses.replace(MarkovChain(d_vocab=8).probe_batch(4, seed=0), references={})
    table = measure(series, [Loss()], batch, progress=False)
    assert table.groupby("step")["tokens"].first().tolist() == [4 * 10**9, 8 * 10**9]


def test_names_of_ones_own_are_read_by_ones_own_function(
    local_hub: Callable[..., Any], saved: Callable[..., dict[str, bytes]], tmp_path: Path
) -> None:
    hub = local_hub({"main": {}, "round-2": saved("GPT2", 0), "round-1": saved("GPT2", 1)})
    with pytest.raises(
        FileNotFoundError, match="no revision of owner/model is named like a checkpoint; there are main"
    ):
        opened(hub, tmp_path)
    series = opened(hub, tmp_path, parse=lambda name: 50 * int(name[6:]) if name.startswith("round") else None)
    assert series.steps == (50, 100)


def test_a_revision_without_weights_is_named(hub: Any, tmp_path: Path) -> None:
    del hub.files["step512"][WEIGHTS]
    with pytest.raises(FileNotFoundError, match="revision 'step512' of owner/model holds no weights"):
        list(opened(hub, tmp_path))


def test_a_revision_that_went_away_is_named(hub: Any, tmp_path: Path) -> None:
    series = opened(hub, tmp_path)
    del hub.files["step2000"]
    with pytest.raises(
        FileNotFoundError, match="revision 'step2000' of owner/model: the repository has no such revision"
    ):
        series.weights(2000)


def test_a_repository_that_does_not_exist_is_named(hub: Any, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="could not list the revisions of owner/other: the hub has no such"):
        open_series("owner/other", hub={"cache": tmp_path, "endpoint": hub.endpoint})


def test_revisions_that_are_numbers_are_steps_where_no_word_says_so(
    local_hub: Callable[..., Any], saved: Callable[..., dict[str, bytes]], tmp_path: Path
) -> None:
    numbers = ("main", "128000", "256000", "512000")
    mixed = ("main", "step10", "step20", "2024", "2025", "2026")
    assert opened(local_hub({name: saved("GPT2", 0) for name in numbers}), tmp_path).steps == (128000, 256000, 512000)
    assert opened(local_hub({name: saved("GPT2", 0) for name in mixed}), tmp_path).steps == (10, 20)


def test_folders_of_main_are_a_series_and_the_cache_stays_below_its_size(
    local_hub: Callable[..., Any], saved: Callable[..., dict[str, bytes]], tmp_path: Path
) -> None:
    each = {step: saved("GPT2", seed) for seed, step in enumerate((0, 500, 1000, 1500))}
    files = {f"checkpoints/step_{step}/{WEIGHTS}": content[WEIGHTS] for step, content in each.items()}
    hub = local_hub({"main": {"config.json": each[0]["config.json"], "README.md": b"mine", **files}})
    size = len(each[0][WEIGHTS])
    series = opened(hub, tmp_path, 2 * size)
    assert series.steps == (0, 500, 1000, 1500)
    told = bytes_of(series)
    for _ in series:
        held = sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file() and not path.is_symlink())
        assert held < 3.2 * size
    assert hub.sent == pytest.approx(told, rel=0.05)
    assert {name: len(weight) for name, weight in series.weights(500).items()}
    assert series.source is not None
    assert [entry.label for entry in series.source.entries][1] == "checkpoints/step_500"
    assert len({entry.digest() for entry in series.source.entries}) == 4


def test_files_of_main_with_a_step_in_their_names_are_a_series(
    local_hub: Callable[..., Any], saved: Callable[..., dict[str, bytes]], tmp_path: Path
) -> None:
    each = {step: saved("GPT2", seed) for seed, step in enumerate((0, 500, 1000, 1500))}
    files = {f"checkpoints/small_{step}.safetensors": content[WEIGHTS] for step, content in each.items()}
    others = {"checkpoints/optimizer.pt": b"", "final.pth": b"", "notes/plot_500.png": b""}
    hub = local_hub({"main": {"config.json": each[0]["config.json"], **files, **others}})
    series = opened(hub, tmp_path)
    assert series.steps == (0, 500, 1000, 1500)
    assert series.source is not None
    assert [entry.label for entry in series.source.entries][1] == "checkpoints/small_500.safetensors"
    assert len({entry.digest() for entry in series.source.entries}) == 4
    numbers = {sum(float(weight.sum()) for weight in series.weights(step).values()) for step in series.steps}
    assert len(numbers) == 4
    assert {name.split("/")[-1] for name in hub.asked if name.startswith("GET")} == {
        "config.json",
        *(f"small_{step}.safetensors" for step in each),
    }


def test_folders_of_several_seeds_are_branches_whatever_steps_they_have(
    local_hub: Callable[..., Any], saved: Callable[..., dict[str, bytes]], tmp_path: Path
) -> None:
    one, folders = saved("GPT2", 0), ("seed_0/step_10", "seed_0/step_30", "seed_1/step_20")
    files = {f"{folder}/{WEIGHTS}": one[WEIGHTS] for folder in folders}
    hub = local_hub({"main": {"config.json": one["config.json"], **files}})
    hub.repository = "EleutherAI/pythia-mine"
    places = {"cache": tmp_path, "endpoint": hub.endpoint}
    with pytest.raises(ValueError, match=r"has several branches of training.*one of 'seed_0', 'seed_1'"):
        open_series(hub.repository, hub=places)
    series = open_series(hub.repository, hub=places, branch="seed_0")
    assert (series.steps, series.seed, series.tokens[30]) == ((10, 30), 0, 30 * 2_097_152)


def test_a_tokenizer_is_that_of_the_last_revision_that_is_opened(
    local_hub: Callable[..., Any], saved: Callable[..., dict[str, bytes]], tmp_path: Path
) -> None:
    one, names = saved("GPT2", 0), ("sft-step10", "sft-step20", "sft-step30", "dpo-step40", "main")
    each = {name: one | ({} if name == "sft-step30" else {"tokenizer.json": name.encode()}) for name in names}
    hub = local_hub(each)

    def tokenizer(**options: Any) -> bytes:
        source = opened(hub, tmp_path, **options).source
        assert source is not None
        path = source.file("tokenizer.json")
        assert path is not None
        return path.read_bytes()

    assert tokenizer(branch="dpo") == b"dpo-step40"
    assert tokenizer(branch="sft", steps=[10, 20]) == b"sft-step20"
    assert tokenizer(branch="sft") == b"main"


def test_commits_that_a_trainer_pushed_are_a_series(
    local_hub: Callable[..., Any], saved: Callable[..., dict[str, bytes]], tmp_path: Path
) -> None:
    titles = ["End of training", *(f"Training in progress, step {step}" for step in (1500, 1000, 500, 500)), "initial"]
    names = [f"{number:040x}" for number in range(len(titles))]
    hub = local_hub({"main": {}, **{name: saved("GPT2", seed) for seed, name in enumerate(names)}})
    hub.titles = dict(zip(names, titles, strict=True))
    series = opened(hub, tmp_path)
    assert series.steps == (500, 1000, 1500)
    assert series.source is not None
    assert [entry.label for entry in series.source.entries] == [names[3], names[2], names[1]]
    told = bytes_of(series)
    assert list(series)
    assert hub.sent == pytest.approx(told, rel=0.05)


def test_a_repository_of_one_model_is_no_series(
    local_hub: Callable[..., Any], saved: Callable[..., dict[str, bytes]], tmp_path: Path
) -> None:
    with pytest.raises(FileNotFoundError, match="Neither are folders and commits of its main branch"):
        opened(local_hub({"main": saved("GPT2", 0)}), tmp_path)


def test_a_measurement_downloads_one_format_of_the_weights_and_no_state_of_the_optimiser(
    local_hub: Callable[..., Any], saved: Callable[..., dict[str, bytes]], tmp_path: Path
) -> None:
    others = ("optimizer.pt", "pytorch_model.bin", "scheduler.pt", "model.gguf", "tf_model.h5")
    each = {f"step{step}": saved("GPT2", seed) for seed, step in enumerate((0, 10))}
    hub = local_hub({name: {**files, **dict.fromkeys(others, bytes(10**6))} for name, files in each.items()})
    batch = dataclasses.replace(MarkovChain(d_vocab=8).probe_batch(4, seed=0), references={})
    series = opened(hub, tmp_path)
    told = bytes_of(series)
    measure(series, [Loss()], batch, progress=False)
    assert hub.sent == pytest.approx(told, rel=0.05)
    asked = {name.split("/")[-1] for name in hub.asked if name.startswith("GET")}
    assert asked == {WEIGHTS, "config.json"}
    assert hub.sent <= sum(len(files[WEIGHTS]) + len(files["config.json"]) for files in each.values())


def test_an_audit_of_weights_finds_what_lies_elsewhere_on_the_path(
    local_hub: Callable[..., Any], clean: Path, tmp_path: Path
) -> None:
    folders = sorted(clean.iterdir(), key=lambda folder: int(folder.name.split("-")[1]))
    names = ("config.json", WEIGHTS)
    files = {f"step{each.name.split('-')[1]}": {name: (each / name).read_bytes() for name in names} for each in folders}
    one, other = [*files][3], [*files][6]
    hub = local_hub({**files, one: files[other], other: files[one]})
    found = audit(opened_source(hub, tmp_path), weights=True)
    assert {(fault.kind, f"step{fault.steps[0]}") for fault in found.findings} == {(Kind.OUTLYING_WEIGHTS, one)}


CONFIG = {"n_layers": 1, "d_model": 8, "d_head": 4, "n_ctx": 6, "d_vocab": 5, "act_fn": "relu"}


def saved_at(path: Path, seed: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(models.weights(models.build(Architecture(CONFIG), seed)), path)
    return path


def test_braces_are_expanded_as_a_shell_does() -> None:
    assert expanded("a-{1,2}-{x,y}") == ["a-1-x", "a-1-y", "a-2-x", "a-2-y"]
    assert expanded("runs/{seed}") == ["runs/{seed}"]


def test_listed_files_are_a_series_in_the_order_of_their_steps(tmp_path: Path) -> None:
    files = [saved_at(tmp_path / name / f"model_{step}.pt", step) for name, step in (("b", 20), ("a", 0), ("c", 100))]
    series = open_series(files, architecture=CONFIG)
    assert series.steps == (0, 20, 100)
    expected = models.weights(models.build(Architecture(CONFIG), 100))
    assert all(torch.equal(weight, expected[name]) for name, weight in series.weights(100).items())


def test_listed_folders_are_a_series(saved: Callable[..., dict[str, bytes]], tmp_path: Path) -> None:
    for step in (5, 10):
        (tmp_path / f"bert-seed_3-step_{step}k").mkdir()
        for name, content in saved("GPT2", step).items():
            (tmp_path / f"bert-seed_3-step_{step}k" / name).write_bytes(content)
    series = open_series(str(tmp_path / "bert-seed_3-step_{5,10}k"))
    assert (series.steps, series.seed) == ((5000, 10_000), 3)


def test_a_repository_a_step_is_a_series(
    local_hub: Callable[..., Any], saved: Callable[..., dict[str, bytes]], tmp_path: Path
) -> None:
    hub = local_hub({"main": saved("GPT2", 0)})
    options = {"cache": tmp_path, "endpoint": hub.endpoint}
    series = open_series(["owner/model"], parse=lambda name: 7, hub=options)
    assert (series.steps, series.architecture.n_layers) == ((7,), 2)
    assert series.source is not None
    assert [entry.commit() for entry in series.source.entries] == [hub.commit("main")]
    assert audit(find(["owner/model"], parse=lambda name: 7, hub=options)).checkpoints == 1


@pytest.mark.parametrize(
    ("names", "error", "message"),
    [
        (["no-such-thing"], FileNotFoundError, r"no-such-thing is not there: a list names folders, files, or repos"),
        (
            ["owner/name"],
            ValueError,
            r"the name owner/name has no step \(no number in it counts updates\): give it, as",
        ),
    ],
)
def test_what_is_not_there_or_has_no_step_is_named(names: list[str], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        open_series(names)
