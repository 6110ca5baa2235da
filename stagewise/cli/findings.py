"""`stagewise stages`, `lineage` and `compare`: what the tables of measured runs or sources show."""

import json
from collections.abc import Sequence
from typing import Any

from stagewise.cli.options import AsJson, Origin, Out, Seeds, StepsColumn, as_data, records, reported_errors, show
from stagewise.cli.places import each_run, measured_folder


def stages(sources: Seeds, steps: StepsColumn = None, as_json: AsJson = False) -> None:
    """Find the stages in the table of a measured run or source and print them; of several seeds, also what recurs."""
    with reported_errors():
        sources = each_run(sources, steps=steps)
        if len(sources) > 1:
            _stages_of_seeds(sources, as_json)
            return
        from stagewise.checkpoints.run_folder import table_file, unfinished
        from stagewise.findings.home import home_in
        from stagewise.findings.stages import stages_of
        from stagewise.processes import cores, readers

        folder = measured_folder(sources[0])
        file = table_file(folder)
        with readers(cores(), len(file)) as executor:
            found = stages_of(folder, executor=executor)
        if not as_json and (ends := unfinished(folder)):
            print(f"{ends}: what comes later is not seen")
        show(found, as_json, next(iter(file.outline["run"]), ""), home_in(folder))


def _stages_of_seeds(sources: Sequence[str], as_json: bool) -> None:
    from stagewise.findings.replicates import FRAMES
    from stagewise.reporting.several import over_seeds, read_several, seeds_in_words

    seeds = read_several([measured_folder(source) for source in sources])
    replicates, _ = over_seeds(seeds)
    if not as_json:
        print(seeds_in_words(seeds.stages, replicates, seeds.homes))
        return
    each = [as_data(one, home=home) for one, home in zip(seeds.stages, seeds.homes, strict=True)]
    over: dict[str, Any] = {name: records(getattr(replicates, name)) for name in FRAMES}
    named = zip(replicates.catalogue, replicates.names, strict=True)
    over["catalogue"] = [{**event.plain, "words": name} for event, name in named]
    print(json.dumps({"seeds": each, "over_seeds": over}, indent=2))


def lineage(source: Origin, as_json: AsJson = False) -> None:
    """Follow the kinds of attention in the table of a measured run or source, and print how they change."""
    with reported_errors():
        from stagewise.findings.home import home_in, warned
        from stagewise.findings.lineage import lineage_of

        folder = measured_folder(source)
        found, home = lineage_of(folder), home_in(folder)
        if as_json:
            data = {"run": None} if found is None else found.plain
            print(json.dumps({**data, "probe_batch": None if home is None else home.plain}, indent=2))
        else:
            unknown = "no lineage: no patterns of heads were measured (PatternClusters)"
            print(unknown if found is None else warned(str(found), home))


def compare(first: Origin, second: Origin, out: Out = None) -> None:
    """Write one page on two measured runs: what differs between their recipes, what happened when, heads by role."""
    with reported_errors():
        from stagewise.reporting.comparison import compare as compare_runs

        print(compare_runs(measured_folder(first), measured_folder(second), out))
