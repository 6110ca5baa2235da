"""Figure 6 of arXiv:2305.16380: entropy of attention by learning rates, their ratio and the number of classes.

python examples/scan_and_snap_entropy.py [RUN_FOLDER]      (2 minutes)
"""

import sys
from pathlib import Path

import torch

from stagewise.experiments.scan_and_snap.figures import figure_6


def main(folder: Path) -> Path:
    """Draw the figure into the run folder and return where it is."""
    print(figure_6(folder))
    return folder / "figure_6.png"


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/scan-and-snap/figure-6")))
