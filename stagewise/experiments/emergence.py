"""The emergence of sparse attention: every figure of the paper by number, with the published numbers beside ours."""

from pathlib import Path

import pandas as pd

from stagewise.experiments.emergence_toy import Result, figure_1, figure_2
from stagewise.experiments.emergence_transformers import figure_3, figure_4, figure_5
from stagewise.folder import write

FIGURES = {1: figure_1, 2: figure_2, 3: figure_3, 4: figure_4, 5: figure_5}
SETTINGS = ("small", "paper")


def run(figure: int, setting: str = "small", folder: str | Path = "runs/emergence", *, progress: bool = True) -> Result:
    """Run what a figure needs, write it to `folder` as PNG and SVG and its numbers as CSV, and return both.

    What a killed run had finished is not done again.

    Args:
        figure: 1 or 2, the toy model; 3, a transformer on regression; 4 and 5, one on recall.
        setting: "small" for two cores, "paper" for the published sizes.
        folder: where runs, figures and numbers go.
        progress: show bars.

    Raises:
        ValueError: no such figure or setting.

    Source: Zucchet et al. (2025), The emergence of sparse attention, arXiv:2505.17863.
    """
    if figure not in FIGURES:
        raise ValueError(f"there is no figure {figure}; there are {', '.join(map(str, FIGURES))}")
    if setting not in SETTINGS:
        raise ValueError(f'the setting is "small" or "paper", got {setting!r}')
    folder = Path(folder)
    result = FIGURES[figure](folder / f"figure-{figure}-{setting}", setting, progress)
    for kind in ("png", "svg"):
        path = figure_path(folder, figure, setting, kind)
        write(path, lambda partial, kind=kind: result.figure.savefig(partial, format=kind, dpi=150))  # type: ignore[misc]
    numbers = figure_path(folder, figure, setting, "csv")
    write(numbers, lambda partial: result.numbers.to_csv(partial, index=False))
    return result


def figure_path(folder: str | Path, figure: int, setting: str, kind: str = "png") -> Path:
    """Return where a figure is written.

    >>> figure_path("runs/emergence", 1, "small").as_posix()
    'runs/emergence/figures/figure-1-small.png'
    """
    return Path(folder) / "figures" / f"figure-{figure}-{setting}.{kind}"


def in_words(numbers: pd.DataFrame) -> str:
    """Return the published numbers and ours as text, a block a number."""
    lines = []
    for row in numbers.to_dict("records"):
        remark = f"   ({row['remark']})" if row["remark"] else ""
        lines += [f"{row['what']}{remark}", f"  published  {row['published']}", f"  ours       {row['ours']}"]
    return "\n".join(lines)
