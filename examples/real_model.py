"""A model that somebody uses: what each head attends to, and what its ablation costs, heads x layers.

python examples/real_model.py MODEL [FOLDER]      (MODEL: a .gguf file, or whatever `analyse` opens; measures first)
"""

import sys
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import Patch

import stagewise
from stagewise.table import select

COLOURS = {"previous token": "#0072B2", "induction": "#D55E00", "duplicate token": "#CC79A7", "first token": "#B8BCC8"}
NAMED = 0.5
"""Attention to a relation from which on a head is drawn in its colour."""


def roles(table: pd.DataFrame) -> pd.DataFrame:
    """Return a row a head: the relation that it attends to most, its attention there, and the cost of its ablation."""
    attention = select(table, "AttentionTo", "along").sort_values("value").groupby(["layer", "head"]).tail(1)
    ablated = select(table, "HeadAblation", "loss_change", kind="mean", control="head")
    cost = ablated.set_index(["layer", "head"])["value"].rename("cost")
    return attention.set_index(["layer", "head"])[["relation", "value"]].join(cost).reset_index()


def draw(heads: pd.DataFrame) -> Figure:
    """Draw a square a head, in the colour of its role; the larger the more its ablation costs."""
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    ax = figure.subplots()
    for row in heads.to_dict("records"):
        colour = COLOURS.get(row["relation"], "#E69F00") if row["value"] >= NAMED else "#F1F1F4"
        size = 20 + 380 * min(max(row["cost"], 0.0), 1.0)
        ax.scatter(row["layer"], row["head"], s=size, color=colour, edgecolor="#888888", linewidth=0.4, marker="s")
    ax.set(xlabel="layer", ylabel="head", yticks=range(int(heads["head"].max()) + 1))
    ax.invert_yaxis()
    ax.spines[["top", "right"]].set_visible(False)
    handles = [Patch(color=colour, label=name) for name, colour in COLOURS.items()]
    figure.legend(handles=handles, loc="outside upper center", ncols=len(handles), frameon=False)
    return figure


def main(model: str, folder: Path) -> Path:
    """Measure the model where its folder holds no table, print its first heads, and draw the picture."""
    if not (folder / "tables").exists():
        print(stagewise.analyse(model, folder))
    table = stagewise.read_table(folder)
    heads = roles(table)
    for relation, rows in heads[heads["value"] >= NAMED].groupby("relation"):
        names = [f"L{row.layer}H{row.head} {row.value:.2f}" for row in rows.nlargest(5, "value").itertuples()]
        print(f"{relation}: {len(rows)} heads, {', '.join(names)}")
    estimated = select(table, "HeadAttribution", "estimated_change").set_index(["layer", "head"])["value"]
    both = heads.join(estimated.rename("estimate"), on=["layer", "head"])
    likely = [f"L{row.layer}H{row.head} {row.estimate:.2f}" for row in both.nlargest(5, "estimate").itertuples()]
    costly = [f"L{row.layer}H{row.head} {row.cost:.2f}" for row in heads.nlargest(5, "cost").itertuples()]
    print(f"ablation costs most (nats): {', '.join(costly)}")
    rank = both["estimate"].corr(both["cost"], method="spearman")
    print(f"the gradient's estimate: {', '.join(likely)}; rank correlation {rank:.2f}")
    path = folder / "heads.png"
    draw(heads).savefig(path, dpi=130)
    return path


if __name__ == "__main__":
    print(main(sys.argv[1], Path(sys.argv[2] if len(sys.argv) > 2 else "runs/real-model")))
