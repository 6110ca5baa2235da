"""Maps of attention show the weights of the table in the heads' colours."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb

from stagewise import plot
from stagewise.plot.axes import head_colours
from stagewise.plot.maps import _blend


def texts(ax: Axes) -> list[str]:
    return [text.get_text() for text in ax.texts]


def test_a_pixel_is_the_product_of_the_heads_colours() -> None:
    weights = np.random.default_rng(0).random((3, 2, 2))
    colours = ["#0072B2", "#E69F00", "#009E73"]
    image = _blend(weights, colours)
    for query, key, channel in np.ndindex(2, 2, 3):
        expected = 1.0
        for weight, colour in zip(weights[:, query, key], colours, strict=True):
            expected *= (1 - weight) + weight * to_rgb(colour)[channel]
        assert image[query, key, channel] == pytest.approx(expected)


def test_an_attention_map_shows_the_step_asked_for_without_the_queries_left_out(table: pd.DataFrame) -> None:
    ax = plot.attention_map(table, 10, relations={"I(1)": np.eye(4, dtype=bool)}, first_query=1)
    rows_of_step = table[(table["probe"] == "MeanPattern") & (table["step"] == 10)]
    weights = np.stack(rows_of_step.sort_values("head")["map"].to_list()).reshape(2, 4, 4)
    shown = np.asarray(ax.images[0].get_array())
    assert np.allclose(shown, _blend(weights, list(head_colours(table).values()))[1:])
    assert texts(ax) == ["I(1)"]


@pytest.mark.parametrize(("size", "written"), [(4, ["first, self", "previous"]), (64, ["first, self, previous"])])
def test_names_that_would_lie_on_one_another_are_one(size: int, written: list[str]) -> None:
    maps = [np.tril(np.ones(size**2).reshape(size, size)).flatten()]
    rows = pd.DataFrame({"run": "run", "step": [0], "probe": "MeanPattern", "quantity": "attention", "map": maps})
    table = rows.assign(layer=0, head=0, value=np.nan)
    keys = np.arange(size)
    back = {
        "first": keys[None] == 0 * keys[:, None],
        "self": np.eye(size, dtype=bool),
        "previous": np.eye(size, k=-1) > 0,
    }
    assert texts(plot.attention_map(table, 0, relations=back)) == written
