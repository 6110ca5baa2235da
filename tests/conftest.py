"""Fixtures that several test files share: a small task, hand-made views, a small trained run, Hugging Face models."""

import concurrent.futures
import contextlib
import copy
import gc
import json
import os
import pickle
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import jaxtyping
import numpy as np
import pandas as pd
import pytest
import torch
from scipy.integrate import solve_ivp
from torch import Tensor, nn

from stagewise import architecture
from stagewise.architecture import Architecture
from stagewise.checkpoints.run_folder import ANALYSIS, TABLE, write, write_json
from stagewise.checkpoints.series import CheckpointSeries, open_series
from stagewise.probe import View, pattern_hooks
from stagewise.recipe import Recipe, TrainPlan
from stagewise.table import tidy
from stagewise.task import Batch
from stagewise.tasks import MarkovChain
from stagewise.training import train
from tests.local_hub import LocalHub

P = ParamSpec("P")
T = TypeVar("T")

DATA = {"wikitext", "scan_data"}
"""Fixtures of data that lie outside the repository: their tests skip where there are none."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Fail a test that skips for want of data which STAGEWISE_REQUIRE_DATA says are there."""
    report = yield
    required = DATA & set(os.environ.get("STAGEWISE_REQUIRE_DATA", "").split())
    if report.skipped and required & set(getattr(item, "fixturenames", ())):
        report.outcome = "failed"
        report.longrepr = f"skipped, although STAGEWISE_REQUIRE_DATA={' '.join(sorted(required))}: {report.longrepr}"
    return report


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> Iterator[None]:
    """One thread; commands that run in this process leave its allocator alone, for others measure its memory."""
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("stagewise.models.process.keep_freed_memory", lambda: None)
        yield


@pytest.fixture(autouse=True, scope="session")
def frozen() -> None:
    """Spare the garbage collector what is there before the first test: a look through it takes a third of a second."""
    gc.freeze()


@contextlib.contextmanager
def unchecked_types() -> Iterator[None]:
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        yield
    finally:
        jaxtyping.config.update("jaxtyping_disable", before)


@pytest.fixture(scope="module")
def unchecked() -> Iterator[None]:
    """No run-time type checks in a module of whole runs: what it calls is checked where it is tested by itself."""
    with unchecked_types():
        yield


