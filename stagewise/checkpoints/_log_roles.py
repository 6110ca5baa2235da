"""What the columns of a log are: curves, the errors of curves, settings of the run, or what it counts."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from stagewise.learning_rates import MEASURED, WORDS
from stagewise.statistics import QUANTILE, noise

SETTINGS = {
    *("_meta", "args", "cfg", "conf", "config", "configs", "hparam", "hparams", "hyperparameters", "meta", "metadata"),
    *("options", "settings", "versions"),
    *("config_general", "group_subtasks", "higher_is_better", "n-samples", "n-shot"),
}
"""Names of the folders of settings, in lower case, as in "config/batch_size"."""

SETTING = {
    *("batch_size", "block_size", "bsz", "beta1", "beta2", "context_length", "global_batch_size", "grad_accum"),
    *("gradient_accumulation_steps", "max_seq_len", "n_ctx", "seed", "seq_len", "sequence_length", "wd"),
    *("weight_decay", "world_size"),
}
"""Names of single settings, in lower case."""

SCHEDULED = {"coef", "coeff", "coefficient", "dropout", "epsilon", "lambda", "momentum", "temperature"}
"""Last words of the names of settings that may have a schedule, in lower case, as in "cur_lambda"."""

TIMES = {
    *("clock", "dt", "duration", "elapsed", "eta", "fps", "hfu", "mfu", "ms", "runtime", "sec", "secs", "seconds"),
    *("tflops", "throughput", "time", "timestamp", "timing", "tps", "walltime"),
}
"""Words of the names of times and speeds, in lower case."""

CLOCKS = (
    *("epoch", "total_flos", "num_input_tokens_seen", "num_tokens", "tokens_seen", "consumed samples"),
    *("consumed tokens", "wps", "ups", "wpb", "wall", "train_wall"),
)
"""Columns that count what a training has read, and short names of times and speeds, in lower case: no curves."""

SPEED = re.compile(r"per_?s(ec(ond)?)?\b|/s(ec)?\b|_ps\b", re.IGNORECASE)
"""In the names of speeds, as "samples_per_second" and "tok/sec"."""

MACHINE = {
    *("devicestatsmonitor", "hardware", "perf", "sys", "system", "throughput", "time", "time_metrics", "timing"),
    *("timing_s",),
}
"""Names of the folders of what a machine does, in lower case, as several trackers and trainers write them."""

DEVICES = {"cpu", "cpus", "cuda", "gpu", "gpus", "hbm", "hpu", "npu", "ram", "tpu", "vram", "watts"}
"""Words of the names of parts of a machine, in lower case."""

MEMORY = {"mem", "memory"}
OF_MEMORY = {
    *("active", "alloc", "allocated", "available", "bytes", "free", "gb", "gib", "max", "mb", "mib", "ooms", "peak"),
    *("percent", "reserved", "retries", "rss", "usage", "used", "utilization"),
}
"""Words for memory, which a model may have too, and those that stand beside them where a machine's is meant."""

COUNTED = {"examples", "flops", "flos", "samples", "sequences", "timesteps", "tokens", "toks"}
"""Things that a training has read, in lower case: a column of them that never falls is a count."""

PASSED = {"correct", "pass", "passed", "solved", "success", "won"}
"""Words of the names of what a model does or does not do, in lower case: 0 or 1, and no flag of a setting."""

SWITCHES = 3
"""Times from which on a column of 0 and 1 is a curve, unless it switches in a rhythm, as one that tells of saves."""

ERROR = re.compile(
    r"(?P<of>.*?)[\s_./-]*(?:std_?err(?:or)?|standard_error|se|sem|std|std_?dev|stddev)(?P<rest>,\w+)?", re.IGNORECASE
)
"""The name of the errors of another column, as "acc_stderr", and "acc_stderr,none" of the evaluation harness."""

STANDARD_ERROR = re.compile(r"std_?err|standard_error", re.IGNORECASE)
"""Words that are errors whatever stands beside them."""

DEVIATION, LEAST_SCATTER = re.compile(r"std(?!_?err)|dev", re.IGNORECASE), 0.3
"""Words for a standard deviation, and the part of one by which a curve scatters at least whose error it is."""

