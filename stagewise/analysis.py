"""Everything in one call: audit a series, measure it with the default probes, find stages, write the report."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from stagewise.architecture import Architecture
from stagewise.checkpoints.audit import audit
from stagewise.checkpoints.findings import Audit
from stagewise.checkpoints.run_folder import ANALYSIS, TABLE, versions, write_json
from stagewise.checkpoints.series import CheckpointSeries
from stagewise.checkpoints.sources import by_hand
from stagewise.detection.stages import Stages, stages_of
from stagewise.measurement.engine import measure
from stagewise.probe import AbstractProbe
from stagewise.probes import (
    AttentionDistance,
    AttentionEntropy,
    AttentionTo,
    Composition,
    Copying,
    EffectiveSupport,
    HeadAblation,
    InContextLearning,
    KLToReference,
    Loss,
    LossByPosition,
    MeanPattern,
    OffsetProfile,
    OVCopying,
    ParticipationRatio,
    QKOffset,
    RestrictedContextKL,
)
from stagewise.recipe import describe
from stagewise.reporting.html import inline
from stagewise.reporting.page import report
from stagewise.task import AbstractTask, Batch
from stagewise.tasks import RepeatedTokens
from stagewise.texts import Texts, asked_task

SEQUENCES = 64
NUMBERS = 10**7
"""Log-probabilities of one pass that are worth having; with a large vocabulary the batch is smaller."""

EDITED_NUMBERS = 3 * 10**8
"""All edited passes of a checkpoint are held at once: more of them are not made, and ablations left out."""

MAPS = 60_000
"""Attention weights of a checkpoint, averaged over the batch, that are kept as maps or by offset."""

PRODUCT = 10**11
"""Multiplications of unembedding and embedding, a second or a few a checkpoint."""

LEARNED = ("gpt2", "gpt_bigcode", "gpt_neo", "opt")
"""Hugging Face's model types with learned positions."""

POSITIONS = 128
"""Learned positions that are looked at."""

COMPOSED = 32
"""Heads of a model whose pairs are all listed."""


@dataclasses.dataclass(frozen=True, eq=False)
class Analysis:
    """What `analyse` found.

    Args:
        series: what was analysed.
        audit: the faults of its checkpoints.
        table: all that was measured.
        stages: None where the table cannot show any: neither references nor scores, or fewer than four checkpoints.
        report: the HTML file.
    """

    series: CheckpointSeries
    audit: Audit
    table: pd.DataFrame
    stages: Stages | None
    report: Path

    def __str__(self) -> str:
        found = "no stages: there are no scores over at least four checkpoints" if self.stages is None else self.stages
        return f"{self.series}\n{self.audit}\n{found}\nreport: {self.report}"

    def _repr_html_(self) -> str:
        return inline(self.report)


def analyse(
    series: CheckpointSeries,
    folder: str | Path | None = None,
    *,
    task: AbstractTask | None = None,
    batch: Batch | None = None,
    text: Texts | None = None,
    tokenizer: str | None = None,
    probes: Sequence[AbstractProbe] | None = None,
    device: str = "cpu",
    progress: bool = True,
) -> Analysis:
    """Audit a series, measure it with the default probes on repeated random tokens, find stages, write the report.

    A second call on the same series goes on where the first one stopped.

    Args:
        series: from `open_series` or `train`.
        folder: for the table and the report; None takes one in `runs/`, after the name of the series.
        task: whose probe batch is measured; None takes `RepeatedTokens` of the model's size.
        batch: any other probe batch, for which there is no task.
        text: a file of text to measure on in place of repeated tokens, or several: `texts.text_task`.
        tokenizer: of the text: a tokenizer.json, a folder that holds one, or a repository of the hub that does; None
            takes the one beside the checkpoints.
        probes: what to measure; None takes `default_probes`.
        device: where to run the model.
        progress: show a bar.

    Raises:
        ValueError: a checkpoint cannot be read or does not fit the model. Nothing is written then but what lets a
            second call go on.
        FileNotFoundError: there is no such text, or no tokenizer for it.
    """
    folder = folder_of(series) if folder is None else Path(folder)
    task = asked_task(series, text, tokenizer) or task
    found, table = measured(series, folder, task=task, batch=batch, probes=probes, device=device, progress=progress)
    return Analysis(series, found, table, stages_of(table, folder=folder), report(folder))


