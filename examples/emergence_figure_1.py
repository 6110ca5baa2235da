"""Figure 1 of arXiv:2505.17863 at the small setting: the toy model's plateau, the law of T and d, and SGD against it.

python examples/emergence_figure_1.py [FOLDER]   (runs what the folder does not hold; about a minute on two free cores)
"""

import sys
from pathlib import Path

import torch

from stagewise.experiments.emergence import figures as emergence


def main(folder: Path) -> Path:
    """Draw the figure, print the published numbers beside ours, and return where the figure is."""
    result = emergence.run(1, "small", folder)
    print(emergence.in_words(result.numbers))
    return emergence.figure_path(folder, 1, "small")


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/emergence")))
