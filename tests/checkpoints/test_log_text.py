"""The text of a log, however it is encoded and coloured."""

from pathlib import Path

import pytest

from stagewise.checkpoints._log_text import text_of

LINE = "step 10: loss 2.5 \u2014 \u00e9pisode\n"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_text_is_read_as_it_was_written(encoding: str, tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_bytes(LINE.encode(encoding))
    assert text_of(path) == LINE


def test_what_a_terminal_is_told_between_the_letters_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_text("\x1b[32mstep 10\x1b[0m: loss \x1b[1;31m2.5\x1b[K\n")
    assert text_of(path) == "step 10: loss 2.5\n"


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.log"
    path.write_bytes(b"\x80\x02\x00\x00torch")
    with pytest.raises(ValueError, match=r"model.log is no text: save its columns"):
        text_of(path)
