"""What is left is said in time, and with the probes whose edited passes take most of it."""

import pytest

from stagewise.architecture import Architecture
from stagewise.measurement._forecast import Cost, forecast
from stagewise.probes import HeadAblation, Loss, RestrictedContextKL

SIZES = Architecture({"n_layers": 12, "d_model": 8, "n_heads": 12, "d_head": 4, "n_ctx": 24, "d_vocab": 32})
PROBES = [Loss(), RestrictedContextKL((1, 2, 4)), HeadAblation(kinds=("mean",))]


def said(loss: float, contexts: float, ablation: float, left: int = 60, workers: int = 1) -> str | None:
    of_probes = {"Loss": loss, "RestrictedContextKL": contexts, "HeadAblation": ablation}
    return forecast(Cost(10.0, of_probes), left, workers, PROBES, SIZES)


def test_less_than_a_minute_is_not_worth_a_line() -> None:
    assert said(1, 1, 8, left=5) is None
    assert said(1, 1, 8, left=6) is not None
    assert said(1, 1, 8, left=6, workers=2) is None


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        ((1, 1, 8), "10 min, of which HeadAblation's 144 edits 80 %: `--without HeadAblation` leaves them out"),
        ((1, 5, 3), "RestrictedContextKL's 3 edits 50 % and HeadAblation's 144 edits 30 %: `--without RestrictedCont"),
        ((9, 0, 1), "the other 60 checkpoints take about 10 min"),
    ],
)
def test_the_probes_whose_edits_take_much_are_named(seconds: tuple[float, float, float], expected: str) -> None:
    line = said(*seconds)
    assert line is not None
    assert expected in line
    assert ("of which" in line) == (seconds[0] < 9)


def test_workers_share_the_time() -> None:
    line = said(1, 1, 8, workers=2)
    assert line is not None
    assert "about 5 min" in line
