"""How alike two representations of the same inputs are, and two subspaces: linear CKA and principal angles."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.linalg import subspace_angles
from scipy.stats import norm
from torch import Tensor

from stagewise.statistics import LEVEL

_FEWEST = 4
"""Vectors that the estimate without bias needs."""

_ROUNDING = 1e-12
"""HSIC, over the square of the mean squared norm, that rounding leaves of vectors that do not vary."""


class _Estimate(NamedTuple):
    """A value and its 95 % interval; None where there is only one group of vectors."""

    value: float
    lo: float | None = None
    hi: float | None = None


def linear_cka(
    x: Float[Tensor, "vector d"], y: Float[Tensor, "vector e"], group: Int[Tensor, " vector"]
) -> _Estimate | None:
    """Return the linear centred kernel alignment of two representations of the same inputs, in [-1, 1].

        CKA = HSIC(x, y) / sqrt(HSIC(x, x) HSIC(y, y))

    1 for representations that are equal up to rotation, scale and shift; 0 in expectation for independent ones, since
    HSIC is estimated without bias. The interval is a jackknife over groups of vectors that are not independent, as
    those of a sequence. None where one of them does not vary, or with fewer than four vectors.

    Source: Kornblith et al. (2019), Similarity of Neural Network Representations Revisited, arXiv:1905.00414, section
    3; Song et al. (2012), Feature Selection via Dependence Maximization, JMLR 13, equation 5, for HSIC without bias.
    """
    if len(x) < _FEWEST:
        return None
    x, y = (each.double() - each.double().mean(0) for each in (x, y))
    by_group = [_products(*pair, group) for pair in ((x, y), (x, x), (y, y))]
    value = float(_alignment([products.sum(0, keepdim=True) for products in by_group])[0])
    if not np.isfinite(value):
        return None
    others = _alignment([products.sum(0) - products for products in by_group])
    n = len(others)
    if n < 2 or not np.isfinite(others).all():
        return _Estimate(value)
    margin = norm.ppf((1 + LEVEL) / 2) * np.sqrt((n - 1) * others.var())
    return _Estimate(value, float(max(value - margin, -1)), float(min(value + margin, 1)))


def _products(x: Tensor, y: Tensor, group: Tensor) -> Float[Tensor, "group row column"]:
    """Return the sums over each group that HSIC is made of: products of (x, |x|^2, 1) and (y, |y|^2, 1)."""
    rows, columns = (torch.cat([z, z.square().sum(-1, keepdim=True), torch.ones_like(z[:, :1])], -1) for z in (x, y))
    return torch.stack([rows[group == one].mT @ columns[group == one] for one in range(int(group.max()) + 1)])


def _alignment(products: Sequence[Float[Tensor, "group _ _"]]) -> np.ndarray:
    """Return CKA from the sums of (x, y), (x, x) and (y, y); nan where one does not vary, or of too few vectors."""
    cross, of_x, of_y = (_hsic(each).numpy(force=True) for each in products)
    n = products[0][:, -1, -1].numpy(force=True)
    varies = (n >= _FEWEST) & (of_x > _least(products[1])) & (of_y > _least(products[2]))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(varies, (cross / np.sqrt(of_x * of_y)).clip(-1, 1), np.nan)


def _hsic(products: Float[Tensor, "group row column"]) -> Float[Tensor, " group"]:
    """Return the Hilbert-Schmidt independence criterion of linear kernels, estimated without bias."""
    cross, n = products[:, :-2, :-2], products[:, -1, -1]
    sum_x, sum_y = products[:, :-2, -1], products[:, -1, :-2]
    x_by_size, y_by_size = products[:, :-2, -2], products[:, -2, :-2]  # sums of x |y|^2 and of y |x|^2
    sizes, size_x, size_y = products[:, -2, -2], products[:, -2, -1], products[:, -1, -2]
    trace = cross.square().sum((-2, -1)) - sizes
    totals = (sum_x.square().sum(-1) - size_x) * (sum_y.square().sum(-1) - size_y)
    through = torch.einsum("gd,gde,ge->g", sum_x, cross, sum_y)
    of_rows = through - (sum_x * x_by_size).sum(-1) - (sum_y * y_by_size).sum(-1) + sizes
    return (trace + totals / ((n - 1) * (n - 2)) - 2 * of_rows / (n - 2)) / (n * (n - 3))


def _least(products: Float[Tensor, "group row column"]) -> np.ndarray:
    """Return the HSIC that rounding leaves of vectors that do not vary."""
    least: np.ndarray = (_ROUNDING * (products[:, -2, -1] / products[:, -1, -1]).square()).numpy(force=True)
    return least


def principal_angles(one: Float[np.ndarray, "d m"], other: Float[np.ndarray, "d n"]) -> np.ndarray:
    """Return the principal angles of two subspaces in degrees, largest first: the columns are bases of them.

    Source: Björck & Golub (1973), Numerical Methods for Computing Angles Between Linear Subspaces.
    """
    angles: np.ndarray = np.rad2deg(subspace_angles(one, other))
    return angles
