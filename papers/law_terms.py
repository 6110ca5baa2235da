"""The terms of a law over the columns of a sweep: read from its formula, evaluated, and checked to decide it."""

import ast
import operator
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

OPERATIONS: dict[type[ast.AST], Callable[..., Any]] = {
    **{ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv},
    **{ast.Pow: operator.pow, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod},
    **{ast.UAdd: operator.pos, ast.USub: operator.neg},
}
FUNCTIONS: dict[str, Callable[..., Any]] = {"sqrt": np.sqrt, "exp": np.exp, "log": np.log, "abs": np.abs}
"""Functions that a term may have, beside columns and numbers."""

FLAT = 1e-9
"""Smallest singular value, relative to the largest, of columns whose exponents can be identified."""

QUOTED = "column_%d_"
"""Name of a column that stands between backticks, as one with a space in it has to."""


@runtime_checkable
class Columns(Protocol):
    """Columns by their name, as a mapping of arrays or a frame has them: iterating over it gives the names."""

    def __iter__(self) -> Any: ...

    def __contains__(self, name: Any) -> bool: ...

    def __getitem__(self, name: Any) -> Any: ...


class NoLaw(ValueError):  # noqa: N818 - a finding about the runs, and the message of a refused fit
    """Why runs do not decide a law: all are censored, too few are not, or a term does not vary over them."""


def terms_of(law: str) -> tuple[str, ...]:
    """Split a formula into its terms."""
    terms = tuple(term.strip() for term in law.split(","))
    if not all(terms):
        raise ValueError(f'a law is terms separated by commas, such as "T / B, d"; got {law!r}')
    return terms


def design_of(runs: Columns, terms: Sequence[str]) -> np.ndarray:
    """Return the logarithm of each term for every run, after a column of ones: [run, 1 + term]."""
    number = next((len(runs[name]) for name in runs), 0)
    columns = [np.ones(number)]
    for term in terms:
        try:
            values = np.broadcast_to(np.asarray(_evaluated(term, runs), float), number)
        except (KeyError, SyntaxError, TypeError, ValueError) as reason:
            raise ValueError(
                f"{term!r} is no expression over {', '.join(map(str, runs))} with numbers for values (powers are "
                f"written **): {reason}"
            ) from reason
        columns.append(np.log(positive(values, term)))
    return np.stack(columns, 1)


def _evaluated(term: str, runs: Columns) -> Any:
    """Return an expression over columns: numbers, names (in backticks where they are no identifiers), arithmetic."""
    parts = term.split("`")
    quoted = {QUOTED % i: parts[i] for i in range(1, len(parts), 2)}
    text = "".join(QUOTED % i if i % 2 else part for i, part in enumerate(parts))

    def value(node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=int() | float() as number):
                return float(number)
            case ast.Name(id=name):
                return column(runs, quoted.get(name, name))
            case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATIONS:
                return OPERATIONS[type(op)](value(left), value(right))
            case ast.UnaryOp(op=op, operand=operand) if type(op) in OPERATIONS:
                return OPERATIONS[type(op)](value(operand))
            case ast.Call(func=ast.Name(id=name), args=[argument], keywords=[]) if name in FUNCTIONS:
                return FUNCTIONS[name](value(argument))
        raise ValueError(f"{ast.unparse(node)} is no arithmetic")

    with np.errstate(divide="ignore", invalid="ignore"):
        return value(ast.parse(text.strip(), mode="eval").body)


def decided(design: np.ndarray, terms: Sequence[str]) -> np.ndarray:
    """Return the design [run, 1 + term] of runs whose times are known, if they decide the law."""
    if len(design) <= design.shape[1]:
        raise NoLaw(
            f"a law of {', '.join(terms)} has {design.shape[1]} numbers to fit: {len(design)} runs with a known time "
            "do not decide them"
        )
    sizes = np.linalg.svd(design, compute_uv=False)
    if sizes[-1] < FLAT * sizes[0]:
        raise NoLaw(
            f"{', '.join(terms)}: over the {len(design)} runs with a known time a term does not vary, or varies only "
            "with the others; leave one out"
        )
    return design


def column(runs: Columns, name: str) -> np.ndarray:
    """Return a column of a sweep as numbers."""
    return np.asarray(_entries(runs, name), float)


def settings_of(runs: Columns, name: str) -> np.ndarray:
    """Return the setting of each run as a number from 0 on, in the order in which they come."""
    column, numbers = _entries(runs, name), dict[Hashable, int]()
    values = column.tolist() if hasattr(column, "tolist") else list(column)
    for row, one in enumerate(values):
        if one is None or (one == one) is not True:  # not a number, or pandas' NA
            raise ValueError(f"each run needs a setting: {name} is missing in row {row}")
        numbers.setdefault(one, len(numbers))
    return np.array([numbers[one] for one in values], int)


def _entries(runs: Columns, name: str) -> Any:
    if name not in runs:
        raise ValueError(f"the runs have no column {name!r}; they have {', '.join(map(str, runs))}")
    return runs[name]


def positive(values: np.ndarray, name: str) -> np.ndarray:
    """Return the values, all of which have a logarithm."""
    if not (np.isfinite(values) & (values > 0)).all():
        wrong = values[~(np.isfinite(values) & (values > 0))][0]
        raise ValueError(f"a power law needs positive, finite numbers: {name} has {wrong}")
    return values
