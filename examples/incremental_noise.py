"""How long a stage lasts: Figure 10 of arXiv:2602.19143 from smaller and smaller differences (seconds)."""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from stagewise.plot.colours import ordered_colours
from stagewise.plot.step_axis import curve, label_ends, set_step_axis
from stagewise.table import select
from stagewise.theory.cooperative import onset_growth
from stagewise.theory.dynamics import predict
from stagewise.theory.tensor_factorisation import TensorFactorisation, half_times


def main(folder: Path) -> Path:
    """Draw the figure into the folder and return where it is."""
    noises = [1e-2, 1e-4, 1e-6, 1e-8, 1e-10, 1e-12]
    figure, (loss, times) = plt.subplots(1, 2, figsize=(12, 4), layout="constrained", width_ratios=(3, 2))
    set_step_axis(loss, [0, 1000])
    for noise in (drawn := [*noises[:4], 0.0]):
        rows = select(predict(TensorFactorisation(noise=noise), range(1001)), "Loss", "squared_error")
        curve(loss, rows, f"noise {noise:g}", ordered_colours(drawn)[noise])
    loss.set(xlabel="time of the flow (log scale; linear near 0)", ylabel="squared error / 2", ylim=(0, 6.5))
    label_ends(loss)
    logs, roots = -np.log(noises), np.sqrt([half_times(TensorFactorisation(noise=noise), 300)[1] for noise in noises])
    times.plot(logs, roots, "o", color="#222222", label="solved")
    times.axline((logs[-1], roots[-1]), slope=1 / onset_growth(TensorFactorisation(), 1), ls="--", label="limit slope")
    times.set(xlabel="log(1 / noise)", ylabel="root of the time of stage 2")
    times.legend()
    (path := folder / "noise.png").parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    return path


if __name__ == "__main__":
    print(main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/theory")))
