"""A film of attention maps has a frame a checkpoint."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image, ImageSequence

from stagewise.plot import attention_film


@pytest.fixture
def maps() -> pd.DataFrame:
    cells = [np.eye(3).ravel() * step / 30 for step in (0, 10, 30)]
    rows = pd.DataFrame({"step": [0, 10, 30], "map": cells, "value": np.nan})
    return rows.assign(run="run", probe="MeanPattern", quantity="attention", layer=0, head=0)


def test_a_frame_a_checkpoint_and_the_last_one_stays(maps: pd.DataFrame, tmp_path: Path) -> None:
    with Image.open(attention_film(maps, tmp_path / "maps.gif", milliseconds=100)) as film:
        durations = []
        for frame in ImageSequence.Iterator(film):
            durations.append(frame.info["duration"])
    assert durations == [100, 100, 1500]


def test_another_format_is_refused(maps: pd.DataFrame, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"a film of attention maps is a \.gif, got maps\.mp4"):
        attention_film(maps, tmp_path / "maps.mp4")
