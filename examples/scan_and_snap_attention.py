"""Figure 4 of arXiv:2305.16380: attention of a class through training, for two ratios of the learning rates.

python examples/scan_and_snap_attention.py [RUN_FOLDER]      (10 seconds)
"""

import sys
from pathlib import Path

import torch

from stagewise.experiments.scan_and_snap.figures import figure_4


def main(folder: Path) -> Path:
    """Draw the figure into the run folder and return where it is."""
    print(figure_4(folder))
    return folder / "figure_4.png"


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/scan-and-snap/figure-4")))
