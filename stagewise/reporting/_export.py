"""A measured run for other tools: its scores as curves, its transitions as text at their steps."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from stagewise.checkpoints._writing import check_inside
from stagewise.checkpoints.run_folder import read_table
from stagewise.measurement._while_training import names_of_rows
from stagewise.saved_findings import load_stages
from stagewise.table import ARRAYS, NO_AXES

_TIMES = ["start", "start_lo", "start_hi", "begins", "t10", "t50", "t90"]


class _Run(NamedTuple):
    """The parts of a measured run that are exported: its name, table, transitions (a row each), and answer."""

    name: str
    table: pd.DataFrame
    transitions: pd.DataFrame
    answer: str

    @property
    def curves(self) -> dict[int, dict[str, float]]:
        """The scores of each step by name, as "AttentionTo/mass/L0H1/induction", and the number of its `stage`."""
        rows = self.table.assign(name=names_of_rows(self.table), value=self.table["value"].astype(float))
        scores = {
            int(step): dict(zip(each["name"], each["value"], strict=True))
            for step in sorted(set(rows["step"]))
            for each in [rows[rows["step"] == step]]
        }
        later = {step: int((self.transitions["start"] <= step).sum()) for step in scores}
        return {step: {"stage": 1.0 + later[step], **scores[step]} for step in scores}


def export(folder: Path, to: str, out: Path | None = None) -> Path:
    """Write the scores and transitions of a measured run for another tool, and return the folder."""
    if to not in WRITERS:
        raise ValueError(f"cannot export to {to!r}: expected one of {', '.join(WRITERS)}")
    out = folder / "exports" / to if out is None else out
    check_inside(out / "scores")
    if out.exists() and any(out.iterdir()):
        raise FileExistsError(f"{out} holds files already: delete it, or name another folder by --out")
    table, stages = read_table(folder), load_stages(folder)
    table = table[table["value"].notna()].drop(columns=ARRAYS, errors="ignore")
    transitions, answer = pd.DataFrame(columns=[*_TIMES, "words"]), ""
    if stages is not None:
        sentences = stages.answer
        transitions = stages.table.iloc[1:][_TIMES].assign(words=sentences[1 : len(stages)])
        answer = " ".join(sentences)
    try:
        WRITERS[to](_Run(str(table["run"].iloc[0]), table, transitions, answer), out)
    except ImportError as reason:
        raise ValueError(f"an export to {to} needs its package: `pip install 'stagewise[{to}]'`") from reason
    return out


def _to_tensorboard(run: _Run, out: Path) -> None:
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(out)) as writer:
        for step, scores in run.curves.items():
            for name, value in scores.items():
                writer.add_scalar(name, value, step)
        for step, words in zip(run.transitions["start"], run.transitions["words"], strict=True):
            writer.add_text("transitions", words, int(step))


def _to_wandb(run: _Run, out: Path) -> None:
    """Write a run of W&B's that nothing uploads before `wandb sync`."""
    import wandb

    out.mkdir(parents=True, exist_ok=True)
    settings = wandb.Settings(silent=True, console="off", x_disable_stats=True)
    named: Mapping[str, Any] = {"name": run.name, "notes": run.answer, "project": "stagewise"}
    with wandb.init(mode="offline", dir=os.fspath(out), settings=settings, **named) as log:
        for step, scores in run.curves.items():
            log.log(scores, step=step)
        log.log({"transitions": wandb.Table(dataframe=run.transitions)})


def _to_xarray(run: _Run, out: Path) -> None:
    """Write one netCDF file: an array a quantity over `step` and its axes, with the ends of intervals."""
    import xarray

    parts = [
        _arrays(rows, f"{probe}.{quantity}") for (probe, quantity), rows in run.table.groupby(["probe", "quantity"])
    ]
    transitions = run.transitions.add_prefix("transition.").rename_axis("transition").to_xarray()
    dataset = xarray.merge([*parts, transitions], join="outer", compat="no_conflicts")
    out.mkdir(parents=True, exist_ok=True)
    dataset.assign_attrs(run=run.name, answer=run.answer).to_netcdf(out / "scores.nc", engine="scipy")


def _arrays(rows: pd.DataFrame, name: str) -> Any:
    """Return one quantity as a dataset; an axis that some rows lack is named after the quantity, "" where it lacks."""
    axes = [axis for axis in map(str, rows) if axis not in NO_AXES and rows[axis].notna().any()]
    whole = ["step", *(axis for axis in axes if rows[axis].notna().all())]
    partial = [axis for axis in axes if axis not in whole] if rows.duplicated(whole).any() else []
    texts = {
        f"{axis} of {name}": rows[axis].astype("object").where(rows[axis].notna(), "").map(str) for axis in partial
    }
    values = {value: name + end for value, end in (("value", ""), ("lo", ".lo"), ("hi", ".hi")) if value in rows}
    labels = {axis: rows[axis].astype("object" if rows[axis].dtype.kind not in "iu" else "int64") for axis in whole}
    return rows.assign(**labels, **texts).set_index([*whole, *texts])[[*values]].rename(columns=values).to_xarray()


def _to_parquet(run: _Run, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    run.table.to_parquet(out / "scores.parquet", index=False)
    run.transitions.to_parquet(out / "transitions.parquet", index=False)


WRITERS: dict[str, Callable[[_Run, Path], None]] = {
    "wandb": _to_wandb,
    "tensorboard": _to_tensorboard,
    "xarray": _to_xarray,
    "parquet": _to_parquet,
}
"""Tool -> the function that writes a run for it."""
