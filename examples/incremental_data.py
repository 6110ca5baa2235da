"""Figure 5 of arXiv:2602.19143 at the small setting: fewer data, fewer stages before the held-out loss is lowest.

python examples/incremental_data.py [FOLDER]      (four runs and three baselines; what is in the folder is not redone)
"""

import sys
from pathlib import Path

import torch

from stagewise.experiments import incremental, incremental_figures


def main(folder: Path) -> Path:
    """Run the sweep in the folder, print its summary, draw it and return where the figure is."""
    summary = incremental.run_figure("5", folder)
    print(summary.round(2).to_string(index=False))
    figure = incremental_figures.draw("5", folder, summary["run"].tolist())
    figure.savefig(path := folder / "figure-5.png", dpi=150)
    return path


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/incremental/small/5")))