def measured(
    series: CheckpointSeries,
    folder: Path,
    *,
    task: AbstractTask | None = None,
    batch: Batch | None = None,
    probes: Sequence[AbstractProbe] | None = None,
    device: str = "cpu",
    progress: bool = True,
) -> tuple[Audit, pd.DataFrame]:
    """Do as `analyse`, without stages and report: audit and measure, and write what both found."""
    source = series.source or by_hand(series.name, series.steps, series.load)
    found = audit(source, weights=not source.remote)
    task = task or RepeatedTokens.for_model(series.architecture)
    batch = batch or task.probe_batch(_sequences(series.architecture, task.n_ctx), seed=0)
    chosen = default_probes(series.architecture, batch) if probes is None else probes
    parts, place = folder / "parts", folder / TABLE
    table = measure(series, chosen, batch, folder=parts, save=place, device=device, progress=progress)
    record = {
        "series": {"name": series.name, "steps": list(series.steps), "tokens": list(series.tokens.values())},
        "recipe": {"architecture": _plain(series.architecture), "task": describe(task)},
        "audit": found.plain,
        "versions": versions(),
    }
    write_json(folder / ANALYSIS, record)
    return found, table


def folder_of(series: CheckpointSeries) -> Path:
    """Return where the table and the report of a series go if nobody says so: a folder in `runs`.

    Never the folder of the checkpoints themselves.
    """
    return Path("runs", f"analysis-{series.name.replace('/', '--')}")


def default_probes(architecture: Architecture, batch: Batch) -> list[AbstractProbe]:
    """Return the probes for a model whose task nobody wrote down, as many as it is small enough for."""
    positions, d_vocab = batch.tokens.shape[1], int(architecture.config["d_vocab"])
    heads = architecture.n_layers * architecture.n_heads
    chosen: list[AbstractProbe] = [Loss(), LossByPosition(), InContextLearning(), AttentionEntropy()]
    chosen += [EffectiveSupport(), AttentionDistance(), ParticipationRatio()]
    if bool((~batch.scored).any(1).all()):
        chosen.append(Copying())
    if batch.relations:
        chosen.append(AttentionTo())
    if batch.references:
        chosen.append(KLToReference())
    one_pass = len(batch) * positions * d_vocab
    contexts = tuple(context for context in (1, 2, 4, 8, 16) if context < positions)
    if one_pass * len(contexts) <= EDITED_NUMBERS:
        chosen.append(RestrictedContextKL(contexts))
    chosen += _of_weights(architecture)
    if one_pass * (heads + len(contexts)) <= EDITED_NUMBERS and architecture.n_layers * heads <= MAPS // positions:
        chosen.append(HeadAblation(kinds=("mean",)))
    if heads * positions <= MAPS:
        chosen.append(OffsetProfile())
    if heads * positions**2 <= MAPS:
        chosen.append(MeanPattern())
    return chosen


def _of_weights(architecture: Architecture) -> list[AbstractProbe]:
    config, chosen = architecture.config, list[AbstractProbe]()
    if int(config["d_model"]) ** 2 * int(config["d_vocab"]) <= PRODUCT:
        chosen.append(OVCopying())
    kind = (architecture.huggingface or {}).get("model_type")
    if kind in LEARNED or (kind is None and config.get("positional_embedding_type", "standard") == "standard"):
        chosen.append(QKOffset(positions=min(POSITIONS, int(config["n_ctx"]))))
    if architecture.n_layers > 1 and architecture.n_layers * architecture.n_heads <= COMPOSED:
        chosen.append(Composition())
    return chosen


def _sequences(architecture: Architecture, positions: int) -> int:
    return max(8, min(SEQUENCES, NUMBERS // (positions * int(architecture.config["d_vocab"]))))


def _plain(architecture: Architecture) -> dict[str, object]:
    """Return the parts of the architecture that JSON has words for."""
    config = {k: v for k, v in architecture.config.items() if v is None or isinstance(v, bool | int | float | str)}
    kind = (architecture.huggingface or {}).get("model_type")
    return {"config": config, "huggingface": kind}
