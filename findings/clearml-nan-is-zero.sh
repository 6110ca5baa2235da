#!/usr/bin/env bash
# ClearML 2.1.12 in offline mode writes 0.0 where a nan or an infinity was reported, and -2147483648 as a single value's step.
# Guess: metrics.jsonl keeps nan as NaN or null, and a value without a step has none.
# Seen: value 0.0 for both. The single value is one more scalar at "iter" -2147483648. Each line is a list of events.
# Met by: who reads the file as a log: a run that diverged ends with the loss 0, and its first step is -2147483648.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
constraints=$(cd "$(dirname "$0")/.." && pwd)/constraints.txt
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --constraint "$constraints" clearml==2.1.12
cd "$work"
"$work/venv/bin/python" - <<'EOF'
import json
import os
import sys
from importlib.metadata import version
from pathlib import Path

os.environ["CLEARML_CACHE_DIR"] = str(Path.cwd() / "cache")
from clearml import Task

EXPECTED = {"nan": (3, 0.0), "inf": (4, 0.0), "single": (-2147483648, 0.5)}

Task.set_offline(True)
task = Task.init(
    "project", "run", auto_connect_frameworks=False, auto_connect_arg_parser=False, auto_resource_monitoring=False
)
logger = task.get_logger()
for step in range(3):
    logger.report_scalar("loss", "plain", 1.0 - step / 10, step)
logger.report_scalar("loss", "nan", float("nan"), 3)
logger.report_scalar("loss", "inf", float("inf"), 4)
logger.report_single_value("single", 0.5)
folder = Path(task.get_offline_mode_folder())
task.close()

lines = (folder / "metrics.jsonl").read_text().splitlines()
events = [event for line in lines if line for event in json.loads(line)]
seen = {event["variant"]: (event["iter"], event["value"]) for event in events if event["variant"] in EXPECTED}
print(f"clearml {version('clearml')}: name -> (iter, value)\nexpected {EXPECTED}\nseen     {seen}")
sys.exit(seen != EXPECTED)
EOF
