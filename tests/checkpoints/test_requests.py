"""A training is asked for further checkpoints by a file in its folder."""

from pathlib import Path

import pytest

from stagewise.checkpoints._requests import REQUESTED, request, requested


def test_a_request_is_added_to_those_before(tmp_path: Path) -> None:
    assert requested(tmp_path) == frozenset()
    request(tmp_path, (7, 4))
    request(tmp_path, range(6, 9))
    assert requested(tmp_path) == {4, 6, 7, 8}


@pytest.mark.parametrize("text", ['{"steps": [4, "5"]}', '{"steps": 4}', "{}"])
def test_a_file_without_steps_is_refused_with_what_to_do(text: str, tmp_path: Path) -> None:
    (tmp_path / REQUESTED).write_text(text, encoding="utf8")
    with pytest.raises(ValueError, match=r"requested.json holds no list of `steps`: delete it, and train on"):
        requested(tmp_path)
