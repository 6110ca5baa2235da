"""How soon induction heads form on WikiText-2, by the share of training windows that say an excerpt again and again.

python examples/wikitext.py [FOLDER]      (five runs of nine minutes, one after the other)
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from stagewise.checkpoints.run_folder import read_table
from stagewise.detection import head_words
from stagewise.detection.head_kinds import head_onsets
from stagewise.experiments.wikitext import recipe, run
from stagewise.plot.colours import marker, ordered_colours
from stagewise.plot.step_axis import curve, label_ends, new_axes, set_step_axis
from stagewise.table import select

SHARES = (0.0, 0.1, 0.2, 0.3, 0.5)


def main(folder: Path, shares: Sequence[float] = SHARES, **sizes: Any) -> Path:
    """Train a model a share, say when its heads came, draw its best induction head; `sizes` go to the recipe."""
    ax, colours = new_axes(None, 6.4, 3.4), ordered_colours(shares)
    for i, share in enumerate(shares):
        run(recipe(repeating=share, **sizes), path := folder / f"{share:g}")
        table = read_table(path)
        print(f"{share:.0%} of the windows: {head_words.heads(head_onsets(table), int(table['step'].max()))}")
        mass = select(table, "AttentionTo", "along", relation="induction")
        best = mass.loc[mass.groupby("step")["value"].idxmax()]
        curve(ax, best, f"{share:.0%} repeat", colours[share], marker(i))
    set_step_axis(ax, table["step"])
    ax.set(ylabel="induction mass of the best head", ylim=(0, 0.8))
    label_ends(ax)
    ax.figure.savefig(path := folder / "repetition.png", dpi=150, bbox_inches="tight")  # type: ignore[union-attr]
    return path


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/wikitext-repetition")))
