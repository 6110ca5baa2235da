"""Words and HTML tables of the report: the answer, the run, its settings, its stages."""

import html
import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

import pandas as pd

from stagewise.findings import Stages
from stagewise.findings.batch_familiarity import BatchFamiliarity
from stagewise.plain_text import shortened
from stagewise.table import LOGGED
from stagewise.words import answer, at, axis_in_force, capital, count, headed, written
from stagewise.words import headline as of_transitions
from stagewise.words.stages import NO_STAGES, edge, summaries

NONE = "–"  # noqa: RUF001
"""In the place of what is not there."""

LISTED = 12
"""Entries of a list that are written out."""

TITLE = 28
"""Characters of a run's name that stand in the title."""

LONG_CELL = 26
"""A cell of a table with more characters continues on a further line."""

EDGES = {"warmup": "warm-up", "cooldown": "cool-down"}
"""Fields of a plan that lower the learning rate at its ends -> their names."""


def title(run: Mapping[str, Any], name: str) -> str:
    """Return the title of a report: its task in words and the name of the run, abbreviated; or that of a series."""
    task = ((run.get("recipe") or {}).get("task") or {}).get("type")
    if task is None or "series" in run:
        return name
    # The folders of a sweep are named by their settings, which stand at the end of the report.
    short = re.split(r"[-_ ,]+[A-Za-z_]+=", name)[0]
    short = short if len(short) <= TITLE else f"{short[: TITLE - 1].rstrip('-_ ')}…"
    spelled = in_words(str(task).rpartition(":")[2])
    plain = re.sub(r"\W+", "", short.rpartition("-")[2]).lower()
    return spelled if plain and plain in spelled.replace(" ", "").lower() else f"{spelled}: {short}"


def in_words(name: str) -> str:
    """Return the name of a class in words; any other name as it is."""
    if not name.isidentifier():
        return name
    parts = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+", name) or [name]
    return capital(" ".join(part if part.isupper() and len(part) > 1 else part.lower() for part in parts))


def run_in_words(
    run: Mapping[str, Any], table: pd.DataFrame, provenance: Mapping[str, Any] = MappingProxyType({})
) -> str:
    """Say in a paragraph what was trained on what, for how long, and what was measured on how many positions; HTML."""
    recipe = run.get("recipe", {})
    architecture = recipe.get("architecture", {})
    sentences = [
        _model(architecture.get("config", {}), architecture.get("init") or {}),
        _task(recipe.get("task", {})),
        _plan(recipe.get("plan", {}), int(table["step"].max())),
        _changes(recipe.get("schedules") or {}, run.get("parent") or {}),
        _measurement(table, provenance.get("positions")),
    ]
    return " ".join(html.escape(shortened(sentence)) for sentence in sentences if sentence)


def _model(config: Mapping[str, Any], init: Mapping[str, Any]) -> str:
    if not {"n_layers", "n_heads", "d_model"} <= config.keys():
        return ""
    traits = [f"width {config['d_model']}"]
    if "d_head" in config:
        traits.append(f"heads of width {config['d_head']}")
    if config.get("attn_only"):
        traits.append("attention only")
    if "normalization_type" in config:
        traits.append(f"normalisation: {config['normalization_type'] or 'none'}")
    if "n_ctx" in config:
        traits.append(f"{config['n_ctx']} positions")
    module, _, made = str(init.get("type", "")).partition(":")
    if made:  # what hooks it adds is not in the config
        traits.append(f"with what {made} of {module} adds")
    layers, heads = (count(config[f"n_{name}s"], name) for name in ("layer", "head"))
    each = " each" if config["n_layers"] > 1 else ""
    return f"The model is a transformer of {layers} with {heads}{each} ({', '.join(traits)})."


def _task(task: Mapping[str, Any]) -> str:
    if "type" not in task:
        return ""
    parameters = [
        f"{name} = {_short(value)}"
        for name, value in task.items()
        if name != "type" and value is not None and value is not False
    ]
    return f"The task is {task['type']}" + (f" ({', '.join(parameters)})." if parameters else ".")


def _changes(schedules: Any, parent: Any) -> str:
    """Say which fields followed a schedule, and where a run left another one."""
    parts = [f"{', '.join(map(str, schedules))} changed by a schedule"] if schedules else []
    if isinstance(parent, Mapping) and "step" in parent:
        parts.append(f"up to step {parent['step']} it is the run that it branches from")
    return f"In training {' and '.join(parts)}." if parts else ""


