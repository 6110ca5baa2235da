"""The fixed point and the leftover attention, held to the flow itself."""

import numpy as np
import pytest

from stagewise.papers.theory.competitive import block_norms, competitive_fixed_point, leftover_mass, plateau_losses
from stagewise.papers.theory.dynamics import states_at
from stagewise.papers.theory.tensor_factorisation import TensorFactorisation

THEORIES = {
    "figure 10": TensorFactorisation(noise=0.0),
    "two heads": TensorFactorisation(n_heads=2, noise=0.0),
    "wide": TensorFactorisation((1.7, 1.0), (1, 8), noise=0.0),
    "pairs": TensorFactorisation((2.89, 1.7, 1.0), (2, 2, 2), n_positions=8, noise=0.0),
}


@pytest.mark.one_of(4)
@pytest.mark.parametrize("theory", THEORIES.values(), ids=THEORIES.keys())
def test_heads_that_start_alike_converge_to_the_fixed_point(theory: TensorFactorisation) -> None:
    reached, expected = theory.heads(states_at(theory, [2000.0])[0]), competitive_fixed_point(theory)
    np.testing.assert_allclose(reached.values, expected.values, atol=0.02)
    np.testing.assert_allclose(reached.attention, expected.attention, atol=0.01)


@pytest.mark.parametrize("theory", THEORIES.values(), ids=THEORIES.keys())
def test_the_fixed_point_lies_on_the_first_plateau_and_is_stationary(theory: TensorFactorisation) -> None:
    fixed = competitive_fixed_point(theory)
    assert theory.loss(fixed) == pytest.approx(plateau_losses(theory)[1], rel=1e-12)
    residual = theory.residual(fixed)
    np.testing.assert_allclose(residual @ fixed.attention[0], 0, atol=1e-12)
    pull = fixed.values[0] @ residual
    np.testing.assert_allclose(fixed.attention[0] * (pull - fixed.attention[0] @ pull), 0, atol=1e-12)


def test_the_published_example_has_the_known_plateaus() -> None:
    np.testing.assert_allclose(plateau_losses(TensorFactorisation()), [6.121, 1.945, 0.5, 0.0], atol=5e-4)


def test_the_largest_block_counts_not_the_largest_strength() -> None:
    assert block_norms(THEORIES["wide"]).argmax() == 1


def test_leftover_attention_falls_as_the_inverse_of_time() -> None:
    theory = TensorFactorisation(noise=0.0)
    times = [90.0, 2000.0]
    attention = theory.heads(states_at(theory, times)).attention[:, 0]
    assert attention[0, 1] == pytest.approx(0.0044, rel=0.1)
    np.testing.assert_allclose(attention[1, 1:3], leftover_mass(theory, 2000)[1:], rtol=0.05)
    np.testing.assert_allclose(attention[1, 3:], 3 / (1.7**4 * 2000), rtol=0.05)


def test_blocks_of_one_size_have_no_winner() -> None:
    with pytest.raises(ValueError, match=r"two groups have the largest block.*strengths=\(2\.0, 1\.0\).*\(1, 4\)"):
        competitive_fixed_point(TensorFactorisation((2.0, 1.0), (1, 4)))


@pytest.mark.parametrize("theory", [TensorFactorisation((2.0, 1.0), (1, 3)), TensorFactorisation(flow="logit")])
def test_leftover_attention_is_refused_where_it_was_not_derived(theory: TensorFactorisation) -> None:
    with pytest.raises(ValueError, match="natural flow with groups of one position"):
        leftover_mass(theory, 100.0)
