"""Two layers learn to copy, in a loop of one's own that is recorded: the answer, the report, the picture of the README.

python examples/induction_heads.py [FOLDER]      (a minute)
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
import torch
from matplotlib.axes import Axes
from transformer_lens.config import TransformerBridgeConfig
from transformer_lens.model_bridge import TransformerBridge

import stagewise
from stagewise.table import head_label, select
from stagewise.tasks import RepeatedTokens


def main(folder: Path, steps: int = 400) -> Path:
    """Train and record; print the answer; draw the figure into the folder and return where it is."""
    task = RepeatedTokens(d_vocab=48, length=16)
    sizes = {"n_layers": 2, "d_model": 64, "d_head": 16, "n_heads": 4, "n_ctx": task.n_ctx, "d_vocab": task.d_vocab}
    torch.manual_seed(0)
    model = TransformerBridge.boot_native(TransformerBridgeConfig(**sizes, attn_only=True, seed=0), device="cpu")
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3)
    recorder = stagewise.record(model, schedule=10, folder=folder, batch=task.probe_batch(64, seed=1), weights=True)
    for step in range(steps + 1):
        recorder(step)
        data = task.sample(64, seed=100 + step)
        loss = torch.nn.functional.cross_entropy(model(data.tokens)[data.scored], data.targets[data.scored])
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    analysis = recorder.report()
    if analysis.stages is not None:
        print(" ".join(stagewise.answer(analysis.stages)))
    print(f"report: {analysis.report}")
    return drawn(analysis.table, analysis.stages, folder)


def drawn(table: pd.DataFrame, stages: stagewise.Stages | None, folder: Path) -> Path:
    """Draw the loss, the in-context score and the heads of the circuit, with the intervals of the transitions."""
    figure, (loss, score, attention) = plt.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
    curve(loss, select(table, "Loss", "cross_entropy"), "loss, nats")
    curve(score, table[table["probe"] == "InContextLearning"], "in-context score, nats")
    for layer, relation, style in ((0, "previous token", "--"), (1, "induction", "-")):
        heads = select(table, "AttentionTo", "along", layer=layer, relation=relation)
        for head in sorted(map(int, heads["head"].unique())):
            label = f"{head_label(layer, head)}, {relation}"
            curve(attention, heads[heads["head"] == head], "attention", label, style)
    attention.legend(fontsize="x-small", loc="center right")
    for lo, hi in stages.table[["end_lo", "end_hi"]].to_numpy()[:-1] if stages is not None else ():
        for ax in (loss, score, attention):
            ax.axvspan(lo, hi, color="tab:blue", alpha=0.2)
    figure.savefig(path := folder / "figures" / "induction-heads.png", dpi=100)
    plt.close(figure)
    return path


def curve(ax: Axes, rows: pd.DataFrame, what: str, label: str = "", style: str = "-") -> None:
    """Draw a curve with its intervals."""
    rows = rows.sort_values("step")
    (line,) = ax.plot(rows["step"], rows["value"], style, label=label)
    ax.fill_between(rows["step"], rows["lo"], rows["hi"], color=line.get_color(), alpha=0.2, linewidth=0)
    ax.set(xlabel="step", ylabel=what)
    ax.spines[["top", "right"]].set_visible(False)


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(f"picture: {main(Path(sys.argv[1] if len(sys.argv) > 1 else 'runs/induction-heads'))}")
