"""The runs behind every figure of incremental learning: recipes by name, at two settings."""

from collections.abc import Mapping, Sequence
from functools import cache, partial
from typing import Any, Literal, NamedTuple

from stagewise.architecture import OneHotInit
from stagewise.experiments.incremental import markov
from stagewise.experiments.incremental.markov import SETTINGS as SETTINGS
from stagewise.recipe import Recipe

SCALES: tuple[float | Literal["xavier"], ...] = ("xavier", 1e-3, 1e-6, 0.0)
"""Initial scales of Figure 4 left. 1e-9 is left out: a float32 model loses it in the first Adam step (`OneHotInit`).
At 0 the heads are one and the same, by symmetry: that is what the figure shows."""

IMPORTANCES = (1.0, 1.3, 1.5, 1.7, 2.0)
"""m of Figure 4 right, that of the other figures, and a larger one."""

SIZES: dict[str, tuple[int | None, ...]] = {"small": (200, 600, 2000, 6000), "paper": (600, 2000, 9000, None)}
"""Training sequences of Figure 5; None is fresh data."""

HEADS = (2, 3, 4)

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
_OVERLAP: dict[str, dict[str, Any]] = {"small": {}, "paper": {"plan": {"steps": 2000}}}


class Shown(NamedTuple):
    """What a figure shows.

    Args:
        kind: "compare" overlays variants, "stages" draws each run's KL and its maps at the ends of stages, "curves"
            its KL and loss, "maps" its attention maps alone, "heads" each head's masses and values.
        variants: names of `variants`; one that ends in "=" stands for all that begin so.
        published: what the paper's figure shows, at its own size; steps, and KL to the full reference in nats.
        seeds: how many, where not asked for otherwise.
        restricted: whether the trained restricted-context models belong to it.
    """

    kind: Literal["compare", "stages", "curves", "maps", "heads"]
    variants: tuple[str, ...]
    published: str
    seeds: int = 1
    restricted: bool = False


FIGURES = {
    "1": Shown("stages", ("base",), "stages end at 330 and 575, KL 0.09 at 1100"),
    "2": Shown("maps", ("full",), "60: all heads on I(1); 300: one on I(2); 1000: one head a group"),
    "3": Shown("curves", ("full",), "stages end at 65 and 450; the closest context is 4, 8, then 12", restricted=True),
    "4L": Shown("compare", ("scale=",), "stage 1 ends at 110 (Xavier), 210 (1e-3), 320 (1e-6), never (0)", seeds=3),
    "4R": Shown("compare", ("m=",), "m = 1: one drop, over by 200; 1.3: by 270; 1.5: by 370, two shoulders", seeds=3),
    "5": Shown(
        "compare",
        ("n=",),
        "n = 600, 2000, 9000, fresh: best excess 1.33, 0.81, 0.09, 0.02; 1, 2, 3 stages complete",
        seeds=3,
        restricted=True,
    ),
    "6": Shown("curves", ("fresh",), "stages end at 330 and 580, KL 0.02 at the end"),
    "7": Shown("maps", ("fresh",), "steps 0, 270, 580, 1500: no group, I(1), I(2) too, a head a group"),
    "8": Shown("curves", ("reversed",), "stages end at 90 and 410, KL 0.27 at the end", seeds=3),
    "9": Shown("maps", ("reversed",), "steps 0, 70, 375, 1500: the farthest group first"),
    "11": Shown("curves", ("layers=2",), "stages end at 180 and 370, KL 0.07 at the end"),
    "12": Shown("curves", ("full-layers=2",), "stages end at 70 and 200, the first less visible; KL 0.15 at the end"),
    "13": Shown("curves", ("alpha=0.7,0.3",), "stages end at 130 and 280, KL 0.09 at the end"),
    "14": Shown("maps", ("alpha=0.7,0.3",), "each group checkered: the two lags of a pair differ"),
    "15": Shown("curves", ("overlap-heads=",), "4 heads: stages end at 150 and 700, KL 0.15 at the end"),
    "16": Shown("maps", ("overlap-heads=3",), "3 heads: overlapping bands, in a less canonical order"),
    "17": Shown("maps", ("overlap-heads=4",), "4 heads: they cover the overlapping bands"),
    "18": Shown("curves", ("full-sgd",), "stages end at 600 and 4000, KL 0.17 at 7000"),
    "19": Shown("maps", ("full-sgd",), "steps 0, 600, 3800, 6600: the same order as with Adam"),
    "B": Shown("heads", ("frobenius",), "heads part at 300; the I(1) head's values on A*_3 become negative"),
    "heads": Shown("compare", ("heads=",), "no figure: two heads leave the third group, a fourth shares I(1)", seeds=3),
}
"""Those that train, and "heads", the head-count sweep that the paper describes without a figure. Figure 10 is an
ordinary differential equation: `incremental_figures.ode`."""


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


def variants(setting: str = "small", seed: int = 0) -> dict[str, Recipe]:
    """Return every run by name. Names may stand for the same run: "m=1.7" is "base" too.

    Args:
        setting: "small", sized for two cores, or "paper".
        seed: of everything.

    Raises:
        ValueError: another setting.

    Source: Yüksel et al. (2026), arXiv:2602.19143, Figures 1 to 19 and B. Deviations: those of `markov.recipe`; the
    reversed run of the small setting is of the minimal model and of spans of two.
    """
    return dict(_variants(setting, seed))


@cache
def _variants(setting: str, seed: int) -> Mapping[str, Recipe]:
    one = partial(markov.recipe, "minimal", seed, setting=setting)
    whole = partial(markov.recipe, "full", seed, setting=setting)
    overlap: dict[str, Any] = {"spans": (4, 4, 4), "stride": 2, **_OVERLAP.get(setting, {})}
    return {
        "base": one(),
        **{f"scale={scale}": one(model={"init": _init(scale)}) for scale in SCALES},
        **{f"m={m}": one(importance=m) for m in IMPORTANCES},
        **{f"n={n or 'fresh'}": one(n_sequences=n) for n in SIZES[setting]},
        "fresh": one(n_sequences=None),
        **{f"heads={n}": one(n_heads=n) for n in HEADS},
        "reversed": one(reverse=True) if setting == "small" else whole(reverse=True, spans=(8, 4, 2)),
        "alpha=0.7,0.3": one(lag_weights=(0.7, 0.3)),
        **{f"overlap-heads={n}": one(n_heads=n, **overlap) for n in (3, 4)},
        "layers=2": one(model={"n_layers": 2, "init": _init("xavier")}, **_LAYERED[setting]),
        "frobenius": one(features="frobenius"),
        "full": whole(),
        "full-layers=2": whole(model={"n_layers": 2}, **_FULL_LAYERED[setting]),
        "full-sgd": whole(importance=2.0, plan={**_SGD, "steps": _SGD_STEPS[setting]}),
    }


def _init(scale: float | Literal["xavier"]) -> OneHotInit:
    return OneHotInit(query_scale=scale, value_scale="xavier" if scale == "xavier" else 0)


def runs(figure: str, setting: str = "small", seeds: Sequence[int] = (0,)) -> list[Run]:
    """Return the runs of a figure, seed by seed.

    Raises:
        ValueError: another figure or setting.

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
        known = variants(setting, seed)
        for name, recipe in known.items():
            if any(name == part or (part.endswith("=") and name.startswith(part)) for part in FIGURES[figure].variants):
                first = next(other for other, same in known.items() if same == recipe)
                sweep.append(Run(name, seed, recipe, f"{first}-seed{seed}"))
    return sweep
