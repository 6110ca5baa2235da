"""Which of a log's curves is a learning rate, by its name."""

import itertools
import re

OF_RUN = " - "
"""Between the names of run and curve, in the columns that Weights & Biases exports."""

RATE, BETWEEN, WORDS = {"lr", "learning_rate", "learningrate"}, r"[._\s-]+", r"(?<=[a-z0-9])(?=[A-Z])"
"""Words for the learning rate in a name, in lower case, and what lies between words: a sign, or a capital letter."""

MEASURED = {"loss", "acc", "accuracy", "error", "perplexity", "ppl"}
"""Words of names that a rate may stand in, too: "loss_lr_0.1" is a loss."""


def is_rate(name: str) -> bool:
    """Whether a curve is a learning rate, which is done to a run, and no progress of its.

    >>> [name for name in ("train/learning_rate", "lr-AdamW/pg1", "currentLR", "clr", "loss_lr_0.1") if is_rate(name)]
    ['train/learning_rate', 'lr-AdamW/pg1', 'currentLR']
    """
    *folders, last = name.rpartition(OF_RUN)[2].split("/")
    parts = re.split(BETWEEN, re.sub(WORDS, " ", last))
    words = [part.lower().rstrip("0123456789") for part in parts]  # as in lr-AdamW/pg1
    within = any(RATE & {folder.lower(), folder.lower().partition("-")[0]} for folder in folders)
    named = RATE & set(words) or ("learning", "rate") in itertools.pairwise(words)
    return bool(within or named) and not MEASURED & set(words)
