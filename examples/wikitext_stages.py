"""What a two-layer attention model learns of WikiText-2, in which order (STAGEWISE_WIKITEXT, or the hub).

python examples/wikitext_stages.py [RUN_FOLDER]      (under ten minutes of one core)
"""

import sys
from pathlib import Path

import torch

from stagewise.checkpoints.run_folder import read_table
from stagewise.detection import head_words
from stagewise.detection.crossings import crossings
from stagewise.detection.head_kinds import head_onsets
from stagewise.experiments.wikitext import recipe, run
from stagewise.plot.heads import head_curves
from stagewise.plot.n_grams import N_GRAMS, n_gram_curves
from stagewise.reporting.sections.text import TEXT, loss_in_words, order_in_words


def main(folder: Path) -> Path:
    """Train, measure, say which n-gram law is closest when and which heads came when, and draw it in the folder."""
    print(f"everything: {run(recipe(n_layers=2), folder).report}")
    table = read_table(folder)
    found = crossings(table, N_GRAMS)
    print(order_in_words(found), loss_in_words(table), sep="\n")
    n_gram_curves(table, found).savefig(folder / "n_grams.png", dpi=150)
    print(head_words.heads(head_onsets(table), int(table["step"].max())))
    for name, ax in head_curves(table, TEXT).items():
        ax.figure.savefig(folder / f"{name.replace(' ', '_')}.png", dpi=150)
    return folder


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/wikitext")))
