"""A batch that the models were not trained on is told by their loss on it."""

import math
from typing import ClassVar

import pandas as pd
import pytest

from stagewise.findings.batch_familiarity import Familiarity, familiarity_of, familiarity_of_run
from stagewise.probe import AbstractProbe
from stagewise.table import Quantity, declare
from stagewise.words import qualified, warned


def losses(*values: float) -> pd.DataFrame:
    return pd.DataFrame({"probe": "Loss", "quantity": "cross_entropy", "step": range(len(values)), "value": values})


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ((4.2, 3.0, 1.9), Familiarity.HOME),
        ((4.2, 4.3, 9.4), Familiarity.GUESSED),
        ((4.2, 4.16), Familiarity.GUESSED),
        ((3.0, 2.0, 3.5), Familiarity.RISES),
        ((4.2, float("nan")), Familiarity.GUESSED),
    ],
)
def test_a_batch_is_foreign_where_the_loss_is_a_guess_or_rises(values: tuple[float, ...], verdict: Familiarity) -> None:
    familiarity = familiarity_of(losses(*values), d_vocab=64)
    assert familiarity is not None
    assert (familiarity.verdict, familiarity.foreign) == (verdict, verdict is not Familiarity.HOME)
    assert familiarity.guess == pytest.approx(math.log(64))
    assert ("foreign" in str(familiarity), "--tokens FILE" in str(familiarity)) == (
        familiarity.foreign,
        familiarity.foreign,
    )


@pytest.mark.parametrize(("last", "words"), [(4.1, "hardly better than a guess (loss 4.10"), (9.4, "no better than a")])
def test_a_loss_below_a_guess_is_not_called_no_better(last: float, words: str) -> None:
    assert words in str(familiarity_of(losses(4.2, last), d_vocab=64))


def test_only_checkpoints_from_elsewhere_are_judged() -> None:
    recipe = {"architecture": {"config": {"d_vocab": 64}}}
    familiarity = familiarity_of_run({"recipe": recipe, "series": {}}, losses(4.2, 9.0))
    assert familiarity is not None
    assert familiarity.foreign
    assert familiarity_of_run({"recipe": recipe}, losses(4.2, 9.0)) is None
    of_heads = losses(0.1, 0.9).assign(probe="AttentionTo", quantity="mass")
    unknown = familiarity_of_run({"recipe": recipe, "series": {}}, of_heads)
    assert unknown is not None
    assert (unknown.foreign, unknown.unknown, unknown.plain["foreign"], unknown.plain["last"]) == (
        False,
        True,
        None,
        None,
    )
    assert warned("L0H0 rises", unknown) == f"{unknown}\nL0H0 rises"
    assert "is not known: no loss was measured" in str(unknown)
    regression = losses(4.2, 9.0).assign(quantity="squared_error")
    assert familiarity_of_run({"recipe": recipe, "series": {}}, regression) is None


class OwnLoss(AbstractProbe):
    """A loss of one's own, as a task may need, under its own name."""

    quantities: ClassVar = {"bits_spent": Quantity("bits spent", "nats", progress="down", role="loss")}


@pytest.mark.parametrize("values", [(4.2, 1.9), (4.2, 4.3), (3.0, 3.5)])
def test_a_loss_of_ones_own_that_declares_the_role_is_judged_like_the_librarys(values: tuple[float, ...]) -> None:
    own = losses(*values).assign(probe="OwnLoss", quantity="bits_spent")
    assert familiarity_of(own, d_vocab=64) is None
    declare(own, {"OwnLoss": OwnLoss.quantities})
    assert familiarity_of(own, d_vocab=64) == familiarity_of(losses(*values), d_vocab=64) is not None


def test_findings_at_home_stand_as_they_are() -> None:
    familiarity = familiarity_of(losses(4.2, 1.0), d_vocab=64)
    assert (
        qualified("L0H0 rises", familiarity)
        == warned("L0H0 rises", familiarity)
        == qualified("L0H0 rises", None)
        == "L0H0 rises"
    )