BOUND = re.compile(r"(?P<of>.*?)[\s_./-]*(?:ci_?)?(?P<end>lo(?:w(?:er)?)?|hi(?:gh)?|upper)", re.IGNORECASE)
"""The name of an end of the interval of another column, as "acc_lo"."""

CERTAIN = 1e-9
"""Relative difference from a straight line up to which a column of whole numbers lies on it."""

ASKED = {"n", "n_samples", "num_samples", "n_questions", "num_examples", "n_examples", "support"}
"""Names of the number of questions that the shares beside it are of, in lower case."""

SHARES = {"acc", "accuracy", "auc", "em", "f1"}
"""Words of the names of shares of right answers, in lower case."""


class Roles(NamedTuple):
    """Columns that are no curves, by the curve they belong to; flags; errors of nothing that is logged, and counts."""

    errors: Mapping[str, str]
    bounds: Mapping[str, tuple[str, str]]
    asked: Mapping[str, str]
    flags: Sequence[str]
    others: Sequence[str]

    @property
    def aside(self) -> set[str]:
        """Every column that is no curve."""
        return {*self.errors.values(), *sum(self.bounds.values(), ()), *self.asked.values(), *self.flags, *self.others}

    def interval_of(self, name: str, rows: pd.DataFrame) -> dict[str, Any]:
        """Return the central 95 % around the values of a curve, as `lo` and `hi`; nan where nothing tells it."""
        if name in self.bounds:
            lo, hi = (rows[end].astype(float) for end in self.bounds[name])
            return {"lo": lo, "hi": hi}
        if name in self.errors and not _is_spread(rows[name], rows[self.errors[name]], self.errors[name]):
            error = QUANTILE * rows[self.errors[name]].astype(float)
            return {"lo": rows[name] - error, "hi": rows[name] + error}
        if name in self.asked:
            return _of_questions(rows[name].astype(float), rows[self.asked[name]].astype(float))
        return {"lo": np.nan, "hi": np.nan}


def roles_of(frame: pd.DataFrame, at: Any) -> Roles:
    """Tell what the columns of numbers are, beside the column `at` of steps."""
    names = [str(name) for name in frame.columns.drop(at) if pd.api.types.is_numeric_dtype(frame[name])]
    lower = {name.lower(): name for name in names}
    errors = {of: name for name in names if (of := _measured(ERROR.fullmatch(name), lower)) is not None}
    stray = [name for name in names if STANDARD_ERROR.search(name) and name not in errors.values()]
    order = pd.to_numeric(frame[at], errors="coerce").argsort(kind="stable")
    flags = [name for name in names if _is_flag(frame[name].iloc[order], name)]
    counts = [name for name in names if name not in flags and _is_count(frame[at], frame[name], name)]
    asked = _asked({name: frame[name] for name in names}, {*errors, *flags, *counts})
    return Roles(errors, _ends(names, lower), asked, flags, [*counts, *stray])


def _asked(columns: Mapping[str, pd.Series], others: set[str]) -> dict[str, str]:
    """Return the number of questions of each column of shares, which stands in the same folder."""
    numbers = {name.rpartition("/")[0]: name for name in columns if name.rpartition("/")[2].lower() in ASKED}
    return {
        name: numbers[folder]
        for name, column in columns.items()
        if (folder := name.rpartition("/")[0]) in numbers and name not in {*others, *numbers.values()}
        if column.dropna().between(0, 1).all() and column.notna().any()
    }


def _of_questions(share: pd.Series, n: pd.Series) -> dict[str, pd.Series]:
    """Return the central 95 % around shares of n right answers.

    Source: Wilson (1927), Probable inference, the law of succession, and statistical inference.
    """
    square = QUANTILE**2 / n
    middle = (share + square / 2) / (1 + square)
    half = np.sqrt(square * share * (1 - share) + square**2 / 4) / (1 + square)
    return {"lo": middle - half, "hi": middle + half}


def _measured(match: re.Match[str] | None, lower: Mapping[str, str]) -> str | None:
    """Return the column that an error's name is of, if there is one: itself, or its mean."""
    if match is None or not match["of"]:
        return None
    of, rest = match["of"].lower(), (match["rest"] or "").lower()
    return next((lower[one] for one in (of + rest, *(f"{of}{sign}mean{rest}" for sign in "_/ ")) if one in lower), None)


