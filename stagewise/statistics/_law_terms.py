"""The terms of a law over the columns of a sweep: read from its formula, evaluated, and checked to decide it."""

from collections.abc import Sequence
from tokenize import TokenError

import numpy as np
import pandas as pd

FLAT = 1e-9
"""Smallest singular value, relative to the largest, of columns whose exponents can be identified."""

NO_EXPRESSION = (AttributeError, NameError, NotImplementedError, SyntaxError, TokenError, TypeError, ValueError)
"""What pandas raises for a formula that it cannot read, or that has no number for every run."""


class NoLaw(ValueError):  # noqa: N818 - a finding about the runs, and the message of a refused fit
    """Why runs do not decide a law: all are censored, too few are not, or a term does not vary over them."""


def terms_of(law: str) -> tuple[str, ...]:
    """Split a formula into its terms.

    Raises:
        ValueError: a term is empty.

    >>> terms_of("T / B, d")
    ('T / B', 'd')
    """
    terms = tuple(term.strip() for term in law.split(","))
    if not all(terms):
        raise ValueError(f'a law is terms separated by commas, such as "T / B, d"; got {law!r}')
    return terms


def design_of(runs: pd.DataFrame, terms: Sequence[str]) -> np.ndarray:
    """Return the logarithm of each term for every run, after a column of ones: [run, 1 + term].

    Raises:
        ValueError: a term is no expression over the columns, or is not positive.
    """
    columns = [np.ones(len(runs))]
    for term in terms:
        try:
            values = np.broadcast_to(np.asarray(runs.eval(term), dtype=float), len(runs))
        except NO_EXPRESSION as reason:
            raise ValueError(
                f"{term!r} is no expression over {', '.join(map(str, runs))} with numbers for values (powers are "
                f"written **): {reason}"
            ) from reason
        columns.append(np.log(positive(values, term)))
    return np.stack(columns, 1)


def decided_design(runs: pd.DataFrame, terms: Sequence[str]) -> np.ndarray:
    """Return the design of runs whose times are known, if they decide the law.

    Raises:
        NoLaw: they are too few, or a term does not vary over them.
    """
    design = design_of(runs, terms)
    if len(runs) <= design.shape[1]:
        raise NoLaw(
            f"a law of {', '.join(terms)} has {design.shape[1]} numbers to fit: {len(runs)} runs with a known time do "
            "not decide them"
        )
    sizes = np.linalg.svd(design, compute_uv=False)
    if sizes[-1] < FLAT * sizes[0]:
        raise NoLaw(
            f"{', '.join(terms)}: over the {len(runs)} runs with a known time a term does not vary, or varies only "
            "with the others; leave one out"
        )
    return design


def column(runs: pd.DataFrame, name: str) -> np.ndarray:
    """Return a column of a sweep as numbers.

    Raises:
        ValueError: there is no such column.
    """
    if name not in runs:
        raise ValueError(f"the runs have no column {name!r}; they have {', '.join(map(str, runs))}")
    return runs[name].to_numpy(float)


def settings_of(runs: pd.DataFrame, name: str) -> np.ndarray:
    """Return the setting of each run as a number from 0 on, in the order in which they come.

    Raises:
        ValueError: there is no such column, or a run has no setting.
    """
    if name not in runs:
        raise ValueError(f"the runs have no column {name!r}; they have {', '.join(map(str, runs))}")
    groups: np.ndarray = pd.factorize(runs[name])[0]
    if (groups < 0).any():
        raise ValueError(f"each run needs a setting: {name} is missing in row {int(np.argmax(groups < 0))}")
    return groups


def positive(values: np.ndarray, name: str) -> np.ndarray:
    """Return the values, all of which have a logarithm.

    Raises:
        ValueError: one is not positive and finite.
    """
    if not (np.isfinite(values) & (values > 0)).all():
        wrong = values[~(np.isfinite(values) & (values > 0))][0]
        raise ValueError(f"a power law needs positive, finite numbers: {name} has {wrong}")
    return values
