"""Figure 7 of arXiv:2305.16380: attention on WikiText-2 becomes sparse (STAGEWISE_WIKITEXT, or the hub).

python examples/scan_and_snap_text.py [RUN_FOLDER]      (15 minutes of one core)
"""

import sys
from pathlib import Path

import torch

from stagewise.experiments.scan_and_snap.figure_7 import figure_7


def main(folder: Path) -> Path:
    """Draw the figure into the run folder and return where it is."""
    print(figure_7(folder))
    return folder / "figure_7.png"


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/scan-and-snap/figure-7")))
