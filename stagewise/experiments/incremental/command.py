"""Make a figure of incremental learning in one call: what the command and the example scripts do."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from stagewise.checkpoints.run_folder import write
from stagewise.experiments.incremental.figures import draw, ode
from stagewise.experiments.incremental.recipes import FIGURES, SETTINGS
from stagewise.experiments.incremental.runs import run_figure
from stagewise.experiments.incremental.summary import in_words, over_seeds
from stagewise.models.process import one_thread


def make(
    figure: str,
    folder: Path | None = None,
    setting: str = "small",
    seeds: Sequence[int] | None = None,
    *,
    restricted: bool = False,
    workers: int = 1,
    progress: bool = True,
) -> Path:
    """Run what a figure shows, print its numbers beside the paper's, draw it, print where it is and return that.

    Args:
        figure: one of FIGURES, or "10".
        folder: where the runs go, which the figures of a setting share; None takes runs/incremental/SETTING.
        setting: "small" or "paper".
        seeds: of everything; None takes as many as the figure shows.
        restricted: whether to train restricted-context baselines where the figure shows none.
        workers: processes, of one thread each.
        progress: show bars.

    Raises:
        ValueError: there is no such figure or setting, or a run folder belongs to another recipe.
    """
    folder = folder or Path("runs/incremental") / setting
    if figure == "10":
        drawn = ode()
    else:
        summary = run_figure(figure, folder, setting, seeds, restricted=restricted, workers=workers, progress=progress)
        print(in_words(over_seeds(summary)))
        print(f"the paper, at its size: {FIGURES[figure].published}")
        drawn = draw(figure, folder, summary)
    path = write(folder / f"figure-{figure}.png", lambda partial: drawn.savefig(partial, format="png", dpi=150))
    print(path)
    return path


def script(figure: str) -> Path:
    """Make the figure as the arguments say: [FOLDER] [--setting small|paper] [--seeds N] [--workers N]."""
    parser = argparse.ArgumentParser(description=f"Figure {figure} of arXiv:2602.19143")
    parser.add_argument("folder", nargs="?", type=Path, help="where the runs go; what is in it is not done again")
    parser.add_argument("--setting", choices=SETTINGS, default="small")
    parser.add_argument("--seeds", type=int, help="how many; where not given, as many as the figure shows")
    parser.add_argument("--workers", type=int, default=1, help="processes, of one thread each")
    given = parser.parse_args()
    one_thread()
    seeds = None if given.seeds is None else range(given.seeds)
    return make(figure, given.folder, given.setting, seeds, workers=given.workers)
