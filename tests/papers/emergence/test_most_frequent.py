"""Sequences that part recall from the most frequent value, and how often that value is right in training."""

from pathlib import Path

import pytest

from stagewise.papers.emergence import _most_frequent as values
from stagewise.papers.emergence._grids import FigureRequest, axes_of
from stagewise.papers.emergence._most_frequent import contested, figure_values, heuristic_accuracy
from stagewise.papers.tasks import AssociativeRecall

pytestmark = pytest.mark.usefixtures("unchecked")

TASK = AssociativeRecall(n_pairs=6, n_tokens=16, n_copies=3.0)


def test_the_query_stands_once_and_another_value_more_often() -> None:
    most, right = contested(TASK, 200, seed=0)
    assert len(most) > 100
    for row, frequent, answer in zip(most.tokens.tolist(), most.targets.tolist(), right.targets.tolist(), strict=True):
        pairs = list(zip(row[:-1:2], row[1::2], strict=True))
        assert [value for key, value in pairs if key == row[-1]] == [answer[-1]]
        stands = [value for _, value in pairs]
        assert stands.count(frequent[-1]) == max(map(stands.count, stands)) >= 2
        assert frequent[-1] != answer[-1]


def test_without_copies_the_heuristic_is_a_guess_among_the_pairs() -> None:
    alone = AssociativeRecall(n_pairs=6, n_tokens=16)
    assert heuristic_accuracy(alone, 50, seed=0) == pytest.approx(1 / 6)


def test_with_copies_it_is_right_unless_there_is_only_one() -> None:
    once = (1 - 2 / 5) ** 5
    assert heuristic_accuracy(TASK, 4000, seed=0) == pytest.approx(1 - once * 5 / 6, abs=0.02)


def test_a_model_that_has_not_learned_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"N_pairs": (4,), "N_tokens": (8,), "B": (2,), "seed": (0,)}
    request = FigureRequest(tmp_path, "small", axes_of("values", "small", given), budget=50, workers=1, progress=False)
    with pytest.raises(ValueError, match=r"does not reach an accuracy of 0\.9 in training: raise the budget"):
        figure_values(request)
    monkeypatch.setattr(values, "LEARNED", 0.0)
    numbers = figure_values(request).numbers
    assert numbers["quantity"].str.startswith("B = 2, at training's accuracy .9").all()
    assert len(numbers) == 4
