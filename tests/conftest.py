"""Fixtures that several test files share: a small task, hand-made views and batches, a small trained run."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import torch
from torch import Tensor

from stagewise import architecture
from stagewise.architecture import Architecture
from stagewise.probe import View, pattern_hooks
from stagewise.recipe import Recipe, TrainPlan
from stagewise.series import CheckpointSeries
from stagewise.task import Batch
from stagewise.tasks import MarkovChain
from stagewise.training import train


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def small_task() -> MarkovChain:
    return MarkovChain(d_vocab=4, spans=(1, 1), length=4, n_sequences=60)


@pytest.fixture(scope="session")
def small_recipe(small_task: MarkovChain) -> Recipe:
    plan = TrainPlan(steps=6, batch_size=8, learning_rate=0.05, save=frozenset({2, 4}))
    return Recipe(small_task, architecture.minimal(4, small_task.n_ctx, n_heads=2), plan)


@pytest.fixture(scope="session")
def small_run(small_recipe: Recipe, tmp_path_factory: pytest.TempPathFactory) -> CheckpointSeries:
    return train(small_recipe, tmp_path_factory.mktemp("runs") / "small", progress=False)


@pytest.fixture(scope="session")
def small_folder(small_run: CheckpointSeries, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where `small_run` lies. Copy it before changing anything."""
    return tmp_path_factory.getbasetemp() / "runs0" / "small"


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
    folder = Path(os.environ.get("STAGEWISE_SCAN_DATA", beside))
    if not folder.is_dir():
        pytest.skip(f"the reference data of Scan and Snap are not in {folder}: set STAGEWISE_SCAN_DATA to their folder")
    return folder


@pytest.fixture(scope="session")
def wikitext() -> str:
    """The folder of WikiText-2: STAGEWISE_WIKITEXT, or ../shared/data/wikitext-2 beside the repository."""
    beside = Path(__file__).parents[2] / "shared" / "data" / "wikitext-2"
    folder = Path(os.environ.get("STAGEWISE_WIKITEXT", beside))
    if not (folder / "train.txt").is_file():
        pytest.skip(f"WikiText-2 is not in {folder}: set STAGEWISE_WIKITEXT to a folder that holds train.txt")
    return str(folder)
