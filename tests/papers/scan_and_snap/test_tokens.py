"""Fates of tokens: runs against the corollaries and sections that tell them."""

import itertools
import math

import numpy as np
import pytest
import torch

from stagewise.papers.scan_and_snap._theorems import ONE_COMMON, population
from stagewise.papers.scan_and_snap._tokens import (
    ALIKE,
    APART,
    LOCAL,
    RARE,
    common_logits,
    late_decoder,
    late_joint,
    local_losses,
    local_moves,
    nearest_wins,
    residual_ascent,
    residual_moves,
    spurious_masses,
    winners_by_start,
)
from stagewise.papers.theory.token_fates import spurious_probability

pytestmark = pytest.mark.usefixtures("unchecked")


def test_a_decoder_approaches_its_critical_point_as_one_over_t_and_stays_within_gamma_s_bound() -> None:
    late = late_decoder(times=(10, 100))
    assert 1 < late.errors[1] < late.errors[0]
    assert late.errors[1] == pytest.approx(1, abs=0.02)
    assert 0.9 < late.gamma.max() < 1


def test_with_attention_the_error_falls_no_more_slowly() -> None:
    errors = late_joint(times=(10, 30, 100))
    assert all(later < earlier for earlier, later in itertools.pairwise(errors))
    assert errors[-1] > 1


def test_common_tokens_in_the_same_proportions_fall_and_one_that_a_class_nearly_owns_rises() -> None:
    alike, apart = (common_logits(weights, steps=150).diff(dim=0)[1:] for weights in (ALIKE, APART))
    assert (alike < 0).all()
    assert (apart.sum(1) < 0).all()
    assert (apart[:, 1] > 0).all()


def test_the_token_that_is_ahead_at_the_start_wins_and_heads_pick_different_ones() -> None:
    winners = winners_by_start()
    assert (winners.last == winners.by_prior).mean() > 0.9
    assert (winners.last == winners.by_frequency).mean() < 0.3
    assert min(len(np.unique(of_class)) for of_class in winners.last.T) > 3


def test_a_bias_of_positions_decides_between_tokens_that_are_as_frequent() -> None:
    assert nearest_wins(slope=0.0) < 0.3
    assert nearest_wins(slope=0.02) > 0.9


def test_tokens_that_their_query_alone_makes_distinct_rise_and_the_others_fall() -> None:
    moves, own = local_moves(), LOCAL.distinct_tokens[:2].flatten()
    assert (moves[..., own] > 0).all()
    assert (moves[..., : LOCAL.n_common] < 0).all()


def test_without_a_residual_connection_both_queries_look_alike_at_first() -> None:
    without, beside = local_losses()
    assert without > math.log(2) > 0.1 > beside


def test_with_a_residual_connection_the_common_token_falls_and_the_rarest_distinct_one_too() -> None:
    moves, distinct = residual_moves(), ONE_COMMON.distinct_tokens
    assert (moves[:, 0] < 0).all()
    assert (moves[:, distinct[:, 1:]] > 0).all()
    assert (moves[:, distinct[:, 0]] < 0).all()


def test_a_residual_connection_s_first_step_is_the_decoder_s_mean_feature() -> None:
    counts = population(ONE_COMMON)
    *_, weights = residual_ascent(counts, steps=1)
    pooled = counts.context[0] + torch.nn.functional.one_hot(counts.query[0], ONE_COMMON.d_vocab)
    f = pooled / pooled.norm(dim=1, keepdim=True)
    labels = torch.nn.functional.one_hot(counts.label[0], ONE_COMMON.d_vocab).double()
    torch.testing.assert_close(weights.y[0].detach(), f.T @ (labels - 1 / ONE_COMMON.d_vocab) / len(f))
    assert not weights.z.any()


def test_more_sequences_leave_less_attention_on_common_tokens() -> None:
    few, more = spurious_masses(sizes=(16, 64), seeds=(0, 1, 2))
    assert more.max() < few.min()


def test_in_few_sequences_as_many_common_tokens_look_distinct_as_the_formula_says() -> None:
    probability, shares = RARE.distribution()[0, 0].item(), []
    for seed in range(20):
        batch = RARE.sample(16, seed)
        classes = batch.targets[:, -1]
        present = np.stack(
            [np.isin(np.arange(RARE.n_common), batch.tokens[classes == label, :-1]) for label in RARE.labels]
        )
        shares.append((present.sum(0) == 1).mean())
    tokens = 16 * RARE.length // RARE.n_classes
    assert np.mean(shares) == pytest.approx(spurious_probability(probability, tokens, RARE.n_classes), abs=0.03)
