"""The runs behind every figure of incremental learning: recipes by name, at two settings."""

import dataclasses
from collections.abc import Mapping, Sequence
from functools import cache, partial
from typing import Any, Literal, NamedTuple

from stagewise.architectures import OneHotInit
from stagewise.papers.incremental import markov
from stagewise.papers.incremental.markov import SETTINGS as SETTINGS
from stagewise.papers.incremental.paper_block import PaperBlockInit
from stagewise.recipe import Recipe

SCALES: tuple[float | Literal["xavier"], ...] = ("xavier", 1e-3, 1e-6, 0.0)
"""Initial scales of Figure 4 left. 1e-9 is left out: a float32 model loses it in the first Adam step (`OneHotInit`).
At 0 the heads are one and the same, by symmetry: that is what the figure shows."""

_IMPORTANCES = (1.0, 1.3, 1.5, 1.7, 2.0)
"""m of Figure 4 right, that of the other figures, and a larger one."""

_SIZES: dict[str, tuple[int | None, ...]] = {"small": (200, 600, 2000, 6000), "paper": (600, 2000, 9000, None)}
"""Training sequences of Figure 5; None is fresh data."""

_HEADS = (2, 3, 4)

# What a variant changes beside its name's promise, by setting.
_LAYERED: dict[str, dict[str, Any]] = {
    "small": {"plan": {"learning_rate": 0.04}},
    "paper": {"plan": {"learning_rate": 0.04}, "spans": (4, 4, 4), "importance": 1.8, "n_sequences": 27_000},
}
_FULL_LAYERED: dict[str, dict[str, Any]] = {
    "small": {},
    "paper": {"plan": {"learning_rate": 0.001}, "n_sequences": 27_000},
}
_SGD = {"optimiser": "sgd", "learning_rate": 0.2, "momentum": 0.9, "weight_decay": 0.0}
_SGD_STEPS = {"small": 3000, "paper": 7000}
_BLOCKS: dict[str, dict[str, Any]] = {"small": {}, "paper": {"plan": {"steps": 460, "batch_size": 800}}}
"""Short runs of the whole transformer at the paper's size."""

_FARTHEST: dict[str, dict[str, Any]] = {"small": {"reverse": True}, "paper": {"reverse": True, "spans": (2, 4, 8)}}
"""The whole transformer's task where the group farthest back counts most."""

_OVERLAP: dict[str, dict[str, Any]] = {"small": {}, "paper": {"plan": {"steps": 2000}}}


class _Shown(NamedTuple):
    """The runs of a figure; `published.py` has its numbers.

    Args:
        kind: "compare" overlays variants, "stages" draws each run's KL and its maps at the ends of stages, "curves"
            its KL and loss, "maps" its attention maps alone, "heads" each head's masses and values.
        variants: names of `variants`; one that ends in "=" stands for all that begin so.
        restricted: whether the trained restricted-context models belong to it.
    """

    kind: Literal["compare", "stages", "curves", "maps", "heads"]
    variants: tuple[str, ...]
    restricted: bool = False


_DIFFERENCES = ("block=paper", "dropout=0", "norms=front")
"""The paper's block, without its dropout, and TransformerLens's, whose norms stand in front."""

FIGURES = {
    "1": _Shown("stages", ("base",)),
    "2": _Shown("maps", ("full",)),
    "3": _Shown("curves", ("full",), restricted=True),
    "4L": _Shown("compare", ("scale=",)),
    "4R": _Shown("compare", ("m=",)),
    "5": _Shown("compare", ("n=",), restricted=True),
    "6": _Shown("curves", ("fresh",)),
    "7": _Shown("maps", ("fresh",)),
    "8": _Shown("curves", ("reversed",)),
    "9": _Shown("maps", ("reversed",)),
    "11": _Shown("curves", ("layers=2",)),
    "12": _Shown("curves", ("full-layers=2",)),
    "13": _Shown("curves", ("alpha=0.7,0.3",)),
    "14": _Shown("maps", ("alpha=0.7,0.3",)),
    "15": _Shown("curves", ("overlap-heads=",)),
    "16": _Shown("maps", ("overlap-heads=3",)),
    "17": _Shown("maps", ("overlap-heads=4",)),
    "18": _Shown("curves", ("full-sgd",)),
    "19": _Shown("maps", ("full-sgd",)),
    "B": _Shown("heads", ("frobenius",)),
    "heads": _Shown("compare", ("heads=",)),
    "blocks": _Shown("compare", tuple(f"{order}{what}" for order in ("", "reversed-") for what in _DIFFERENCES)),
}
"""Those that train; "heads", the head-count sweep that the paper describes without a figure; and "blocks", what its
block changes. Figure 10 is an ordinary differential equation: `flow.figure_10`."""


WHOLE = ("2", "3", "8", "9", "12", "18", "19", "blocks")
"""Figures whose runs at the paper's size are of the whole transformer, which take an hour or more each."""


def seeds_of(figure: str, setting: str) -> range:
    """Return the seeds that a figure takes where none are asked for: three; of a whole transformer of the paper one.

    >>> seeds_of("6", "small"), seeds_of("6", "paper"), seeds_of("2", "paper")
    (range(0, 3), range(0, 3), range(0, 1))
    """
    return range(1 if setting == "paper" and figure in WHOLE else 3)


