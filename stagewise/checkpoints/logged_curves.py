"""Curves that a training of one's own logged, as a table that stages and onsets are found in."""

import json
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from stagewise.checkpoints import _log_changes, _log_columns
from stagewise.checkpoints._log_folders import is_events
from stagewise.checkpoints._log_layout import NAMES, head_of, wide
from stagewise.checkpoints._log_lines import LINES, STEPS
from stagewise.checkpoints._log_roles import is_hardware, is_setting, is_time, range_of, roles_of
from stagewise.checkpoints._log_rows import ROWS, averaged, check_one_run
from stagewise.checkpoints._saved_steps import CHECKPOINT, tell_range
from stagewise.checkpoints.openers import curves_of
from stagewise.learning_rates import CHANGES, OF_RUN, is_rate
from stagewise.plain_text import plain_name
from stagewise.table import LOGGED, Quantity, declare, tidy

INDEX = "Unnamed: 0"
"""pandas's name for the index of a frame that it wrote to a file."""

INSTEAD = (
    *("total_timesteps", "num_timesteps", "timesteps", "env_steps", "env_step", "consumed_samples", "samples_seen"),
    *("num_input_tokens_seen", "consumed_tokens", "tokens_seen", "num_tokens", "tokens", "epochs", "epoch"),
    *("checkpoint", "checkpoints", INDEX.lower()),
)
"""Names of columns that count something else, in lower case: the first is taken, and told, where there are no steps."""

SEVERAL = 8
"""Values of a setting at most of which each change is a cause: of more it has a schedule. One in a folder, as
"config/batch_size" in results of the evaluation harness, may be of the evaluation alone."""

RUNS = ("run", "run_id", "run id", "run_name", "dir_name", "seed", "trial", "experiment")
"""Names of columns that tell runs apart, in lower case."""

UNIT = re.compile(r"\s*[\[(][^\])]*[\])]$")
"""A unit behind the name of a column, in brackets."""

PARTS = ("split", "phase", "mode", "stage", "subset", "partition")
"""Names of columns that tell on which data a row was measured, in lower case."""

KINDS = ("type", "kind", "event")
"""Names of columns that do so where they have several values, in lower case."""

DENSE, ENDED = 0.9, 3
"""Part of the rows in which a curve has a value, and rows without one behind the last, from which on it has ended."""

MOSTLY = 0.5
"""Part of a run's span from which on it lies beside another, and does not continue it; of a column, that is numbers."""

VALUE = "value"
"""The name of the column of the values there, in lower case."""

BANDS = ("__MIN", "__MAX")
"""Ends of the names of columns that Weights & Biases exports beside a curve: its smoothing's extremes."""

ENDS = 5
"""A curve goes up if the median of this part of its values is larger at its end than at its start: a fifth."""


