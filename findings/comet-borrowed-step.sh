#!/usr/bin/env bash
# Comet 3.58.8 gives a metric that is logged without a step the step that any other metric was last logged with.
# Guess: without step= the message has no step, or a count of its own for each name.
# Seen: None until some metric has a step; from then on that one's, even when it went backwards.
# Met by: who logs a validation loss without step= and reads the offline archive: its steps are those of the line before.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
constraints=$(cd "$(dirname "$0")/.." && pwd)/constraints.txt
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --constraint "$constraints" comet-ml==3.58.8
cd "$work"
"$work/venv/bin/python" - <<'EOF'
import json
import os
import sys
import zipfile
from pathlib import Path

os.environ["COMET_LOGGING_CONSOLE"] = "ERROR"
import comet_ml

EXPECTED = {"before": None, "after": 20, "backwards": 10}

experiment = comet_ml.OfflineExperiment(
    project_name="project", offline_directory="archive", log_code=False, log_graph=False, log_env_details=False,
    auto_param_logging=False, auto_metric_logging=False, parse_args=False, display_summary_level=0,
)
experiment.log_metric("before", 1.0)
experiment.log_metric("loss", 1.0, step=20)
experiment.log_metric("after", 1.0)
experiment.log_metric("loss", 1.0, step=10)
experiment.log_metric("backwards", 1.0)
experiment.end()

(archive,) = Path("archive").glob("*.zip")
messages = zipfile.ZipFile(archive).read("messages.json").decode().splitlines()
metrics = [each["payload"]["metric"] for each in map(json.loads, messages) if "metric" in each["payload"]]
seen = {each["metricName"]: each["step"] for each in metrics if each["metricName"] in EXPECTED}
print(f"comet_ml {comet_ml.__version__}\nexpected {EXPECTED}\nseen     {seen}")
sys.exit(seen != EXPECTED)
EOF
