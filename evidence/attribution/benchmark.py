"""The replays of three tasks in files: any method that says what each sample did is scored on them without training.

A file holds the weights of the samples in each replay, every head's attention after it, the step at which the window's
head got to the level of the run, and the recipe that trains this run: see docs/samples-benchmark.md.
"""

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from evidence.attribution.replays import Replayer, replay_all, weights_of
from evidence.attribution.scoring import Rank, additive_ceiling, crossing, datamodelling_score
from evidence.attribution.windows import Window, at_start
from stagewise.recipe import describe

FOLDER = Path(__file__).with_name("benchmark")


class Benchmark(NamedTuple):
    """Replays of updates `start` to `stop` of a run; each even one and the next are complements.

    `weights` are 1 + size for one half of each update's samples and 1 - size for the other half; a size of 1 leaves
    halves out. `attention` is that of each head to each relation at `stop`, `names` says which: "L1H0 to
    induction". The benchmark is of the one called `head`. It gets to its level in the run at step `stop`, and in a
    replay at `times`, inf where that is later than `stop` + 25. `unweighted` is `attention` in the run, `derivatives`
    are those by the weight of each sample, and `recipe` is that of the `run.json`.
    """

    head: str
    names: list[str]
    start: int
    stop: int
    weights: Float[np.ndarray, "replay step sample"]
    attention: Float[np.ndarray, "replay name"]
    times: Float[np.ndarray, " replay"]
    unweighted: Float[np.ndarray, " name"]
    derivatives: Float[np.ndarray, "step sample"]
    recipe: dict[str, Any]

    @property
    def target(self) -> Float[np.ndarray, " replay"]:
        """The attention of the head that the benchmark is of."""
        found: Float[np.ndarray, " replay"] = self.attention[:, self.names.index(self.head)]
        return found


def load(task: str, size: float = 1.0, folder: Path = FOLDER) -> Benchmark:
    """Return the replays of a task, "recall", "markov" or "repeated", whose weights changed by a size, 1 or 0.1."""
    with np.load(folder / f"{task}-{size:g}.npz") as file:
        arrays = dict(file)
    about = json.loads(str(arrays["about"]))
    above = np.unpackbits(arrays["above"], axis=-1)[..., : arrays["derivatives"].shape[1]]
    signs = 2.0 * np.stack([above, 1 - above], 1).reshape(-1, *above.shape[1:]) - 1
    measured = {name: arrays[name].astype(np.float64) for name in ("attention", "times", "unweighted", "derivatives")}
    return Benchmark(**about, **measured, weights=1 + size * signs)


def rank(effects: Float[np.ndarray, "step sample"], replays: Benchmark) -> tuple[Rank, Rank]:
    """Return the linear datamodelling score of effects on the head's attention, and on how early it gets there.

    `effects[step, sample]` is by how much attention rises where the weight of this sample's loss rises by 1, up to a
    factor that is the same for all.

    Raises:
        ValueError: there is not one effect a sample.
    """
    if effects.shape != replays.derivatives.shape:
        raise ValueError(f"one effect a step and sample was expected, {replays.derivatives.shape}, got {effects.shape}")
    predicted = np.array([(effects * (each - 1.0)).sum() for each in replays.weights])
    return datamodelling_score(predicted, replays.target), datamodelling_score(predicted, -replays.times)


def ceiling(replays: Benchmark) -> float:
    """Return the largest correlation that a sum over samples can have with attention."""
    return additive_ceiling(replays.target)


def pack(
    window: Window, task: str, number: int, size: float, derivatives: Float[np.ndarray, "step sample"], folder: Path
) -> Path:
    """Write so many replays to a file, as `load` reads it; those that are not there are trained."""
    replayer, shape = Replayer(window), (window.length, derivatives.shape[1])
    curves = replay_all(window, [(draw, size, False) for draw in range(number)], workers=1)
    column, whole = replayer.steps.index(window.stop), replayer.curves(weights_of(shape, 0, 0.0))
    level = float(whole[replayer.row, column])
    above = np.stack([weights_of(shape, draw, 1.0).numpy() > 1 for draw in range(0, number, 2)])
    about = {
        **{"head": str(replayer.scores[replayer.row]), "names": [str(each) for each in replayer.scores]},
        **{"start": window.start, "stop": window.stop, "recipe": describe(at_start(window)[0])},
    }
    path = folder / f"{task}-{size:g}.npz"
    folder.mkdir(exist_ok=True)
    np.savez_compressed(
        path,
        about=np.array(json.dumps(about)),
        above=np.packbits(above, axis=-1),
        attention=curves[:, :, column],
        times=np.array([crossing(replayer.steps, each[replayer.row], level) for each in curves], np.float32),
        unweighted=whole[:, column],
        derivatives=derivatives.astype(np.float32),
    )
    return path