def read_log(
    source: str | Path | pd.DataFrame | Mapping[str, Sequence[Any] | np.ndarray] | Sequence[Mapping[str, Any]],
    steps: str | None = None,
    run: str | None = None,
) -> pd.DataFrame:
    """Return logged curves as a table, for `find_stages`, `find_onsets`, `find_replicates` and plots.

    Args:
        source: a column of steps and a column a curve, as a frame, a mapping or a file: .csv, .tsv, .parquet, .jsonl,
            .json, or the `trainer_state.json` of transformers' Trainer; or TensorBoard's event files, one or a folder;
            a folder of MLflow's, of Lightning's CSVLogger, or with a JSON file a step; the `history` of a run of
            Weights & Biases; or the text that a trainer prints (`log_lines.read_lines`). Or a row a value: a column
            "metric" (or what tools call it)
            and one "value" beside the steps. A curve without a value at a step has no row there; scalar tensors are
            numbers. Text, times, epochs, what a machine does, and extremes that Weights & Biases exports beside a curve
            are left out, with a warning where text stands among numbers. Where a log goes back to an earlier step, as a
            resumed run's does, the later values count from there on, with a warning. A curve with more than 400 values
            has neighbouring ones averaged, fewer at its start than at its end. Where runs lie beside each other a
            column "run", "seed" or the like tells them apart, or names "RUN - CURVE", as Weights & Biases exports them.
        steps: the column of steps; None for "step", or what tools call it, and of two that which counts the optimiser's
            updates, with a warning. "rows" counts the rows, unless it is a column. Parts of epochs are counted in
            tenths, hundredths, thousandths or millionths of one, with a warning.
        run: the name of the run; None takes the file's. Each of several runs has the name in its column.

    Returns the rows of `measure`'s tables, with "Logged" for the probe and a quantity a column; what a curve does over
    the run, up or down, counts as its progress, of a share of right answers up; a learning rate makes none.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: a file that holds no columns, event files without TensorBoard, no column of steps, steps that are no
            whole numbers, several values at a step that no resumed run explains, or no curves.

    >>> table = read_log({"step": [0, 10, 20, 30, 40], "accuracy": [0.1, 0.1, 0.5, 0.9, 0.9]})
    >>> table["value"].tolist()
    [0.1, 0.1, 0.5, 0.9, 0.9]
    """
    if isinstance(source, str | Path):
        run = name_of(Path(source)) if run is None else run
        read = curves_of(Path(source))
        frame, lines = _log_columns.with_errors(read), read.attrs.get(LINES)
    else:
        frame, lines = pd.DataFrame(source).apply(_log_columns.as_numbers), None
    frame = frame.reset_index(drop=frame.index.name is None)
    if isinstance(steps, str) and steps == ROWS and ROWS not in frame:
        frame[ROWS] = range(len(frame))
    frame = _log_columns.with_steps(frame) if steps is None else frame
    at = _steps(frame, steps)
    frame = frame.assign(**{at: _log_columns.in_thousands(frame[at])}) if isinstance(at, str) else frame
    frame = frame.assign(**{at: _log_columns.in_parts(frame[at])}) if _log_columns.is_epoch(at) else frame
    _check_epochs(frame, at)
    frame = _log_columns.without_filtered(_a_column_a_part(frame, at), at)
    rows = []
    of_quantity: dict[str, list[np.ndarray]] = {}
    of_run: dict[str, dict[str, tuple[pd.DataFrame, pd.DataFrame]]] = {}
    for column, curve in _curves(_a_row_a_value(frame, at), at, "run" if run is None else run):
        name, head = head_of(plain_name(column))
        is_done = is_rate(name) or is_setting(name)
        for label, part in curve.groupby("run", sort=False):
            one, whole = plain_name(str(label)), part[["step", "value", "lo", "hi"]]
            part = _log_columns.resumed(whole, name)
            check_one_run(part, name, lines)
            part = part.sort_values("step", kind="stable")
            of_run.setdefault(one, {}).update({} if is_done or head else {name: (whole, part)})
            ended = part[part["value"].isna()].iloc[:1]
            part = pd.concat([averaged(part.dropna(subset="value"), is_done), ended])
            rows.append(part.assign(run=one, probe=LOGGED, quantity=name, **head))
        values = curve.sort_values("step", kind="stable")["value"].to_numpy()
        of_quantity.setdefault(name, []).append(values)
    declared = {
        name: Quantity(name, "", (bounds := range_of(name, np.concatenate(curves))), _progress(name, bounds, curves))
        for name, curves in of_quantity.items()
    }
    if not rows:
        raise ValueError(f"no column holds numbers beside {at!r}; there are {', '.join(map(str, frame.columns))}")
    table = tidy(rows)
    declare(table, {LOGGED: declared})
    by_columns = _log_changes.columns_in(frame, at, RUNS) if len(of_run) == 1 else {}
    changes = {one: {**by_columns, **_log_changes.changes_in(curves)} for one, curves in of_run.items()}
    table.attrs[CHANGES] = json.dumps(changes)
    if isinstance(source, str | Path):
        tell_range(Path(source), table["step"])
    return table