def _is_spread(values: pd.Series, column: pd.Series, name: str) -> bool:
    """Whether a standard deviation is of single answers, not of their mean: the values scatter by far less."""
    least = LEAST_SCATTER * column.median()
    return DEVIATION.search(name) is not None and bool(noise(values.dropna().to_numpy(float)) < least)


def _ends(names: Sequence[str], lower: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Return the columns of the lower and upper ends of intervals, where a column has both."""
    found: dict[str, dict[str, str]] = {}
    for match in filter(None, map(BOUND.fullmatch, names)):
        if match["of"] and (of := lower.get(match["of"].lower())) is not None:
            found.setdefault(of, {})["lo" if match["end"].lower()[0] == "l" else "hi"] = match[0]
    return {of: (ends["lo"], ends["hi"]) for of, ends in found.items() if len(ends) == 2}


def is_setting(name: str) -> bool:
    """Whether a column is a setting of the run, by its name or that of its folder."""
    *folders, last = name.lower().split("/")
    return bool(SETTINGS & {*folders}) or last in SETTING or re.split(r"[^a-z]+", last)[-1] in SCHEDULED


def range_of(name: str, values: np.ndarray) -> tuple[int, int] | tuple[None, None]:
    """Return the bounds of a share of right answers, in parts of 1; of another curve none."""
    finite, is_share = values[np.isfinite(values)], SHARES & {*re.split(r"[^a-z0-9]+", name.lower())}
    return (0, 1) if is_share and len(finite) and finite.min() >= 0 and finite.max() <= 1 else (None, None)


def is_measured(name: str) -> bool:
    """Whether a column is of what a training measures, by a word of its name: a loss, a share, a gradient's norm."""
    words = _words(name)
    return bool(words & MEASURED or words >= {"grad", "norm"}) and "scale" not in words


def is_time(name: str) -> bool:
    """Whether a column is a time, a speed or a count of what was read, by its name or a word of it."""
    return name.lower() in CLOCKS or bool(_words(name) & TIMES) or bool(SPEED.search(name))


def is_hardware(name: str) -> bool:
    """Whether a column is of the machine that trains, as its load, memory, power or speed, by its folders and words."""
    *folders, last = re.split("[/.]", name.lower())
    words = _words(name) | _words(re.sub(WORDS, " ", name))
    memory = last in MEMORY or (words & MEMORY and words & OF_MEMORY)
    return bool({*folders} & MACHINE or words & DEVICES or memory) and not words & MEASURED


def _words(name: str) -> set[str]:
    return {*re.findall(r"[a-z]+", name.lower())}


def _is_flag(column: pd.Series, name: str) -> bool:
    """Whether a column of 0 and 1, in the order of steps, tells of a setting or an event, and not of the model."""
    is_bool = pd.api.types.is_bool_dtype(column)
    values = column.to_numpy()
    if not is_bool and not (pd.api.types.is_integer_dtype(column) and {*values} == {0, 1}):
        return False
    gaps = np.diff(switches := np.flatnonzero(values[1:] != values[:-1]))
    rhythm = len(gaps) > 2 and (gaps[2:] == gaps[:-2]).all()
    told = bool(_words(name) & (PASSED | MEASURED)) and len(switches) > 0
    return not told and (len(switches) < SWITCHES or bool(rhythm))


def _is_count(steps: pd.Series, column: pd.Series, name: str) -> bool:
    """Whether a column counts: a straight line of whole numbers, or what was read, which never falls."""
    words = _words(re.sub(r"[\[(].*", "", name))
    if words & MEASURED:
        return False
    both = pd.DataFrame({"x": pd.to_numeric(steps, errors="coerce"), "y": column.astype(float)}).dropna()
    x, y = both.sort_values("x", kind="stable").to_numpy(float).T
    if len(y) < 3 or not np.isfinite(y).all() or not np.ptp(y):
        return False
    if (np.diff(y) < 0).any():
        return False
    line = y[0] + np.ptp(y) * (x - x[0]) / max(np.ptp(x), 1)
    straight = (y == np.round(y)).all() and (np.abs(line - y) <= CERTAIN * np.abs(y).max()).all()
    return bool(words & COUNTED or straight)