class Run(NamedTuple):
    """A run of a figure: what it is called there, its recipe, and its folder, which the figures share."""

    variant: str
    seed: int
    recipe: Recipe
    folder: str

    @property
    def name(self) -> str:
        """The variant with its seed."""
        return f"{self.variant}-seed{self.seed}"


def variants(setting: str = "small", seed: int = 0, *, block: bool = False) -> dict[str, Recipe]:
    """Return every run by name. Names may stand for the same run: "m=1.7" is "base" too.

    Args:
        setting: "small", sized for two cores, or "paper".
        seed: of everything.
        block: only those of the whole transformer, with the paper's own block in place of TransformerLens's.

    Raises:
        ValueError: another setting.

    Source: Yüksel et al. (2026), arXiv:2602.19143, Figures 1 to 19 and B. Deviations: those of `markov.recipe`; the
    reversed run of the small setting is of the minimal model and of spans of two. At the paper's size its widest group
    lies farthest back: of the two orders that one has the published boundaries. The alpha of Figures 13 and 14 counts
    from a group's oldest lag, as their picture has it (`lag_weights`: its most recent), and at the paper's size their
    weights start as Xavier's, whose stages end at 110 and 250 (published: 130 and 280; Figure 1's weights: 270, 390).
    """
    known = _variants(setting, seed, block)
    own = {name: recipe for name, recipe in known.items() if isinstance(recipe.architecture.init, PaperBlockInit)}
    return own if block else dict(known)


@cache
def _variants(setting: str, seed: int, block: bool) -> Mapping[str, Recipe]:
    one = partial(markov.recipe, "minimal", seed, setting=setting)
    xavier = {"init": _init("xavier")}
    whole = partial(markov.recipe, "paper-block" if block else "full", seed, setting=setting)
    overlap: dict[str, Any] = {"spans": (4, 4, 4), "stride": 2, **_OVERLAP.get(setting, {})}
    return {
        "base": one(),
        **{f"scale={scale}": one(model={"init": _init(scale)}) for scale in SCALES},
        **{f"m={m}": one(importance=m) for m in _IMPORTANCES},
        **{f"n={n or 'fresh'}": one(n_sequences=n) for n in _SIZES[setting]},
        "fresh": one(n_sequences=None),
        **{f"heads={n}": one(n_heads=n) for n in _HEADS},
        "reversed": one(reverse=True) if setting == "small" else whole(**_FARTHEST[setting]),
        "alpha=0.7,0.3": one(lag_weights=(0.3, 0.7), model=None if setting == "small" else xavier),
        **{f"overlap-heads={n}": one(n_heads=n, **overlap) for n in (3, 4)},
        "layers=2": one(model={"n_layers": 2, **xavier}, **_LAYERED[setting]),
        "frobenius": one(features="frobenius"),
        "full": whole(),
        "full-layers=2": whole(model={"n_layers": 2}, **_FULL_LAYERED[setting]),
        "full-sgd": whole(importance=2.0, plan={**_SGD, "steps": _SGD_STEPS[setting]}),
        **_blocks(setting, seed, ""),
        **_blocks(setting, seed, "reversed-", **_FARTHEST[setting]),
    }


def _blocks(setting: str, seed: int, order: str, **task: Any) -> dict[str, Recipe]:
    one = partial(markov.recipe, seed=seed, setting=setting, **_BLOCKS[setting], **task)
    paper, front = one(preset="paper-block"), one(preset="full")
    undropped = dataclasses.replace(paper.architecture, init=PaperBlockInit(dropout=0.0))
    made = (paper, dataclasses.replace(paper, architecture=undropped), front)
    return {f"{order}{what}": recipe for what, recipe in zip(_DIFFERENCES, made, strict=True)}


def _init(scale: float | Literal["xavier"]) -> OneHotInit:
    return OneHotInit(query_scale=scale, value_scale="xavier" if scale == "xavier" else 0)


def runs(figure: str, setting: str = "small", seeds: Sequence[int] = (0,), *, block: bool = False) -> list[Run]:
    """Return the runs of a figure, seed by seed; with the paper's own `block` those of the whole transformer.

    Raises:
        ValueError: another figure or setting, or a figure of the minimal model with a block.

    >>> [(run.name, run.folder) for run in runs("heads")][:2]
    [('heads=2-seed0', 'heads=2-seed0'), ('heads=3-seed0', 'base-seed0')]
    """
    if figure not in FIGURES or setting not in SETTINGS:
        raise ValueError(
            f"there are recipes of the figures {', '.join(FIGURES)} in the settings {', '.join(SETTINGS)}; "
            f"got figure {figure!r} in setting {setting!r}"
        )
    sweep = []
    for seed in seeds:
        known = variants(setting, seed, block=block)
        for name, recipe in known.items():
            if any(name == part or (part.endswith("=") and name.startswith(part)) for part in FIGURES[figure].variants):
                first = next(other for other, same in known.items() if same == recipe)
                sweep.append(Run(name, seed, recipe, f"{'block-' if block else ''}{first}-seed{seed}"))
    if not sweep:
        raise ValueError(f"figure {figure} is of the minimal model in the setting {setting}, which has no block")
    return sweep
