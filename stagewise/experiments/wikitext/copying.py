"""What copying is worth on a text: how much of an n-gram model's loss an induction head could take away.

python -m stagewise.experiments.wikitext.copying [FOLDER]

FOLDER holds train.txt, valid.txt and test.txt; without one the text in the package is taken. Seconds.
"""

import argparse

import numpy as np
import pandas as pd
from jaxtyping import Int

from stagewise.tasks import WikiText
from stagewise.tasks.wiki_text import EMBEDDED

MATCHED = (1, 2, 3)
"""Tokens that stood earlier in the window just as they do now, after which a copy is made."""

WEIGHTS = np.linspace(0, 0.6, 61)
"""Probabilities given to the copied token, of which the best is taken."""

_WINDOWS = 64


def worth(task: WikiText, windows: int = _WINDOWS, seed: int = 0) -> pd.DataFrame:
    """Return what a copy of the last occurrence adds to the n-gram models of the training text, on held-out windows.

    Where the last tokens stood earlier in the window, what followed them then is predicted with a fixed probability,
    and the rest is the n-gram model's.

    Args:
        task: its windows and their length.
        windows: how many of the held-out text.
        seed: of their places.

    Returns:
        A row a model and number of matched tokens: `model, matched`, the shares of positions at which they were `seen`
        before and of these at which the copy is `right`, the model's `loss` and that `with_copies` at the best
        probability (nats a token).
    """
    batch = task.probe_batch(windows, seed)
    tokens, targets = batch.tokens.numpy(), batch.targets.numpy()
    rows = []
    for matched in MATCHED:
        copies = copied(tokens, targets, matched)
        seen, right = copies >= 0, copies == targets
        for name, log_probs in batch.references.items():
            p = np.exp(np.take_along_axis(log_probs.numpy(), targets[..., None], -1)[..., 0])
            losses = [-np.log(np.where(seen, (1 - weight) * p + weight * right, p)).mean() for weight in WEIGHTS]
            rows.append((name, matched, seen.mean(), right[seen].mean(), losses[0], min(losses)))
    return pd.DataFrame(rows, columns=["model", "matched", "seen", "right", "loss", "with_copies"])


def copied(
    tokens: Int[np.ndarray, "window pos"], targets: Int[np.ndarray, "window pos"], matched: int
) -> Int[np.ndarray, "window pos"]:
    """Return what followed the last earlier occurrence of each position's last tokens in its window; -1 without one.

    >>> copied(np.array([[5, 6, 5, 6]]), np.array([[6, 5, 6, 7]]), matched=1).tolist()
    [[-1, -1, 6, 5]]
    """
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
    print(worth(task).round(3).to_string(index=False))


if __name__ == "__main__":
    _main()
