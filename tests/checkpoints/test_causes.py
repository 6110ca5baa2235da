"""What was done to a run: jumps of its learning rate are named, schedules that change steadily are not."""

import json
from pathlib import Path

from stagewise.checkpoints import run_folder
from stagewise.checkpoints._causes import causes_of


def test_a_run_folder_names_its_cool_down_and_a_trainers_series_its_jumps(tmp_path: Path) -> None:
    assert causes_of(tmp_path) == {}
    record = {"format": run_folder.FORMAT, "recipe": {"plan": {"steps": 50, "cooldown": 10, "warmup": 5}}}
    (tmp_path / run_folder.RUN).write_text(json.dumps(record), encoding="utf8")
    assert causes_of(tmp_path) == {"the learning rate's warm-up": (0, 5), "the learning rate's cool-down": 40}
    (tmp_path / run_folder.RUN).unlink()
    causes = {"the learning rate's warm-up": (0, 3), "the learning rate's drop to 0.1": 7}
    record = {"format": run_folder.FORMAT, "recipe": {}, "causes": causes}
    (tmp_path / run_folder.ANALYSIS).write_text(json.dumps(record), encoding="utf8")
    assert causes_of(tmp_path) == causes
