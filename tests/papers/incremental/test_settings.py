"""Released settings beside those of the recipes."""

import pytest

from stagewise.papers.incremental._settings import RELEASED, figure_settings, settings_of
from stagewise.papers.incremental.recipes import variants


def test_only_the_scale_of_the_initial_queries_is_another() -> None:
    numbers = figure_settings().numbers
    counts = numbers["quantity"].str.endswith("settings as released")
    assert numbers[counts]["remark"].tolist() == ["scale of W_Q", "", "", "", ""]
    table = numbers[~counts]
    other = table[table["published"].astype(float) != table["ours"].astype(float)]
    assert other["quantity"].tolist() == ["base: scale of W_Q"]
    assert len(table) == sum(map(len, RELEASED.values()))


@pytest.mark.parametrize("variant", RELEASED)
def test_every_setting_is_one_of_its_recipe(variant: str) -> None:
    assert {*RELEASED[variant]} <= {*settings_of(variants("paper")[variant])}


def test_the_ordinary_block_has_no_dropout() -> None:
    assert settings_of(variants("paper")["full"])["dropout"] == 0