@pytest.fixture(autouse=True, scope="session")
def checked_once() -> Iterator[None]:
    """Check the types of a velocity in its first evaluation: in every one of a solver's they take most of its time."""

    def solve_once_checked(velocity: Callable[..., Any], span: Any, start: Any, *arguments: Any, **named: Any) -> Any:
        velocity(span[0], start)
        with unchecked_types():
            return solve_ivp(velocity, span, start, *arguments, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("stagewise.theory.dynamics.solve_ivp", solve_once_checked)
        yield


@pytest.fixture(scope="session")
def small_task() -> MarkovChain:
    return MarkovChain(d_vocab=4, spans=(1, 1), length=4, n_sequences=60)


@pytest.fixture(scope="session")
def small_recipe(small_task: MarkovChain) -> Recipe:
    plan = TrainPlan(steps=6, batch_size=8, learning_rate=0.05, save=frozenset({2, 4}))
    return Recipe(small_task, architecture.minimal(4, small_task.n_ctx, n_heads=2), plan)


@pytest.fixture(scope="session")
def small_folder(small_recipe: Recipe, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained run. Copy it before changing anything."""
    folder = tmp_path_factory.mktemp("runs") / "small"
    train(small_recipe, folder, progress=False)
    return folder


@pytest.fixture(scope="session")
def small_run(small_folder: Path) -> CheckpointSeries:
    return open_series(small_folder)


@pytest.fixture(scope="module")
def few_sequences() -> Iterator[None]:
    """Runs of this module are measured on a small probe batch, where only what is measured counts, not how well."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("stagewise.analysis.RUN_SEQUENCES", 32)
        patch.setattr("stagewise.analysis.SEQUENCES", 16)
        yield


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports hold empty drawings: their axes are filled, but neither laid out nor drawn, half of a report's time.

    What is drawn is tested in tests/reporting and tests/plot.
    """
    monkeypatch.setattr("stagewise.reporting.figure.svg", lambda figure, name: '<svg width="1" height="1"></svg>')


class AtOnce(concurrent.futures.Executor):
    """Runs in this process, at once, what is submitted to it, as another process would get it: pickled."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> concurrent.futures.Future[T]:
        function, given, named = pickle.loads(pickle.dumps((fn, args, kwargs)))
        done: concurrent.futures.Future[T] = concurrent.futures.Future()
        done.set_result(function(*given, **named))
        return done


@pytest.fixture
def no_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """What asks for processes runs in this one: in one of their own it takes seconds to import torch.

    A real pool of processes is tested in tests/test_sweeping.py.
    """
    for module in ("sweeping", "measurement.baselines", "measurement.measuring"):
        monkeypatch.setattr(f"stagewise.{module}.worker_pool", lambda workers: AtOnce())


@pytest.fixture(scope="session")
def two_layers() -> Architecture:
    """Two layers of three heads, with LayerNorm and MLPs."""
    return architecture.full(4, 6, n_layers=2, n_heads=3, d_model=12, d_mlp=8)


@pytest.fixture(scope="session")
def view_of() -> Callable[..., View]:
    """Make a view by hand from patterns [batch layer head query key], all predictions scored."""

    def make(
        patterns: Tensor,
        relations: Mapping[str, Tensor] | None = None,
        scored: Tensor | None = None,
        step: int = 0,
    ) -> View:
        batch, layers, heads, length, _ = patterns.shape
        tokens = torch.zeros(batch, length, dtype=torch.int64)
        scored = torch.ones(batch, length, dtype=torch.bool) if scored is None else scored
        relations = {name: mask.expand(batch, -1, -1) for name, mask in (relations or {}).items()}
        model = architecture.full(2, length, n_layers=layers, n_heads=heads, d_model=4 * heads)
        activations = dict(zip(pattern_hooks(model), patterns.unbind(1), strict=True))
        log_probs = torch.zeros(batch, length, 2).log_softmax(-1)
        return View(step, model, Batch(tokens, tokens, scored, relations), log_probs, activations, {}, {})

    return make


@pytest.fixture(scope="session")
def looking_back() -> Callable[[int, int], Tensor]:
    """Make a one-hot pattern [query key]: each query looks `offset` positions back, or at position 0."""

    def make(length: int, offset: int) -> Tensor:
        key = (torch.arange(length) - offset).clamp(min=0)
        return torch.nn.functional.one_hot(key, length).float()

    return make


@pytest.fixture(scope="session")
def scan_data() -> Path:
    """The reference data of arXiv:2305.16380: STAGEWISE_SCAN_DATA, or ../shared/... beside the repository."""
    beside = Path(__file__).parents[2] / "shared" / "papers" / "data" / "scan-and-snap"
    folder = Path(os.environ.get("STAGEWISE_SCAN_DATA") or beside)
    if not folder.is_dir():
        pytest.skip(f"the reference data of Scan and Snap are not in {folder}: set STAGEWISE_SCAN_DATA to their folder")
    return folder


SIZES: dict[str, object] = {"vocab_size": 32, "bos_token_id": 0, "eos_token_id": 0}
SMALL: dict[str, object] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
}
GROUPED: dict[str, object] = {"max_position_embeddings": 32, "num_key_value_heads": 2, "head_dim": 8}
GPT2: dict[str, object] = {"n_positions": 32, "n_embd": 32, "n_layer": 2, "n_head": 4}
OPT: dict[str, object] = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
HF_MODELS: dict[str, dict[str, object]] = {
    "GPT2": GPT2,
    "GPTNeoX": {**SMALL, "max_position_embeddings": 32, "rotary_pct": 0.25},
    "Llama": {**SMALL, **GROUPED},
    "Gemma2": {**SMALL, **GROUPED, "sliding_window": 8, "pad_token_id": 0},
    "GPTJ": {**GPT2, "rotary_dim": 4},
    "Bloom": {"hidden_size": 32, "n_layer": 2, "n_head": 4},
    "OPT": {**OPT, "max_position_embeddings": 32, "ffn_dim": 48, "word_embed_proj_dim": 32, "pad_token_id": 1},
    "Mixtral": {**SMALL, **GROUPED, "num_local_experts": 2},
}


@pytest.fixture(scope="session")
def hugging_face() -> Callable[..., nn.Module]:
    """Make a small Hugging Face model of a kind, with random weights so large that attention is far from uniform."""
    import transformers

    made: dict[str, Any] = {}

    def make(kind: str, seed: int = 0, **change: object) -> nn.Module:
        name = f"{kind} {seed} {change}"
        if name not in made:
            config = getattr(transformers, f"{kind}Config")(**{**SIZES, **HF_MODELS[kind], **change})
            torch.manual_seed(seed)
            made[name] = transformers.AutoModelForCausalLM.from_config(config).eval()
            with torch.no_grad():
                for parameter in made[name].parameters():
                    parameter.mul_(6 if parameter.dim() > 1 else 1)
            made[name].set_attn_implementation("eager")
            gc.freeze()  # with it, transformers and TransformerLens: they stay to the end
        model: nn.Module = copy.deepcopy(made[name])
        return model

    return make


@pytest.fixture
def checkpoints(tmp_path: Path, saved: Callable[..., dict[str, bytes]]) -> Path:
    for seed, step in enumerate((0, 10, 20, 30)):
        folder = tmp_path / "mine" / f"checkpoint-{step}"
        folder.mkdir(parents=True)
        for name, content in saved("GPT2", seed).items():
            (folder / name).write_bytes(content)
    return tmp_path / "mine"


@pytest.fixture
def local_hub() -> Iterator[Callable[[dict[str, dict[str, bytes]]], Any]]:
    """Start a hub on this machine that serves files[revision][name] of the repository owner/model."""
    started = []

    def start(files: dict[str, dict[str, bytes]]) -> Any:
        started.append(LocalHub(files))
        return started[-1]

    yield start
    for hub in started:
        hub.close()


@pytest.fixture
def saved(hugging_face: Callable[..., nn.Module]) -> Callable[..., dict[str, bytes]]:
    """Make the files of a saved Hugging Face model: config.json and model.safetensors."""
    from safetensors.torch import save

    def files(kind: str, seed: int, **config: object) -> dict[str, bytes]:
        plain: Any = hugging_face(kind, seed)
        written = {**json.loads(plain.config.to_json_string()), **config}
        weights = {name: weight.detach().clone() for name, weight in plain.named_parameters()}
        return {"config.json": json.dumps(written).encode(), "model.safetensors": save(weights)}

    return files


@pytest.fixture
def executions() -> Iterator[Counter[int | str]]:
    """How often each block of any model has run, and the embedding: counted by a plain torch forward hook."""
    count: Counter[int | str] = Counter()

    def forward_hook(module: Any, arguments: Any, output: object) -> None:
        kind = type(module).__name__
        if kind not in ("TransformerBlock", "BlockBridge", "Embed", "EmbeddingBridge") or len(arguments[0]) == 1:
            return  # edits are tried on one sequence, once a model: no pass of the batch
        if kind == "TransformerBlock":
            count[module.attn.layer_id] += 1
        elif kind == "BlockBridge":
            count[int(module.name.removeprefix("layers."))] += 1
        else:
            count["embed"] += 1

    handle = torch.nn.modules.module.register_module_forward_hook(forward_hook)
    yield count
    handle.remove()


@pytest.fixture(scope="session")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A tokenizer.json of these words, numbered from 1; 0 begins a text and stands for all others."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = ("the", "cat", "saw", "dog", "and", "again", "while", "a", "bird", "sang")
    numbers = {word: number for number, word in enumerate(words, start=1)}
    made = Tokenizer(models.WordLevel({"<start>": 0, **numbers}, unk_token="<start>"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    made.save(str(path))
    return str(path)


@pytest.fixture(scope="session")
def letters(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder with a text of eight random words, long enough for the recorded place of Scan and Snap's probe, and the
    same as tokens."""
    path = tmp_path_factory.mktemp("letters")
    words = np.random.default_rng(0).choice(list("abcdefgh"), size=20 * 3600)
    for name in ("train", "valid", "test"):
        (path / f"{name}.txt").write_text(" ".join(words) + "\n", encoding="utf8")
    np.save(path / "tokens.npy", np.array([ord(word) - ord("a") for word in words], dtype=np.uint16))
    return str(path)


@pytest.fixture(scope="session")
def wikitext() -> str:
    """The folder of WikiText-2: STAGEWISE_WIKITEXT, or ../shared/data/wikitext-2 beside the repository."""
    beside = Path(__file__).parents[2] / "shared" / "data" / "wikitext-2"
    folder = Path(os.environ.get("STAGEWISE_WIKITEXT") or beside)
    if not (folder / "train.txt").is_file():
        pytest.skip(f"WikiText-2 is not in {folder}: set STAGEWISE_WIKITEXT to a folder that holds train.txt")
    return str(folder)


@pytest.fixture(scope="session")
def one_onset() -> pd.DataFrame:
    """Of two heads one begins to look back at step 100, the other one never does. Not to be changed."""
    steps = np.unique(np.geomspace(1, 1001, 40).astype(int)) - 1
    noise = 0.01 * np.random.default_rng(0).standard_normal((2, len(steps)))
    rise = 1 / (1 + np.exp(-(np.log1p(steps) - np.log(101)) / 0.1))
    of: dict[str, Any] = {
        "run": "run",
        "probe": "AttentionTo",
        "quantity": "along",
        "relation": "previous token",
        "layer": 0,
    }
    values = (0.05 + 0.8 * rise + noise[0], 0.05 + noise[1])
    heads = [pd.DataFrame({"step": steps, "value": value}).assign(head=head, **of) for head, value in enumerate(values)]
    return tidy(heads)


@pytest.fixture
def foreign(one_onset: pd.DataFrame, tmp_path: Path) -> Path:
    """A folder of checkpoints from elsewhere whose loss rises on the batch on which a head begins to look back."""
    folder, steps = tmp_path / "foreign", one_onset["step"].unique()
    loss = pd.DataFrame({"step": steps, "value": np.linspace(2.0, 3.0, len(steps)), "run": "run", "n": 64})
    rows = [one_onset, loss.assign(probe="Loss", quantity="cross_entropy")]
    write(folder / TABLE, lambda partial: tidy(rows).to_parquet(partial, index=False))
    record = {"format": 1, "series": {"name": "run"}, "recipe": {"architecture": {"config": {"d_vocab": 64}}}}
    write_json(folder / ANALYSIS, record)
    return folder


@pytest.fixture(scope="session")
def emerging() -> pd.DataFrame:
    """Of two heads one begins to look at the value's key at step 420, the accuracy rises at 540. Not to be changed."""
    steps = np.arange(0, 1000, 50)

    def rows(at: float, height: float, probe: str, quantity: str, **axes: Any) -> pd.DataFrame:
        values = height / (1 + np.exp(-(steps - at) / 20))
        return pd.DataFrame({"step": steps, "value": values}).assign(run="made", probe=probe, quantity=quantity, **axes)

    relation = {"head": 0, "relation": "value to key"}
    accuracy = rows(540, 1.0, "Accuracy", "accuracy")
    loss = accuracy.assign(value=4 - 3.9 * accuracy["value"], probe="Loss", quantity="cross_entropy")
    heads = [rows(420, (0.9, 0.1)[layer], "AttentionTo", "along", layer=layer, **relation) for layer in (0, 1)]
    return tidy([*heads, accuracy, loss])
