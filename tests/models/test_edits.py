"""What an edit does to an activation, computed by hand."""

from typing import Literal

import pytest
import torch

from stagewise.intervention import AblateHead, AblateMLP
from stagewise.models._edits import (
    ablate,
    in_context,
    leaves_attention,
    replacement,
    restrict_pattern,
    restrict_scores,
    well_known,
)

Kind = Literal["zero", "mean", "resample"]


def test_a_pattern_cut_after_the_softmax_is_one_cut_before_it() -> None:
    scores = torch.randn(2, 3, 6, 6, generator=torch.Generator().manual_seed(0)).masked_fill(
        torch.ones(6, 6, dtype=torch.bool).triu(1), -torch.inf
    )
    expected = scores.masked_fill(torch.ones(6, 6, dtype=torch.bool).tril(-2), -torch.inf).softmax(-1)
    torch.testing.assert_close(restrict_pattern(scores.softmax(-1), 2), expected)


def test_a_pattern_with_nothing_left_inside_is_refused() -> None:
    pattern = torch.tensor([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    with pytest.raises(
        ValueError, match=r"leaves 0 of its attention within the last 1 positions: .*, from more than 0"
    ):
        restrict_pattern(pattern, 1)


@pytest.mark.parametrize(("n_query", "n_key"), [(4, 4), (2, 5)])
def test_a_query_keeps_the_last_keys_up_to_itself(n_query: int, n_key: int) -> None:
    mask = in_context(n_query, n_key, 2)
    for query in range(n_query):
        position = n_key - n_query + query  # the queries are the last positions
        assert [key for key in range(n_key) if mask[query, key]] == [max(position - 1, 0), position][-position - 1 :]


def test_scores_outside_the_context_get_no_attention_and_the_others_their_shares() -> None:
    attention = restrict_scores(torch.log(torch.tensor([[9.0, 9, 9], [1, 3, 9], [9, 1, 4]])), 2).softmax(-1)
    torch.testing.assert_close(attention, torch.tensor([[1.0, 0, 0], [0.25, 0.75, 0], [0, 0.2, 0.8]]))


def test_only_the_ablated_head_is_replaced_and_the_activation_stays() -> None:
    z = torch.arange(12.0).view(3, 1, 2, 2)
    before, clean = z.clone(), {"blocks.0.attn.hook_z": 10 * z}
    expected: dict[Kind, list[float]] = {
        "zero": [0.0, 0, 0],
        "mean": [60.0, 60, 60],
        "resample": [100.0, 20, 60],
    }  # clean z[:, 0, 1, 0] is 20, 60, 100
    for kind, values in expected.items():
        edited = ablate(z, 1, replacement(AblateHead(0, 1, kind), clean), z.shape[2])
        assert edited[:, 0, 1, 0].tolist() == values
        assert torch.equal(edited[:, :, 0], before[:, :, 0])
    assert torch.equal(z, before)


def test_an_mlp_writes_zeros_or_its_mean_over_these_or_more_sequences() -> None:
    clean = {"blocks.1.hook_mlp_out": torch.tensor([[[1.0, 2.0]], [[3.0, 6.0]]])}
    assert replacement(AblateMLP(1), clean).tolist() == [[[0.0, 0.0]]]
    assert replacement(AblateMLP(1, "mean"), clean).tolist() == [[[2.0, 4.0]]]
    more = {"blocks.1.hook_mlp_out": torch.tensor([[[5.0, 7.0]]])}
    assert replacement(AblateMLP(1, "mean"), clean, more).tolist() == [[[5.0, 7.0]]]


def test_a_pattern_or_values_replaced_by_their_mean_leave_the_other_factor_as_it_is() -> None:
    generator = torch.Generator().manual_seed(0)
    pattern = torch.randn(3, 4, 5, 5, generator=generator).softmax(-1)
    values = torch.randn(3, 5, 2, 6, generator=generator)  # two heads share their values
    z = torch.einsum("bhqk,bkhd->bqhd", pattern, values.repeat_interleave(2, 2))
    clean = {f"blocks.1.attn.hook_{name}": tensor for name, tensor in (("pattern", pattern), ("v", values), ("z", z))}
    for head in range(4):
        mean, own = pattern[:, head].mean(0), values[:, :, head // 2]
        looking = replacement(AblateHead(1, head, "pattern"), clean)
        reading = replacement(AblateHead(1, head, "values"), clean)
        torch.testing.assert_close(looking, torch.einsum("qk,bkd->bqd", mean, own))
        torch.testing.assert_close(reading, torch.einsum("bqk,kd->bqd", pattern[:, head], own.mean(0)))
        # z = (mean + rest of the pattern) x (mean + rest of the values): four parts, of which each keeps two.
        both = torch.einsum("bqk,bkd->bqd", pattern[:, head] - mean, own - own.mean(0))
        torch.testing.assert_close(looking + reading - mean @ own.mean(0) + both, z[:, :, head], atol=1e-5, rtol=1e-5)
    more = {name: tensor.mean(0, keepdim=True) + 1 for name, tensor in clean.items()}
    expected = torch.einsum("qk,bkd->bqd", pattern[:, 0].mean(0) + 1, values[:, :, 0])
    torch.testing.assert_close(replacement(AblateHead(1, 0, "pattern"), clean, more), expected)


def test_heads_that_write_something_else_than_pattern_times_values_are_refused() -> None:
    clean = {f"blocks.0.attn.hook_{name}": torch.ones(2, 2, 2, 2) for name in ("pattern", "v", "z")}
    with pytest.raises(ValueError, match=r"pattern of L0H1 times its values is not what it writes: ablate it by"):
        replacement(AblateHead(0, 1, "values"), clean)


def test_a_pattern_is_renormalised_where_every_query_keeps_attention_beside_a_sink() -> None:
    pattern = torch.eye(3)
    assert leaves_attention(pattern, 1)
    assert not leaves_attention(pattern[[0, 0, 0]], 2)
    assert well_known(pattern[[0, 0, 0]], 2).tolist() == [True, True, False]
