"""Figure 5 of arXiv:2305.16380: which distinct token gets most attention under Adam at three rates.

python examples/scan_and_snap_adam.py [RUN_FOLDER]      (20 seconds)
"""

import sys
from pathlib import Path

import torch

from stagewise.experiments.scan_and_snap.figures import figure_5


def main(folder: Path) -> Path:
    """Draw the figure into the run folder and return where it is."""
    print(figure_5(folder))
    return folder / "figure_5.png"


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/scan-and-snap/figure-5")))
