"""`stagewise stages` and `stagewise lineage`: what the table of a measured run or source shows."""

import json
import sys

from stagewise.cli.options import AsJson, Origin, reported_errors, show
from stagewise.cli.places import measured_folder


def stages(source: Origin, as_json: AsJson = False) -> None:
    """Find the stages in the table of a measured run or source and print them."""
    with reported_errors():
        from stagewise.checkpoints.run_folder import ANALYSIS, read_record, table_file
        from stagewise.detection.home import home_of_run
        from stagewise.detection.stages import stages_of

        folder = measured_folder(source)
        file = table_file(folder)
        record = read_record(folder) if (folder / ANALYSIS).exists() else {}
        home = home_of_run(record, file.read(["Loss.cross_entropy"]))
        if home is not None and home.foreign:
            print(home, file=sys.stderr if as_json else sys.stdout)
        show(stages_of(folder), as_json, next(iter(file.outline["run"]), ""))


def lineage(source: Origin, as_json: AsJson = False) -> None:
    """Follow the kinds of attention in the table of a measured run or source, and print how they come and go."""
    with reported_errors():
        from stagewise.detection.lineage import lineage_of

        found = lineage_of(measured_folder(source))
        if as_json:
            print(json.dumps({"run": None} if found is None else found.plain, indent=2))
        else:
            print("no lineage: no patterns of heads were measured (PatternClusters)" if found is None else found)
