"""Scan and Snap's synthetic experiments: attention through training, Adam's choice, entropy and recall by rates."""

import itertools
from collections.abc import Iterator, Sequence

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor
from tqdm.auto import tqdm

from stagewise.papers.scan_and_snap.published_data import published_stream, published_weights
from stagewise.papers.scan_and_snap.yz_model import YZ, attention, count, zeros
from stagewise.papers.scan_and_snap.yz_training import Moment, Rates, train_yz
from stagewise.papers.tasks import SequenceClasses, syn_medium, syn_small

_BATCH, STEPS = 128, 100
N_QUERIES, ETA_Z, RATIOS = (1, 3, 5, 10), (0.5, 1.0, 2.0, 3.0), (1, 2, 5, 10)
"""Figure 6's settings: query tokens (two labels each), rates of Z, and ratios eta_Y / eta_Z."""

SEEDS = range(1, 11)
_THRESHOLDS = {
    1: [n / 1000 for n in range(28, 39)],
    3: [n / 10_000 for n in range(120, 161, 5)],
    5: [n / 10_000 for n in range(75, 106, 5)],
    10: [n / 10_000 for n in range(40, 51)],
}
"""Those of Figures 11 and 12 by number of query tokens, around 1/M: the attention of each token at the start."""

CELL = ["num_last", "num_next", "eta_z", "ratio"]


def attention_by_class(task: SequenceClasses, z: Float[Tensor, "run token token"]) -> Float[Tensor, "run cls token"]:
    """Return the paper's c_n of each run and class: attention under the population's frequencies, over all tokens.

    Source: Tian et al. (2023), arXiv:2305.16380, Eqn 5.
    """
    distribution = task.distribution().to(z.dtype).expand(len(z), -1, -1)
    return attention(z, distribution, task.queries.expand(len(z), -1))


def distinct_entropy(task: SequenceClasses, c: Float[Tensor, "run cls token"]) -> Float[Tensor, " run"]:
    """Return the entropy (nats) of c_n over the class's distinct tokens, renormalised, averaged over the classes.

    Source: Tian et al. (2023), arXiv:2305.16380, Figure 6; of the possible readings, the one that the recorded
    numbers confirm.
    """
    shares = c.gather(2, task.distinct_tokens.expand(len(c), -1, -1))
    entropy: Tensor = torch.special.entr(shares / shares.sum(2, keepdim=True)).sum(2).mean(1)
    return entropy


def recall(
    task: SequenceClasses, z: Float[Tensor, "run token token"], thresholds: Sequence[float]
) -> Float[Tensor, "run threshold"]:
    """Return the share of a query's distinct tokens whose attention, frequencies aside, is above each threshold.

    Attention is the softmax of z_m over the whole vocabulary; the mean is over the query tokens.

    Source: Tian et al. (2023), arXiv:2305.16380, Figures 11 and 12.
    """
    queries = task.queries[:: task.labels_per_query]
    distinct = task.distinct_tokens.view(len(queries), -1)
    shares = z[:, queries].softmax(-1).gather(2, distinct.expand(len(z), -1, -1))
    above = shares[..., None] > torch.tensor(thresholds, dtype=z.dtype)
    return above.to(z.dtype).mean((1, 2))


def moments_of_syn_small(rates: Sequence[Rates], seed: int = 2, optimiser: str = "sgd") -> Iterator[Moment]:
    """Yield the moments of Syn-Small runs from zero weights on the published streams, one run a pair of rates.

    Source: Tian et al. (2023), arXiv:2305.16380, Figures 4 (seed 2, SGD) and 5 (Adam).
    """
    task = syn_small()
    draw = published_stream(task, seed)
    start = zeros(len(rates), task.d_vocab)
    return train_yz(start, lambda step: count(draw(step, _BATCH), task.d_vocab), rates, STEPS, optimiser)


