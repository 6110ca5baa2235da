"""The report: one HTML file that says in which stages the heads learned what they do, and shows why."""

import html
import importlib.resources
import string
from collections.abc import Callable
from pathlib import Path

import matplotlib.style
import numpy as np
import pandas as pd

from stagewise import tasks
from stagewise.checkpoints.run_folder import METRICS, REPEATED, REPORT, read_record, read_table, write
from stagewise.detection.stages import stages_of
from stagewise.recipe import rebuild
from stagewise.reporting.figure import LOOK, figure_html
from stagewise.reporting.html import Page
from stagewise.reporting.prose import headline, run_in_words
from stagewise.reporting.sections import markov as sections
from stagewise.reporting.sections import sources as source_sections
from stagewise.reporting.sections.emergence import emergence_section
from stagewise.reporting.sections.markov import Blocks, Measured
from stagewise.reporting.sections.onsets import onsets_section
from stagewise.reporting.sections.text import text_section

SECTIONS: dict[str, tuple[str, Callable[[Measured], Blocks], str]] = {
    "stages": ("The stages", sections.stages_section, "KLToReference, Loss"),
    "emergence": ("What emerged", emergence_section, "Accuracy, AttentionTo"),
    "evidence": ("Why these boundaries", sections.evidence_section, "KLToReference"),
    "heads": ("What each head attends to", sections.heads_section, "AttentionTo, HeadSpecialisation"),
    "maps": ("Attention maps", sections.maps_section, "MeanPattern"),
    "checkpoints": ("Every checkpoint", sections.viewer_section, "MeanPattern"),
    "last-checkpoint": ("The last checkpoint in circuitsvis", sections.circuitsvis_section, "MeanPattern"),
    "context": ("How much context is used", sections.context_section, "RestrictedContextKL"),
    "ablation": ("Which heads are needed", sections.ablation_section, "HeadAblation"),
    "clusters": ("Kinds of attention", sections.clusters_section, "PatternClusters"),
    "values": ("What each head writes", sections.values_section, "ValueAlignment"),
    "entropy": ("How widely each head attends", sections.entropy_section, "AttentionEntropy"),
    "training": ("Training loss", sections.training_section, "metrics of training"),
    "settings": ("Settings, versions, seeds", sections.settings_section, "run.json"),
}
"""Identifier -> title, what makes it, and the probes that it needs."""

TEXT = {"text": ("What it knows of the text", text_section)}
"""Of models of text: first of all, and not missing elsewhere."""

FAULTS = {"audit": ("What is wrong with the checkpoints", source_sections.audit_section)}
ONSETS = {"onsets": ("What began when", onsets_section)}
"""Of runs without references: it stands after the stages."""

NATURAL = {
    "copying": ("What is copied from the context", source_sections.copying_section),
    "profiles": ("Where in the sequence, and how far back", source_sections.profiles_section),
    "weights": ("What the weights alone say", source_sections.weights_section),
    "head-scores": ("How many keys, how far, how many dimensions", source_sections.head_scores_section),
}
"""Of checkpoints that were trained elsewhere: nothing is missing from a run where they are not there."""

PAGE = string.Template(
    """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>$name: $headline</title>
<style>$css</style>
</head>
<body>
<header>
<p class="kind">stagewise report</p>
<h1>$name <small>$headline</small></h1>
<p>$words</p>
<nav>$contents</nav>
</header>
<main>
$sections
$missing
</main>
<script>$script</script>
</body>
</html>
"""
)


def report(folder: str | Path) -> Page:
    """Write the report of a measured run: `report.html`, which needs no other file and no network.

    The drawings are also written to `figures/`. A section appears where the table holds its rows. The same
    run folder gives the same bytes.

    Raises:
        FileNotFoundError: the folder holds no run, or no table.

    Returns the path of the HTML file, which a notebook shows as the page.
    """
    folder = Path(folder)
    measured = read_measured(folder)
    with matplotlib.style.context(["default", LOOK]):
        made = {identifier: make(measured) for identifier, (_, make) in _everything().items()}
        bodies = {
            identifier: "\n".join(block if isinstance(block, str) else figure_html(block, folder) for block in blocks)
            for identifier, blocks in made.items()
            if blocks
        }
    page = _page(measured, bodies)
    return Page(write(folder / REPORT, lambda partial: partial.write_text(page, encoding="utf8")))


def _everything() -> dict[str, tuple[str, Callable[[Measured], Blocks]]]:
    stages, *others, training, settings = ((name, (title, make)) for name, (title, make, _) in SECTIONS.items())
    last = [*NATURAL.items(), training, settings]
    return dict([*FAULTS.items(), *TEXT.items(), stages, *ONSETS.items(), *others, *last])


def _page(measured: Measured, bodies: dict[str, str]) -> str:
    titles = {identifier: html.escape(title) for identifier, (title, _) in _everything().items()}
    package = importlib.resources.files("stagewise.reporting")
    return PAGE.substitute(
        name=html.escape(str(measured.table["run"].iloc[0])),
        headline=html.escape(headline(measured.stages)),
        css=(package / "report.css").read_text(encoding="utf8"),
        words=run_in_words(measured.run, measured.table),
        contents=" ".join(f'<a href="#{identifier}">{titles[identifier]}</a>' for identifier in bodies),
        sections="\n".join(
            f'<section id="{identifier}"><h2>{titles[identifier]}</h2>\n{body}\n</section>'
            for identifier, body in bodies.items()
        ),
        missing=_missing(bodies),
        script=(package / "report.js").read_text(encoding="utf8"),
    )


def _missing(bodies: dict[str, str]) -> str:
    if NATURAL.keys() & bodies.keys():
        return ""
    absent = [f"{title} ({needs})" for name, (title, _, needs) in SECTIONS.items() if name not in bodies]
    if not absent:
        return ""
    return f'<p class="missing">Not measured in this run: {html.escape("; ".join(absent))}.</p>'


def read_measured(folder: Path) -> Measured:
    """Read a measured run and its stages, or find them, and rebuild its task to know where relations lie.

    Raises:
        FileNotFoundError: the folder holds no run, or no table.
    """
    run = read_record(folder)
    table = read_table(folder)
    metrics = pd.read_parquet(folder / METRICS) if (folder / METRICS).exists() else None
    relations, first_query = _relations(run)
    repeated = pd.read_parquet(folder / REPEATED) if (folder / REPEATED).exists() else None
    return Measured(run, metrics, table, stages_of(table, folder=folder), relations, first_query, repeated)


def _relations(run: dict[str, object]) -> tuple[dict[str, np.ndarray], int]:
    """Return where the relations of one of this library's tasks lie, and its first scored query."""
    recipe = run.get("recipe")
    described = recipe.get("task") if isinstance(recipe, dict) else None
    if not isinstance(described, dict):
        return {}, 0
    task = getattr(tasks, str(described.get("type")), None)
    if not isinstance(task, type) or getattr(task, "relations_move", False):
        return {}, 0
    classes = [value for value in vars(tasks).values() if isinstance(value, type)]
    batch = rebuild(described, classes).sample(1, 0)
    scored = batch.scored[0].numpy()
    return {name: mask[0].numpy() for name, mask in batch.relations.items()}, int(scored.argmax())