def _plan(plan: Mapping[str, Any], last: int) -> str:
    if not {"steps", "batch_size", "optimiser", "learning_rate"} <= plan.keys():
        return ""
    optimiser = {"adamw": "AdamW", "sgd": "SGD"}.get(plan["optimiser"], plan["optimiser"])
    edges = [f"{name} over {plan[field]} steps, " for field, name in EDGES.items() if plan.get(field)]
    trained = "was trained for" if last >= plan["steps"] else f"was seen up to step {last} of"
    return (
        f"It {trained} {plan['steps']} steps of {plan['batch_size']} sequences with {optimiser}, "
        f"learning rate {plan['learning_rate']:g}, {''.join(edges)}weight decay {plan.get('weight_decay', 0):g}."
    )


def _measurement(table: pd.DataFrame, positions: int | None) -> str:
    first, last = table["step"].min(), table["step"].max()
    if set(table["probe"]) == {LOGGED}:
        logged = count(table["quantity"].nunique(), "curve")
        return f"{logged}, logged from {at(first)} to {at(last)}; intervals are 95 % from the noise of each curve."
    checkpoints = count(table["step"].nunique(), "checkpoint")
    probes = count(table["probe"].nunique(), "probe")
    length = f" of {positions} positions" if positions else ""
    sequences = f" of {table['n'].max()} sequences{length}" if table["n"].notna().any() else ""
    return (
        f"{checkpoints}, from {at(first)} to {at(last)}, were measured with {probes} on one "
        f"fixed batch{sequences}; intervals are 95 % from resampling these sequences."
    )


def headline(stages: Stages | None, familiarity: BatchFamiliarity | None = None) -> str:
    """Say in a few words how many transitions there are, or why that means nothing."""
    if familiarity is not None and familiarity.foreign:
        return "The probe batch is foreign to this model"
    if stages is None:
        return "Measured over training"
    if stages.unknown:
        return "Too few checkpoints to find stages"
    return of_transitions(stages)


def finding(stages: Stages | None, familiarity: BatchFamiliarity | None = None) -> str:
    """Answer: how many transitions, when, what the model could do before and after, which heads did it."""
    if familiarity is not None and familiarity.foreign:
        return str(familiarity)
    sentence = f"{capital(NO_STAGES)}. Their curves are below." if stages is None else " ".join(answer(stages))
    return f"{sentence} {familiarity}" if familiarity is not None and familiarity.unknown else sentence


def stage_rows(stages: Stages) -> list[list[object]]:
    """Return the cells of the stage table."""
    texts = summaries(stages)
    return [
        [row["stage"], edge(row, "start"), edge(row, "end"), *(time(row[name]) for name in ("t10", "t50", "t90")), text]
        for row, text in zip(stages.table.to_dict("records"), texts, strict=True)
    ]


def settings_rows(run: Mapping[str, Any], prefix: str = "") -> list[list[object]]:
    """Flatten run.json into names and values."""
    rows: list[list[object]] = []
    for name, value in run.items():
        path = f"{prefix}.{name}" if prefix else name
        if isinstance(value, Mapping) and value:
            rows += settings_rows(value, path)
        else:
            rows.append([path.removeprefix("recipe."), _short(value)])
    return rows


def html_table(columns: Iterable[str], rows: Iterable[Iterable[object]], kind: str = "") -> str:
    """Return an HTML table; every cell is escaped, long ones wrap, and on a narrow screen a row becomes a list."""
    names = [headed(shortened(name)) for name in columns]
    head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
    cells = ("".join(_cell(name, str(cell)) for name, cell in zip(names, row, strict=True)) for row in rows)
    body = "".join(f"<tr>{row}</tr>" for row in cells)
    wide = " stacked" if len(names) > 3 else ""
    table = f'<table class="{kind}{wide}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
    return f'<div class="scroll">{table}</div>'


def _cell(name: str, text: str) -> str:
    text = shortened(text)
    hyphenated = "-" in text and " " not in text  # 5e-06 stays in one line
    kind = ' class="long"' if len(text) > LONG_CELL else ' class="word"' if hyphenated else ""
    return f'<td{kind} data-column="{html.escape(name)}">{html.escape(text)}</td>'


def number(value: int | float) -> str:
    """Write a number in three digits, or a large one without a fraction, a dash where there is none."""
    if pd.isna(value):
        return NONE
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def between(row: Mapping[Any, Any]) -> str:
    """Write the two checkpoints between which something changed."""
    return f"{written(row['last_step_before'])} to {written(row['first_step_after'])}"


def time(step: int | float) -> str:
    """Write a time as `number` does a number of steps, on an axis of tokens as that."""
    return number(step) if axis_in_force() is None or pd.isna(step) else written(step)


def _short(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list | tuple):
        items = [str(item) for item in value]
        if len(items) <= LISTED:
            return ", ".join(items)
        return f"{', '.join(items[: LISTED - 1])}, … {items[-1]} ({len(items)} in all)"
    return "none" if value is None or value == {} else str(value)
