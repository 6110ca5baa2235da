"""The worth of copying on a text: the part of an n-gram model's loss that an induction head could take away.

python -m stagewise.papers.wikitext.copying [FOLDER]

FOLDER holds train.txt, valid.txt and test.txt; without one the text in the package is taken. Seconds.
"""

import argparse

import numpy as np
import pandas as pd
from jaxtyping import Int

from stagewise.papers.tasks import WikiText
from stagewise.papers.tasks.wiki_text import EMBEDDED

MATCHED = (1, 2, 3)
"""Tokens that stood earlier in the window just as they do now, after which a copy is made."""

WEIGHTS = np.linspace(0, 0.6, 61)
"""Probabilities given to the copied token, of which the best is taken."""

_WINDOWS = 64


def _worth(task: WikiText, windows: int = _WINDOWS, seed: int = 0) -> pd.DataFrame:
    """Return a row a model and number of matched tokens: shares `seen` and `right`, losses alone and `with_copies`.

    Where the last tokens stood earlier in a held-out window, what followed them then is predicted with a fixed
    probability, and the rest is the n-gram model's; losses are nats a token at the best such probability.
    """
    batch = task.probe_batch(windows, seed)
    tokens, targets = batch.tokens.numpy(), batch.targets.numpy()
    rows = []
    for matched in MATCHED:
        copies = _copied(tokens, targets, matched)
        seen, right = copies >= 0, copies == targets
        for name, log_probs in batch.references.items():
            p = np.exp(np.take_along_axis(log_probs.numpy(), targets[..., None], -1)[..., 0])
            losses = [-np.log(np.where(seen, (1 - weight) * p + weight * right, p)).mean() for weight in WEIGHTS]
            rows.append((name, matched, seen.mean(), right[seen].mean(), losses[0], min(losses)))
    return pd.DataFrame(rows, columns=["model", "matched", "seen", "right", "loss", "with_copies"])


def _copied(
    tokens: Int[np.ndarray, "window pos"], targets: Int[np.ndarray, "window pos"], matched: int
) -> Int[np.ndarray, "window pos"]:
    """Return the token behind the last earlier occurrence of each position's last tokens in its window; -1 for none."""
    copies = np.full_like(tokens, -1)
    for window, (of_window, following) in enumerate(zip(tokens.tolist(), targets.tolist(), strict=True)):
        last: dict[tuple[int, ...], int] = {}
        for end in range(matched, len(of_window) + 1):
            context = tuple(of_window[end - matched : end])
            copies[window, end - 1] = last.get(context, -1)
            last[context] = following[end - 1]
    return copies


def _main() -> None:
    """Read the command line, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", default=EMBEDDED)
    parser.add_argument("--length", type=int, default=256, help="positions of a window")
    parser.add_argument("--vocab-size", type=int, default=1024, help="byte pairs")
    given = parser.parse_args()
    task = WikiText(data=given.folder, tokenizer="bpe", length=given.length, vocab_size=given.vocab_size)
    print(_worth(task).round(3).to_string(index=False))


if __name__ == "__main__":
    _main()
