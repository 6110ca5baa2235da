"""The cost of a remote series, told before its weights are downloaded; a high one needs a yes."""

import sys
import time
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stagewise.architecture import Architecture
    from stagewise.checkpoints.sources import Source
    from stagewise.probe import AbstractProbe
    from stagewise.task import Batch

MUCH_BYTES, MUCH_SECONDS = 20 * 10**9, 3600
"""A download, and a time, above which a person is asked."""

TIMED_BYTES = 10**9
"""A download above which the line is timed for it."""

PASSES = 10
"""Passes of a checkpoint beside those of the edits: the clean one, gradients, restricted contexts."""


def agree_to_cost(
    sources: "Sequence[Source]", yes: bool, measuring: float = 0.0, heads: "Sequence[Source]" = ()
) -> None:
    """Print the cost of downloading and measuring remote sources; where it is high, ask, or refuse in a script."""
    remote = [source for source in sources if source.remote and source.entries]
    if not remote:
        return
    from stagewise.measurement._forecast import in_words

    entries = [entry for source in remote for entry in source.entries]
    size = sum(_download(source, any(source is each for each in heads)) for source in remote)
    name = remote[0].name + (f" and {len(remote) - 1} more" if len(remote) > 1 else "")
    told, seconds = f"{name}: {len(entries)} checkpoints, {size / 1e9:.2f} GB to download", measuring
    nobody = not (yes or _person_is_there())
    if size > TIMED_BYTES and not (nobody and size > MUCH_BYTES):
        loading = size / entries[0].speed()
        told, seconds = f"{told} (about {in_words(max(loading, 60))} on this line)", seconds + loading
    told += f", about {in_words(max(measuring, 60))} of measuring here" if measuring else ""
    much = size > MUCH_BYTES or seconds > MUCH_SECONDS
    if much and nobody:
        raise ValueError(
            f"{told}. No weights were downloaded. --yes starts it; --checkpoints 20 takes 20 of them, log-spaced with "
            "the first and the last one, and --steps 0:10000:1000 those of these steps"
        )
    print(told, file=sys.stderr)
    if much and not yes:
        typer.confirm("Go on?", abort=True)


def _download(source: "Source", heads: bool) -> int:
    """Return the bytes that are missing here; of heads by the share of them in the first checkpoint."""
    share = source.entries[0].heads_part() if heads and all(entry.ranged() for entry in source.entries) else 1.0
    return round(share * sum(entry.download() for entry in source.entries))


def _person_is_there() -> bool:
    return sys.stdin.isatty()


def seconds_a_checkpoint(model: "Architecture", batch: "Batch", probes: "Sequence[AbstractProbe]") -> float:
    """Estimate the time of a checkpoint's passes from the architecture and the speed of this machine's products."""
    return products_a_checkpoint(model, batch, probes) / _products_a_second(model.config["d_model"])


def products_a_checkpoint(model: "Architecture", batch: "Batch", probes: "Sequence[AbstractProbe]") -> float:
    """Return the products of a checkpoint's passes; an edited one begins at its edit: half a pass on average."""
    edits = {edit for probe in probes for edit in probe.edits(model)}
    width = model.config["d_model"]
    parameters = 12 * model.n_layers * width**2 + width * model.n_outputs
    positions = len(batch) * batch.tokens.shape[1]
    return float(2 * parameters * positions * (PASSES + len(edits) / 2))


def _products_a_second(width: int) -> float:
    """Return how many multiplications and additions a second a product of this width makes here."""
    import torch

    left, right = torch.ones(512, width), torch.ones(width, 4 * width)
    left @ right  # the first one takes its memory
    start, times = time.perf_counter(), 0
    while (passed := time.perf_counter() - start) < 0.1:
        left @ right
        times += 1
    return 2 * 512 * width * 4 * width * times / passed