def figure_5_runs(
    rates: Sequence[float], seeds: Sequence[int], progress: bool = True
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Train Syn-Small under Adam at each rate with each seed; return who won, and the first seed's attention.

    The first frame has `rate, seed, index, distinct_mass`: which of class 0's distinct tokens, the least frequent
    first, ends with most attention, and how much all of them have. The second has `rate, step, token, attention`.
    """
    task, winners, followed = syn_small(), [], []
    pairs = [Rates(y=rate, z=rate) for rate in rates]
    for seed in tqdm(seeds, disable=not progress, desc="Figure 5", unit="seed"):
        for moment in moments_of_syn_small(pairs, seed, "adam"):
            c = attention_by_class(task, moment.weights.z)[:, 0]
            if seed == seeds[0] and moment.step % 2 == 0:
                for rate, shares in zip(rates, c.tolist(), strict=True):
                    followed += [(rate, moment.step, token, share) for token, share in enumerate(shares)]
        distinct = c[:, task.distinct_tokens[0]]
        picks = zip(rates, distinct.argmax(1).tolist(), distinct.sum(1).tolist(), strict=True)
        winners += [(rate, seed, index, mass) for rate, index, mass in picks]
    return (
        pd.DataFrame(winners, columns=["rate", "seed", "index", "distinct_mass"]),
        pd.DataFrame(followed, columns=["rate", "step", "token", "attention"]),
    )


def final_scores(
    n_queries: int, seed: int, published: bool = True, pairs: Sequence[Rates] | None = None
) -> tuple[list[Rates], Float[Tensor, "run m m"]]:
    """Train Syn-Medium at pairs of rates on one stream; return the pairs and Z after the last update.

    Args:
        n_queries: number of query tokens.
        seed: of the initial weights and the data.
        published: whether to replay the published run of that seed, or to draw both anew.
        pairs: of rates; None takes the 16 of Figure 6.
    """
    task = syn_medium(n_queries)
    draw, m = published_stream(task, seed) if published else task.stream(seed), task.d_vocab
    every = [Rates(y=ratio * eta_z, z=eta_z) for eta_z, ratio in itertools.product(ETA_Z, RATIOS)]
    chosen = every if pairs is None else list(pairs)
    # A seed of the published range would start fresh runs from the published weights: they get their own.
    start = published_weights(task.d_vocab, seed if published else seed + 10_000)
    initial = YZ(*(matrix.expand(len(chosen), -1, -1) for matrix in start))
    *_, last = train_yz(initial, lambda step: count(draw(step, _BATCH), m), chosen, STEPS)
    return chosen, last.weights.z


def figure_6_runs(
    n_queries: Sequence[int] = N_QUERIES, seeds: Sequence[int] = SEEDS, published: bool = True, progress: bool = True
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Train every cell of Figure 6 with every seed; return the entropies and the recalls of the single runs.

    The columns are those of `CELL` and `seed`, then `entropy` (nats), or `threshold` and `recall`.

    Raises:
        ValueError: a number of query tokens that the figure does not have.
    """
    if unknown := sorted(set(n_queries) - set(_THRESHOLDS)):
        raise ValueError(f"Figure 6 has 1, 3, 5 or 10 query tokens, got {', '.join(map(str, unknown))}")
    entropies, recalls = [], []
    streams = list(itertools.product(n_queries, seeds))
    for n, seed in tqdm(streams, disable=not progress, desc="Figure 6", unit="stream"):
        task, limits = syn_medium(n), _THRESHOLDS[n]
        pairs, z = final_scores(n, seed, published)
        entropy = distinct_entropy(task, attention_by_class(task, z)).tolist()
        above = recall(task, z, limits).tolist()
        for i, rates in enumerate(pairs):
            cell = (n, task.n_classes, rates.z, round(rates.y / rates.z))
            entropies.append((*cell, seed, entropy[i]))
            recalls += [(*cell, seed, limit, share) for limit, share in zip(limits, above[i], strict=True)]
    return (
        pd.DataFrame(entropies, columns=[*CELL, "seed", "entropy"]),
        pd.DataFrame(recalls, columns=[*CELL, "seed", "threshold", "recall"]),
    )


def cells(runs: pd.DataFrame) -> pd.DataFrame:
    """Return each cell's mean and sample standard deviation over the seeds: `entropy_mean`, `entropy_std` (nats)."""
    entropy = runs.groupby(CELL)["entropy"]
    return pd.DataFrame({"entropy_mean": entropy.mean(), "entropy_std": entropy.std()}).reset_index()


def recall_cells(recalls: pd.DataFrame) -> pd.DataFrame:
    """Return each cell's mean and sample standard deviation of recall over the seeds, by threshold."""
    recall = recalls.groupby([*CELL, "threshold"])["recall"]
    return pd.DataFrame({"recall_mean": recall.mean(), "recall_std": recall.std()}).reset_index()
