"""Finer checkpoints where they tell most: a run is replayed from its nearest state, with the same data and bits."""

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from tqdm.auto import tqdm

from stagewise import models, tasks
from stagewise.checkpoints import State, rewind, run_folder, save_weights, state_steps
from stagewise.checkpoints.series import CheckpointSeries, open_series
from stagewise.recipe import Recipe, rebuild
from stagewise.replay.windows import Window
from stagewise.schedules import linear
from stagewise.training import Dtype, Training, prepare

_CHECKPOINTS = 60
"""New checkpoints that are made where nobody says how many: about as many as a run saves by default."""


class _Replay(NamedTuple):
    """Updates from `start`, where a state is kept, to `stop`, where weights are, made again to save `steps`."""

    start: int
    stop: int
    steps: tuple[int, ...]


class _Cost(NamedTuple):
    """The cost of a densification: updates, of so many in the whole run, new checkpoints, and their bytes on disk."""

    updates: int
    run: int
    checkpoints: int
    size: int

    def __str__(self) -> str:
        share, size = f"{self.updates / self.run:.0%}".replace("%", " %"), self.size / 1e6
        return (
            f"{self.updates} updates are replayed, {share} of the run's; "
            f"{self.checkpoints} checkpoints are added, {size:.1f} MB"
        )


def densify(
    folder: str | Path,
    between: tuple[int, int],
    every: int = 1,
    *,
    recipe: Recipe | None = None,
    progress: bool = True,
    device: str = "cpu",
    dtype: Dtype = "float32",
) -> CheckpointSeries:
    """Save more checkpoints of a finished part of a run, the same bit by bit as if they had been saved from the start.

    The run is replayed from the nearest step at which its optimiser's state is kept, or from its initialisation, up to
    its next checkpoint. New files are written only where the replay has met that one bit by bit.

    Args:
        folder: the run folder.
        between: the first step, and the one before which to end: intervals are half open.
        every: steps from one new checkpoint to the next.
        recipe: of the run; None reads it from the folder.
        progress: show a bar of the updates.
        device: as the run was trained on.
        dtype: as the run was trained in.

    Returns the series with all its checkpoints.

    Raises:
        ValueError: `between` is not within the steps that the run has come to; a file is damaged; the run was trained
            in a way of which this version, device, processor or number of threads gives other bits.
        FileNotFoundError: the folder holds no run.
        BlockingIOError: another process trains there.
    """
    folder = Path(folder)
    window = window_of(folder, between)
    steps = linear(every, window.stop, window.start)
    return densify_steps(folder, steps, recipe=recipe, progress=progress, device=device, dtype=dtype)


def window_of(folder: Path, between: tuple[int, int]) -> Window:
    """Return the steps of a run from the first up to the second."""
    (start, stop), last = between, open_series(folder).steps[-1]
    if not 0 <= start < stop <= last + 1:
        raise ValueError(
            f"`between` lies within the run's steps, from 0 to {last} and the first below the second, got {between}"
        )
    return Window(start, stop)


def densify_steps(
    folder: Path,
    steps: Iterable[int],
    *,
    recipe: Recipe | None = None,
    progress: bool = True,
    device: str = "cpu",
    dtype: Dtype = "float32",
) -> CheckpointSeries:
    """Save the checkpoints of any steps, as `densify` does."""
    recipe = recipe or recipe_at(folder)
    with run_folder.held(folder, "densifies"):
        replays = _planned(folder, steps)
        with tqdm(
            total=sum(one.stop - one.start for one in replays),
            disable=not progress,
            desc=f"{folder.name}: replay",
            unit="step",
        ) as bar:
            for one in replays:
                _replay(folder, one, prepare(recipe, device, dtype), bar)
    return open_series(folder, classes=[type(recipe.architecture.init)])


def recipe_at(folder: Path) -> Recipe:
    """Return the recipe that a run folder records; its classes are of the catalogue, or can be imported here.

    Raises:
        FileNotFoundError: the folder holds no run.
        ValueError: it names a class that is not there.
    """
    classes = [value for value in vars(tasks).values() if isinstance(value, type)]
    recipe: Recipe = rebuild(run_folder.read_run(folder)["recipe"], classes)
    return recipe


def _planned(folder: Path, steps: Iterable[int]) -> list[_Replay]:
    """Return the replays that save these steps, all but those that are saved already; what overlaps is one."""
    saved = open_series(folder).steps
    missing = sorted(set(steps) - set(saved))
    if outside := [step for step in missing if not 0 <= step < saved[-1]]:
        raise ValueError(f"{folder} has come to step {saved[-1]}, and there is no step {outside[0]} in it to replay")
    return replays_of(missing, saved, [0, *state_steps(folder)])


