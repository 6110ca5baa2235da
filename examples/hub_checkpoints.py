"""The checkpoints of a public series: when a small Pythia's heads begin to copy, from the revisions of its repository.

python examples/hub_checkpoints.py [REPOSITORY FOLDER]      (downloads ten checkpoints)
"""

import sys
from pathlib import Path

import torch

import stagewise

STEPS = (0, 128, 512, 1000, 2000, 4000, 8000, 16000, 64000, 143000)


def main(repository: str, folder: Path, steps: tuple[int, ...] = STEPS, endpoint: str | None = None) -> Path:
    """Open the revisions of these steps, check them, measure them with the default probes, and return the report.

    `endpoint` is another hub than the public one.
    """
    hub = {"cache": folder / "cache", "cache_bytes": 2 * 10**9, **({"endpoint": endpoint} if endpoint else {})}
    series = stagewise.open_series(repository, steps=steps, hub=hub)
    print(series)
    print(analysis := stagewise.analyse(series, folder, progress=False))
    return analysis.report


if __name__ == "__main__":
    torch.set_num_threads(1)
    repository, folder = sys.argv[1:3] if len(sys.argv) > 2 else ("EleutherAI/pythia-14m", "runs/pythia")
    print(main(repository, Path(folder)))