def _check_epochs(frame: pd.DataFrame, at: Any) -> None:
    """Refuse steps that begin anew in each epoch: a later one would be taken for a resumed run."""
    epoch = next((name for name in frame if str(name).lower() == "epoch"), None)
    if epoch is None or epoch == at:
        return
    moves = frame[[at, epoch]].apply(pd.to_numeric, errors="coerce").dropna().diff()
    back = moves[moves[at] < 0]
    if len(back) and (back[epoch] > 0).all():
        raise ValueError(
            f"the steps in {at!r} begin anew in each epoch: log steps that count on, or take `steps={str(epoch)!r}`, "
            "in the shell --step-column, with a row an epoch"
        )


def _a_column_a_part(frame: pd.DataFrame, at: Any) -> pd.DataFrame:
    """Give values on different data, as "train" and "val" in a column "split", columns of their own."""
    lower = {str(name).lower(): name for name in frame.columns}
    kinds = (name for name in KINDS if name in lower and frame[lower[name]].nunique() > 1)
    column = next((lower[name] for name in (*PARTS, *kinds) if name in lower), None)
    if column is None or pd.api.types.is_numeric_dtype(frame[column]):
        return frame
    labels = frame[column].map(lambda part: f"{part}/", na_action="ignore").fillna("")
    spans = pd.to_numeric(frame[at], errors="coerce").groupby(labels).agg(["min", "max"])
    if not _beside(spans):
        return frame
    named = next((lower[name] for name in NAMES if name in lower), None)
    if named is not None and VALUE in lower:
        return frame.assign(**{str(named): labels + frame[named].astype(str)}).drop(columns=column)
    curves = [each for each in frame.select_dtypes("number").columns.drop(at, errors="ignore") if _is_curve(str(each))]
    parts = {f"{part}{each}": frame[each].where(labels == part) for part in labels.unique() for each in curves}
    return pd.concat([frame.drop(columns=[column, *curves]), pd.DataFrame(parts)], axis=1)


def _a_row_a_value(frame: pd.DataFrame, at: Any) -> pd.DataFrame:
    """Turn columns "RUN - CURVE" into a row a value, parting names in the way by which each run has each curve."""
    columns = [str(name) for name in frame.columns.drop(at) if _is_curve(str(name))]
    ways = [
        {name: part(name, OF_RUN) for name in columns if OF_RUN in name} for part in (str.rpartition, str.partition)
    ]
    of = next((way for way in ways if _is_complete(way)), ways[0])
    runs = list(dict.fromkeys(run for run, _, _ in of.values()))
    if len(runs) < 2:
        return frame
    for name in of:
        _warn_of_text(frame[name], name)
    of_run = [(run, curve, name) for name, (run, _, curve) in of.items()]
    of_all = [(run, name, name) for name in columns if name not in of for run in runs]
    parts = [
        pd.DataFrame({at: frame[at], "run": run, NAMES[0]: curve, VALUE: frame[name]})
        for run, curve, name in (*of_run, *of_all)
        if pd.api.types.is_numeric_dtype(frame[name])
    ]
    return pd.concat(parts, ignore_index=True)


def _is_complete(way: Mapping[str, tuple[str, str, str]]) -> bool:
    runs, curves = ({names[place] for names in way.values()} for place in (0, 2))
    return len(runs) > 1 and len(runs) * len(curves) == len(way)