def replays_of(missing: Iterable[int], saved: Sequence[int], starts: Sequence[int]) -> list[_Replay]:
    """Return the replays that save missing steps, in order, between those that are saved; what overlaps is one.

    >>> replays_of([5, 6, 13], saved=[0, 4, 8, 12, 16], starts=[0, 4])
    [_Replay(start=4, stop=16, steps=(5, 6, 13))]
    """
    replays: list[_Replay] = []
    for step in missing:
        start, stop = max(each for each in starts if each <= step), min(each for each in saved if each > step)
        if replays and start <= replays[-1].stop:
            before = replays.pop()
            start, together = before.start, (*before.steps, step)
        else:
            together = (step,)
        replays.append(_Replay(start, stop, together))
    return replays


def cost(folder: Path, steps: Iterable[int]) -> _Cost:
    """Return the cost of saving these steps, before anything is done."""
    replays, saved = _planned(folder, steps), open_series(folder).steps
    checkpoints = sum(len(one.steps) for one in replays)
    size = run_folder.checkpoint_file(folder, saved[0]).stat().st_size
    return _Cost(sum(one.stop - one.start for one in replays), saved[-1], checkpoints, checkpoints * size)


def steps_within(
    windows: Sequence[Window],
    last: int,
    checkpoints: int = _CHECKPOINTS,
    every: int | None = None,
    saved: Collection[int] = (),
) -> frozenset[int]:
    """Return evenly spaced steps in the reach of all windows together, without those that are saved already.

    They are as close together as the number of new checkpoints allows; none only where all of that reach are saved.

    Args:
        windows: of a run's boundaries.
        last: step of the run, which is saved.
        checkpoints: how many new ones at most, where `every` does not say how far apart; one a window is always there.
        every: steps from one to the next.
        saved: steps of the run.

    Raises:
        ValueError: less than one checkpoint, or less than one step between two.

    >>> sorted(steps_within([Window(80, 120), Window(30, 50)], last=100, checkpoints=4))
    [30, 40, 80, 90]
    >>> sorted(steps_within([Window(80, 120), Window(30, 50)], last=100, checkpoints=4, saved={30, 40, 80, 90}))
    [35, 45, 85, 95]
    """
    reaches = [window.reach[: max(last - window.reach.start, 0)] for window in windows]
    if checkpoints < 1:
        raise ValueError(f"a densification makes at least one new checkpoint, got {checkpoints}")
    if every is not None:
        return _unsaved(reaches, every, saved)
    fewest = _unsaved(reaches, 1, saved)
    for distance in range(2, max(map(len, reaches), default=0) + 1):
        if len(fewest) <= checkpoints:
            break
        # At a larger distance all may happen to be saved: that is no reason to stop.
        fewest = min(fewest, _unsaved(reaches, distance, saved) or fewest, key=len)
    return fewest


def _unsaved(reaches: Iterable[range], every: int, saved: Collection[int]) -> frozenset[int]:
    return frozenset(step for reach in reaches for step in linear(every, reach.stop, reach.start)).difference(saved)


def _replay(folder: Path, replay: _Replay, training: Training, bar: "tqdm[Any]") -> None:
    start = rewind(folder, replay.start, training.model, training.optimiser, training.way)
    saved, pending = set(open_series(folder).steps), dict[int, State]()
    for step in training.steps(start, replay.stop, []):
        if step > start:
            bar.update()
        if step in replay.steps:
            pending[step] = models.weights(training.model)
        elif step in saved:
            recorded = run_folder.read_checkpoint(folder, step)
            check_bits(recorded, models.weights(training.model), f"the replay of {folder}", step)
            for passed in list(pending):
                save_weights(folder, passed, pending.pop(passed))


def check_bits(recorded: State, weights: State, what: str, step: int) -> None:
    """Refuse to continue where weights are not those of a checkpoint of the run."""
    if different := [name for name, weight in weights.items() if not torch.equal(weight.cpu(), recorded[name])]:
        raise ValueError(
            f"{what} gives other bits of {different[0]} than the run's checkpoint of step {step}, nothing of it is "
            f"taken: replay the recipe in its {run_folder.RUN}, with the versions there, on the processor and device "
            "and with the dtype and the number of threads that it was trained with; delete a branch first; torch takes "
            f"{torch.get_num_threads()} here"
        )
