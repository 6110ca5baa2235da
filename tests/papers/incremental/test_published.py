"""The published numbers name figures, variants and quantities that there are."""

from stagewise.papers.incremental._numbers import QUANTITIES
from stagewise.papers.incremental.published import HEADS, LEVELS, LOOKED_AT, PUBLISHED
from stagewise.papers.incremental.recipes import FIGURES, variants


def test_every_published_number_is_of_a_run_that_its_figure_shows() -> None:
    names = {**variants("small"), **variants("paper")}
    for figure, numbers in PUBLISHED.items():
        for variant, quantity in numbers:
            assert variant in names
            assert quantity in QUANTITIES
            shown = FIGURES[figure].variants
            assert any(variant == name or (name.endswith("=") and variant.startswith(name)) for name in shown)


def test_every_figure_that_trains_has_something_published() -> None:
    assert {*PUBLISHED, *HEADS} | {"heads", "blocks"} == FIGURES.keys()
    assert {*LEVELS, *LOOKED_AT} <= FIGURES.keys()
