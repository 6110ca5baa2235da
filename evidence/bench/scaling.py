"""The cost of public suites on a cluster from measured parts: `python -m evidence.bench.scaling` prints
docs/records/scaling.md.

Times are those of products of matrices, scaled to one measured checkpoint.
"""

from typing import NamedTuple

from stagewise.architecture import Architecture
from stagewise.measurement.probe_batch import _NUMBERS, _SEQUENCES, _sequences
from stagewise.probes.default_probes import default_probes
from stagewise.tasks import RepeatedTokens

MEASURED = "160m", 49.0
"""A size, and the CPU seconds that `analyse` takes for one of its checkpoints: docs/performance.md."""

LINE = 100e6
"""Bytes a second that all workers together download."""

REVISIONS, BYTES = 154, 2
"""Revisions of a repository, and bytes of a parameter in its files."""

WORKERS = 1, 8, 64

PASSES = 10
"""Passes of a checkpoint beside those of the edits: the clean one, gradients, restricted contexts."""


class Size(NamedTuple):
    """A model of Pythia, by Biderman et al. (2023), arXiv:2304.01373, table 1: layers, heads, width, parameters."""

    layers: int
    heads: int
    width: int
    parameters: float

    def architecture(self) -> Architecture:
        """Return its shape."""
        shape = {
            "n_layers": self.layers,
            "n_heads": self.heads,
            "d_model": self.width,
            "d_head": self.width // self.heads,
        }
        return Architecture({**shape, "d_mlp": 4 * self.width, "n_ctx": 2048, "d_vocab": 50304, "act_fn": "gelu"})


SIZES = {
    "14m": Size(6, 4, 128, 14.1e6),
    "31m": Size(6, 8, 256, 30.5e6),
    "70m": Size(6, 8, 512, 70.4e6),
    "160m": Size(12, 12, 768, 162.3e6),
    "410m": Size(24, 16, 1024, 405.3e6),
    "1b": Size(16, 8, 2048, 1011.8e6),
    "1.4b": Size(24, 16, 2048, 1414.6e6),
    "2.8b": Size(32, 32, 2560, 2775.2e6),
    "6.9b": Size(32, 32, 4096, 6857.3e6),
    "12b": Size(36, 40, 5120, 11846.1e6),
}
SUITES = {
    "Pythia": (("70m", "160m", "410m", "1b", "1.4b", "2.8b", "6.9b", "12b"), 1),
    "Pythia up to 410m": (("70m", "160m", "410m"), 1),
    "PolyPythias": (("14m", "31m", "70m", "160m", "410m"), 10),
}
"""Name -> sizes, and seeds of each."""


class Cost(NamedTuple):
    """What a suite costs: CPU hours of all passes, those of its slowest checkpoint, and bytes to download."""

    hours: float
    longest: float
    size: float

    def on(self, workers: int) -> tuple[float, str]:
        """Return the hours on so many workers of a core each, and what bounds them."""
        bounds = {
            "passes": self.hours / workers + self.longest * (workers > 1),
            "line": self.size / LINE / 3600,
        }
        bound = max(bounds, key=lambda name: bounds[name])
        return bounds[bound], bound


def products(size: Size) -> float:
    """Return the multiplications and additions of a checkpoint with the default probes on the default batch."""
    model = size.architecture()
    task = RepeatedTokens.for_model(model)
    batch = task.probe_batch(_sequences(model, task.n_ctx, _SEQUENCES, _NUMBERS), 0)
    edits = {edit for probe in default_probes(model, batch, task) for edit in probe.edits(model)}
    width, positions = model.config["d_model"], len(batch) * batch.tokens.shape[1]
    parameters = 12 * model.n_layers * width**2 + width * model.n_outputs
    # An edited pass begins at its edit: half a pass on average.
    return float(2 * parameters * positions * (PASSES + len(edits) / 2))


def cost(sizes: tuple[str, ...], seeds: int) -> Cost:
    """Return what a suite costs.

    >>> cost(("160m",), 1).longest == MEASURED[1] / 3600
    True
    """
    name, seconds = MEASURED
    unit = seconds / 3600 / products(SIZES[name])
    each = [unit * products(SIZES[size]) for size in sizes]
    count = REVISIONS * seeds
    return Cost(count * sum(each), max(each), count * BYTES * sum(SIZES[size].parameters for size in sizes))


def main() -> None:
    """Print the table."""
    numbers = [f"{n} worker{'s' if n > 1 else ''}" for n in WORKERS]
    print(f"| suite | checkpoints | GB | CPU hours | {' | '.join(numbers)} |")
    print("| --- " * (4 + len(WORKERS)) + "|")
    for name, (sizes, seeds) in SUITES.items():
        one = cost(sizes, seeds)
        times = [f"{hours:,.0f} h ({bound})" for hours, bound in map(one.on, WORKERS)]
        cells = [name, f"{REVISIONS * seeds * len(sizes):,}", f"{one.size / 1e9:,.0f}", f"{one.hours:,.0f}", *times]
        print(f"| {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