def _curves(frame: pd.DataFrame, at: Any, run: str) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield the name of each curve and its `step`, `value` and `run`, the given one if there is but one."""
    if not {VALUE} & {*frame.columns}:
        frame = frame.rename(columns={"metric_value": VALUE})
    lower = {str(name).lower(): name for name in frame.columns}
    runs = next((lower[name] for name in RUNS if name in lower and frame[lower[name]].nunique(dropna=False) > 1), None)
    if runs is not None:
        labels = _labels(frame[runs], runs)
        spans = pd.to_numeric(frame[at], errors="coerce").groupby(labels).agg(["min", "max"])
        frame, runs = frame.assign(**{str(runs): labels}), runs if _beside(spans) else None
    rows_a_step, frame = frame, wide(frame, at, runs, VALUE)
    several = frame is not rows_a_step
    named, value = (next((lower[name] for name in known if name in lower), None) for known in (NAMES, [VALUE]))
    numbers = [name for name in frame.columns.drop(at) if pd.api.types.is_numeric_dtype(frame[name])]
    single = named in frame and named not in numbers
    if single and [name for name in numbers if _is_curve(str(name))] == [value]:
        parts = [(str(name), rows[value], rows) for name, rows in frame.groupby(named, sort=False)]
    else:
        parts = [(str(name), frame[name], frame) for name in numbers]
    roles = roles_of(frame, at)
    for name in frame.columns.drop([at, *numbers]):
        _warn_of_text(frame[name], str(name))
    for name in (name for name in roles.flags if _is_curve(name) and frame[name].nunique() > 1):
        warnings.warn(f"the column {name!r} is left out as a flag: a curve is written as 0.0 and 1.0", stacklevel=3)
    for name, values, rows in parts:
        changes = is_setting(name) and "/" not in name and 1 < values.nunique() <= SEVERAL
        if name in roles.aside or not (changes or (_is_curve(name) and values.notna().any())):
            continue
        finite = _without_infinite(values.astype(float), rows[at], name)
        curve = pd.DataFrame({"step": rows[at], "value": finite}).assign(**roles.interval_of(name, rows))
        ended = _ends(curve, rows.drop(columns=at)) if runs is None and not several else False
        kept = curve["value"].notna() | ended
        curve = curve[kept].dropna(subset="step")
        curve["step"] = _whole(curve["step"], at)
        yield name, curve.assign(run=run if runs is None else rows.loc[curve.index, runs])


def _without_infinite(values: pd.Series, steps: pd.Series, name: str) -> pd.Series:
    infinite = np.isinf(values)
    if infinite.any():
        more = f", and {infinite.sum() - 1} more values" if infinite.sum() > 1 else ""
        warnings.warn(f"{name} is infinite at step {steps[infinite].iloc[0]}{more}: left out", stacklevel=4)
    return values.mask(infinite)


def _ends(curve: pd.DataFrame, columns: pd.DataFrame) -> np.ndarray:
    """Return where a curve that was logged in nearly every row, beside others, is no number though steps go on."""
    finite = np.flatnonzero(curve["value"].notna())
    last = int(finite[-1])
    after = (np.arange(len(curve)) > last) & (curve["step"] > curve["step"].iloc[: last + 1].max()).to_numpy(bool)
    beside = columns.select_dtypes("number").iloc[finite].notna().sum(axis=1)
    alone = columns.select_dtypes("number").shape[1] > 1 and (beside > 1).mean() < DENSE
    dense = len(finite) >= DENSE * (last + 1) and after.sum() >= ENDED
    return np.asarray(after & dense & (not alone))


def _warn_of_text(values: pd.Series, name: str) -> None:
    """Name a column that is left out, though most of what it holds are numbers."""
    values = values.dropna()
    text = values[pd.to_numeric(values, errors="coerce").isna()]
    if not pd.api.types.is_numeric_dtype(values) and _is_curve(name) and 0 < len(text) < (1 - MOSTLY) * len(values):
        first = f"among its numbers is text, {text.iloc[0]!r} first"
        warnings.warn(f"the column {name!r} is left out: {first}", stacklevel=4)


def _labels(runs: pd.Series, name: Any) -> pd.Series:
    is_number = pd.api.types.is_numeric_dtype(runs)
    labels = runs.map(lambda number: f"{name}={number:.15g}") if is_number else runs.astype(str)
    return labels.where(runs.notna(), f"no {name}")


def _beside(spans: pd.DataFrame) -> bool:
    """Whether any run has most of its span where others do that began before it, or with it and last longer."""
    spans = spans.sort_values(["min", "max"], ascending=[True, False], kind="stable")
    length = spans["max"] - spans["min"]
    shared = (spans["max"].cummax().shift() - spans["min"]).clip(upper=length)
    return bool((shared > MOSTLY * length).any())


def name_of(path: Path) -> str:
    """Name a run by its file, or by the folder of one that many runs have."""
    if path.is_dir():
        return path.resolve().name
    named_alike = is_events(path) or path.name == "trainer_state.json"
    folder = path.parent.resolve()
    if named_alike and re.fullmatch(CHECKPOINT, folder.name):  # which Trainer calls alike in all runs
        folder = folder.parent
    return folder.name if named_alike else path.stem


def _steps(frame: pd.DataFrame, asked: str | None) -> Any:
    if frame.empty:
        raise ValueError(f"there are no rows of numbers yet; the columns are {', '.join(map(str, frame)) or 'none'}")
    if not isinstance(asked, str | None):
        raise ValueError("`steps` names a column: put the steps there, as in read_log({'step': steps, 'loss': loss})")
    names = {str(name): name for name in frame.columns}
    if asked is not None and asked in names:
        return names[asked]
    if asked is None:
        lower = {UNIT.sub("", name).lower(): column for name, column in names.items()}
        known = [lower[name] for name in STEPS if name in lower and frame[lower[name]].notna().mean() > MOSTLY]
        if len(known) > 1:  # rows of an evaluation may have one alone: by the first most columns have steps, each once
            curves = [names[name] for name in names if _is_curve(name)]
            known.sort(key=lambda step: -sum(_has_steps(frame, step, name) for name in curves))
        others = [name for name in known if not frame[name].equals(frame[known[0]])]
        if others:
            both = f"{known[0]!r} and {', '.join(map(repr, others))} count steps"
            warnings.warn(f"{both}: the first is taken; `steps`, or --step-column, names another", stacklevel=3)
        if known:
            return known[0]
        last = {name.rpartition("/")[2]: column for name, column in lower.items()}
        others = [last[name] for name in INSTEAD if name in last]
        counts = [column for column in others if (pd.to_numeric(frame[column], errors="coerce") % 1 == 0).all()]
        in_part = [column for column in others if _log_columns.is_epoch(column) and frame[column].notna().all()]
        for column in (*counts, *in_part):
            warnings.warn(f"there is no column of steps: {column!r} is taken for it", stacklevel=3)
            return column
    wanted = "of steps" if asked is None else repr(asked)
    raise ValueError(
        f"there is no column {wanted} (`steps`, or --step-column, names it); there are {', '.join(names) or 'none'}"
        f"; {ROWS!r} counts the rows"
    )


def _has_steps(frame: pd.DataFrame, step: Any, name: Any) -> bool:
    at = frame.loc[frame[step].notna() & frame[name].notna(), step]
    return len(at) > 0 and not at.duplicated().any()


def _is_curve(name: str) -> bool:
    curve = name.rpartition(OF_RUN)[2]
    last = curve.lower().rpartition("/")[2]
    beside = last in (*STEPS, *RUNS) or is_time(last) or is_setting(curve) or is_hardware(curve)
    return not beside and name != INDEX and not name.endswith(BANDS)


def _whole(steps: pd.Series, name: Any) -> pd.Series:
    values = pd.to_numeric(steps, errors="coerce").to_numpy(float)
    if not ((values == np.round(values)) & (values >= 0) & (values < 2.0**63)).all():
        others = f"the column {name!r} holds others: `steps` names another one, {ROWS!r} counts the rows"
        raise ValueError(f"steps are whole numbers, from 0 on and below 2^63; {others}")
    return pd.Series(values.astype(np.int64), index=steps.index)


def _progress(name: str, bounds: tuple[Any, Any], curves: Sequence[np.ndarray]) -> Literal["up", "down"] | None:
    """Return which way is progress: a share of right answers rises, others go where that which moves most goes."""
    if is_rate(name) or is_setting(name):
        return None
    finite = max((curve[np.isfinite(curve)] for curve in curves), key=lambda one: np.ptp(one) if len(one) else 0.0)
    part = max(1, len(finite) // ENDS)
    rises = bounds == (0, 1) or (len(finite) and np.median(finite[-part:]) > np.median(finite[:part]))
    return "up" if rises else "down"
