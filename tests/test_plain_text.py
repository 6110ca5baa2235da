"""Text of strangers is bounded and shown as the text it is."""

import io
import os
import re
import unicodedata

import pandas as pd
import pytest
from tqdm import tqdm

from stagewise.plain_text import NAME, PlainStream, file_part, plain_name, plain_names, shortened, visible

HOSTILE = ["a" * 10_000, "\x1b[2J\x07", "\u202egpj.exe", "\ud800", "\u2028", "<b>&\n\t", "\0", "é" * 10_000, "😀" * 300]
HOSTILE += ["z" + "\u0301" * 80, "e" + "\u20dd" * 9, "soft\u00adhyphen", "tag\U000e0041", "\u3164\u115f", "\ufff9a"]
HOSTILE += ["W" * 99, "אבג 123 עברית"]


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_every_name_is_one_line_without_control_characters_and_bounded(text: str) -> None:
    for shown in (plain_name(text), file_part(text)):
        assert len(shown) <= NAME
        assert visible(shown) == shown
        assert not re.search("[\u0300-\u036f\u20dd]{5}", shown)
        assert {unicodedata.category(letter) for letter in shown}.isdisjoint({"Cc", "Cf", "Cs", "Zl", "Zp"})
        assert shown.encode("utf8")
    assert len(os.fsencode(file_part(text))) < 120


def test_names_that_begin_alike_stay_apart() -> None:
    names = [f"{'a' * 9_999}{end}" for end in "bcd"]
    assert len({*map(plain_name, names)}) == len({*map(file_part, names)}) == 3
    assert len({*(plain_name(name, 40) for name in names)}) == 3


ORDINARY = ["loss", "val/loss (mean) -> 3.5", "größe", "損失", "הַפָּסְקָה", "u\u031b\u0300", "ที่นี้", "KL to I(2)"]


@pytest.mark.parametrize("name", [*ORDINARY, "a" * NAME])
def test_an_ordinary_name_stays_as_it_is(name: str) -> None:
    assert plain_name(name) == shortened(name) == name


def test_the_names_of_a_frame_are_made_plain_and_its_numbers_and_arrays_stay() -> None:
    frame = pd.DataFrame({"probe": ["a\x1b", None], "map": [[1.0], None], "value": [1.0, 2.0], "b" * 300: ["x", "y"]})
    frame["quantity"] = pd.Categorical(["q" * 300, "q"])
    plain = plain_names(frame.copy(), ("map",))
    assert plain["probe"].iloc[0] == "a\\u001b"
    assert [len(each) for each in plain["quantity"]] == [NAME, 1]
    assert max(map(len, plain.columns)) == NAME
    pd.testing.assert_frame_equal(plain[["map", "value"]], frame[["map", "value"]])


def test_nothing_written_to_a_terminal_moves_about_in_it_but_bars_do() -> None:
    stream = io.StringIO()
    print("a\x1b[2Jb\rc\nd\u202e", file=PlainStream(stream))
    assert stream.getvalue() == "a\\u001b[2Jb c\nd\\u202e\n"
    bars, plain = io.StringIO(), io.StringIO()
    for target in (bars, PlainStream(plain)):
        with tqdm(total=2, file=target, mininterval=0, ncols=40, bar_format="{desc}{bar}", desc="x") as bar:
            bar.update()
            bar.update()
    assert plain.getvalue() == bars.getvalue()
