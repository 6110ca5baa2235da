"""Scan and Snap's Figures 4 and 5: attention through training on Syn-Small, and which token wins under Adam."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from stagewise.checkpoints import run_folder
from stagewise.measurement.engine import measure
from stagewise.papers.published import Result, bounds, mean_over, number, table_of, write_csv
from stagewise.papers.scan_and_snap import _plots as plots
from stagewise.papers.scan_and_snap import _synthetic as experiment
from stagewise.papers.scan_and_snap.attention_by_token import AttentionByToken
from stagewise.papers.scan_and_snap.attention_freezing import AttentionFreezing
from stagewise.papers.scan_and_snap.growth_factor import GrowthFactor
from stagewise.papers.scan_and_snap.published_data import population_batch
from stagewise.papers.scan_and_snap.token_entropy import TokenEntropy
from stagewise.papers.scan_and_snap.yz_hooked import series_of
from stagewise.papers.scan_and_snap.yz_training import Rates
from stagewise.papers.tasks import syn_small
from stagewise.table import select, tidy

_FREEZING_WINDOW, FREEZING_SHARE = 10, 0.05
"""Attention is frozen where its path over ten steps (changes added up) is below a twentieth of the longest one."""

_ADAM_RATES = (0.1, 0.5, 1.0)


def figure_4(folder: Path, *, ratios: Sequence[int] = (1, 10), progress: bool = True) -> Result:
    """Follow attention through training on Syn-Small (SGD, eta_Z = 1, the published stream of seed 2).

    Writes `measurements.parquet` and `attention.csv`.

    Source: Tian et al. (2023), arXiv:2305.16380, Figure 4: eta_Y / eta_Z of 1 (left) and 10 (right).
    """
    batch = population_batch(syn_small())
    probes = [AttentionByToken(), TokenEntropy(), GrowthFactor(), AttentionFreezing()]
    tables = []
    for ratio in ratios:
        moments = experiment.moments_of_syn_small([Rates(y=float(ratio), z=1.0)])
        snapshots = ((moment.step, moment.weights) for moment in moments if moment.step % 2 == 0)
        series = series_of(f"eta_Y = {ratio}", snapshots, batch.tokens.shape[1])
        tables.append(measure(series, probes, batch, progress=progress))
    table = tidy(tables)
    run_folder.write(folder / "measurements.parquet", lambda partial: table.to_parquet(partial, index=False))
    attention = select(table, "AttentionByToken", "attention")[["run", "step", "row", "token", "value"]]
    write_csv(folder / "attention.csv", attention.rename(columns={"row": "class", "value": "attention"}))
    write_settings(folder, {"figure": 4, "ratios": list(ratios), "eta_z": 1.0, "seed": 2, "steps": experiment.STEPS})
    rows = [row for run, of_run in table.groupby("run", sort=False) for row in _about_a_run(str(run), of_run)]
    return Result(plots.attention_through_training(table), table_of(rows))


def frozen_at(change: pd.Series) -> int | None:
    """Return the first step from which on attention is frozen, or None where it still moves at the end.

    Args:
        change: total-variation change between checkpoints two steps apart, by step.

    >>> frozen_at(pd.Series([0.5, 0.5, 0.5, 0.5, 0.5, 0, 0, 0, 0, 0.0], index=range(2, 22, 2)))
    20
    """
    window = change.rolling(_FREEZING_WINDOW // 2).sum().dropna()
    moving = window[window >= FREEZING_SHARE * window.max()]
    after = window.index[window.index > moving.index[-1]]
    return int(after[0]) if len(after) else None


def _about_a_run(run: str, table: pd.DataFrame) -> list[dict[str, str]]:
    entropy = select(table, "TokenEntropy", "entropy", among="distinct").set_index("step")["value"]
    attention = select(table, "AttentionByToken", "attention", row=0)
    common = attention[attention["token"] < 10].groupby("step")["value"].sum()
    growth = select(table, "GrowthFactor", "growth", token=19).set_index("step")["value"]
    frozen = frozen_at(select(table, "AttentionFreezing", "change").set_index("step")["value"])
    last = entropy.index[-1]
    denser = "falls" if run.endswith("= 1") else "falls less: ends denser"
    return [
        *(number(f"{run}: distinct-token entropy at step {step}, nats", denser, f"{entropy[step]:.4f}")
          for step in (0, 10, last)),
        number(f"{run}: growth of the most frequent distinct token", "wins", f"{growth[last]:.2f}"),
        number(f"{run}: common tokens' share of class 0 at the end", "falls", f"{common[last]:.1%}"),
        number(f"{run}: attention frozen from step", "it snaps", str(frozen) if frozen else "still moving at the end"),
    ]  # fmt: skip


def figure_5(folder: Path, *, seeds: Sequence[int] = range(20), progress: bool = True) -> Result:
    """Find which distinct token gets most attention on Syn-Small under Adam at three rates, eta_Y = eta_Z.

    Writes `winners.csv` (index 0 is the least frequent distinct token, 9 the most) and `attention.csv` of the first
    seed.

    Source: Tian et al. (2023), arXiv:2305.16380, Figure 5, whose seed is not known.
    """
    winners, attention = experiment.figure_5_runs(_ADAM_RATES, seeds, progress)
    write_csv(folder / "winners.csv", winners)
    write_csv(folder / "attention.csv", attention)
    write_settings(folder, {"figure": 5, "optimiser": "adam", "rates": list(_ADAM_RATES), "seeds": list(seeds)})
    rows = []
    for rate, of_rate in winners.groupby("rate"):
        times = of_rate["index"].value_counts().sort_index()
        counts = ", ".join(f"{index} ({n}x)" for index, n in times.items())
        what = f"Adam, rate {rate:g}: most attended distinct token (9 the most frequent)"
        rows.append(number(what, "more frequent at larger rates", counts, remark=f"{len(of_rate)} seeds"))
        mass, lo, hi = mean_over(of_rate["distinct_mass"].to_numpy())
        rows.append(number(f"Adam, rate {rate:g}: distinct mass", "-", f"{mass:.3f}", bounds(lo, hi)))
    return Result(plots.most_attended(winners, attention), table_of(rows))


def write_settings(folder: Path, settings: Mapping[str, object]) -> None:
    """Write the settings of a figure with the versions that made it."""
    plain = json.loads(json.dumps(settings))
    run_folder.write_json(folder / "settings.json", {**plain, "versions": run_folder.versions()})
