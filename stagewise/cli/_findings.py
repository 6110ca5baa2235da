"""`stagewise stages`, `lineage` and `compare`: what the tables of measured runs or sources show."""

import json
from collections.abc import Sequence
from typing import Annotated, Any

import typer

import stagewise
from stagewise import checkpoints, findings, reporting, words
from stagewise.cli._options import AsJson, Axis, Causes, Origin, StepsColumn, TokensPerStep, read_causes
from stagewise.cli._sources import each_run, measured_folder, name_causes_of
from stagewise.processes import cores, readers


def stages(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="SOURCE...", help="a measured source, as for the other commands; several seeds are compared"
        ),
    ],
    steps: StepsColumn = None,
    cause: Causes = None,
    axis: Axis = "steps",
    tokens_per_step: TokensPerStep = None,
    as_json: AsJson = False,
) -> None:
    """Print the stages of a measured source; of seeds, what recurs."""
    causes, sources = read_causes(cause), each_run(sources, steps=steps)
    name_causes_of([measured_folder(source) for source in sources] if causes else [], causes)
    if len(sources) > 1:
        _stages_of_seeds(sources, as_json, axis, tokens_per_step)
        return
    from stagewise.saved_findings import familiarity_in

    folder = measured_folder(sources[0])
    file = checkpoints.table_file(folder)
    times = reporting.axis_in(folder, axis, tokens_per_step)
    with readers(cores(), len(file)) as executor:
        run_stages = stagewise.load_stages(folder, executor=executor)
    run_stages = run_stages if run_stages is None or times is None else run_stages.counted(times)
    if not as_json and (ends := checkpoints.unfinished(folder)):
        print(f"{ends}: what comes later is not seen")
    if not as_json and (lacking := checkpoints.unmeasured_in_words(folder)):
        print(lacking)
    show(run_stages, as_json, next(iter(file.outline["run"]), ""), familiarity_in(folder))


def _stages_of_seeds(sources: Sequence[str], as_json: bool, axis: str, tokens_per_step: int | None) -> None:
    seeds = reporting.read_runs([measured_folder(source) for source in sources], axis, tokens_per_step)
    replicates, _ = reporting.over_seeds(seeds)
    if not as_json:
        print(reporting.seeds_in_words(seeds.stages, replicates, seeds.familiarities))
        return
    each = [as_data(*run) for run in zip(seeds.stages, seeds.names, seeds.familiarities, strict=True)]
    over: dict[str, Any] = {name: records(getattr(replicates, name)) for name in findings.replicates.FRAMES}
    names = words.event_names(replicates.catalogue, replicates.quantities)
    over["catalogue"] = [event.plain | {"words": name} for event, name in zip(replicates.catalogue, names, strict=True)]
    print(json.dumps({"seeds": each, "over_seeds": over}, indent=2))


def compare(first: Origin, second: Origin, axis: Axis = "steps", tokens_per_step: TokensPerStep = None) -> None:
    """Print what differs between the recipes of two measured runs, and what happened when, heads by role."""
    folders = measured_folder(first), measured_folder(second)
    print(stagewise.compare(*folders, axis=axis, tokens_per_step=tokens_per_step))


def show(stages: "stagewise.Stages | None", as_json: bool, run: str = "", familiarity: Any = None) -> None:
    """Print stages in words, or as JSON, with what is known of the probe batch; None where the table can show none."""
    told = words.stages.NO_STAGES if stages is None else str(stages)
    print(json.dumps(as_data(stages, run, familiarity), indent=2) if as_json else words.warned(told, familiarity))


def as_data(stages: "stagewise.Stages | None", run: str = "", familiarity: Any = None) -> dict[str, Any]:
    """Return stages as plain data, a list of rows a frame."""
    frames = {name: [] if stages is None else records(getattr(stages, name)) for name in findings.stages.FRAMES}
    batch = None if familiarity is None else familiarity.plain
    told = [] if stages is None else str(stages).splitlines()
    return {"run": run if stages is None else stages.run, "probe_batch": batch, **frames, "words": told}


def records(frame: Any) -> list[dict[str, Any]]:
    """Return the rows of a frame as plain data; what is missing or infinite is null."""
    rows: list[dict[str, Any]] = json.loads(frame.to_json(orient="records"))
    return rows
