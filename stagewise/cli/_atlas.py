"""`stagewise series suites` and `atlas`: known public suites; one page on a family, several sizes and seeds."""

from pathlib import Path
from typing import Annotated

import typer

from stagewise.cli import _options as options
from stagewise.cli._sources import agree_to_measure, measure_each, opened_source
from stagewise.plain_text import file_part


def suites(as_json: options.AsJson = False) -> None:
    """List known public suites: their checkpoints, tokens a step, known faults, and where this is said."""
    import json

    from stagewise.checkpoints.suites import suites as known

    if as_json:
        print(json.dumps([suite._asdict() for suite in known()], indent=2))
        return
    for suite in known():
        tokens = f"; {suite.tokens_per_step:,} tokens a step" if suite.tokens_per_step else ""
        joined = f"; {' and '.join(filter(None, suite.join))} are one count" if suite.join else ""
        sizes = f" ({suite.sizes})" if suite.sizes else ""
        print(f"{suite.repositories}{sizes}\n  {suite.checkpoints}; seeds: {suite.seeds}{tokens}{joined}")
        print("\n".join(f"  {line}" for line in (suite.faults, suite.source) if line))
    print(
        "A checkpoint of 1B parameters has 2 GB in 16 bits, 4 GB in 32; `report` first says the size of its download."
    )


SIZE, SEED = "{size}", "{seed}"
"""Places in a name for the size of a model, and for its seed."""


def atlas(
    family: Annotated[
        str,
        typer.Argument(
            metavar="FAMILY",
            help="a known suite, as pythia, or the names of its models: owner/pythia-{size}-seed{seed}, runs/{size}",
        ),
    ],
    *,
    sizes: Annotated[str, typer.Option(help="of the models, as 14m,70m,160m")],
    seeds: Annotated[str | None, typer.Option(help="as 1,2,3, where there is {seed} in the names")] = None,
    out: options.Out = None,
    axis: options.Axis = "tokens",
    data: options.DataOptions,
    measurement: options.Measurement,
) -> None:
    """Measure several sizes and seeds of a family, and write one page on when each came to what; Parquet and JSON."""
    from stagewise.reporting import atlas as write_atlas

    names = names_of(family, options.read_names(sizes), options.read_names(seeds))
    opened = {
        size: [opened_source(name, data, measurement=measurement, agree=False) for name in each]
        for size, each in names.items()
    }
    models = [one for each in opened.values() for one in each]
    agree_to_measure(models, data, measurement)
    list(measure_each(models, measurement))
    folder = out or Path("runs", f"atlas-{file_part(family.replace('/', '--'))}")
    folders = {size: [one.folder for one in each] for size, each in opened.items()}
    print(write_atlas(folders, folder, axis, data.tokens_per_step))


def names_of(family: str, sizes: tuple[str, ...], seeds: tuple[str, ...]) -> dict[str, list[str]]:
    """Return the sources of each size."""
    pattern = family if SIZE in family else _suite_named(family)
    if seeds and SEED not in pattern:
        raise ValueError(f"{pattern} has no place for --seeds: write {SEED} where the names have them")
    if SEED in pattern and not seeds:
        raise ValueError(f"{pattern} has a place for seeds: give them, as --seeds 1,2,3")
    named = {size: pattern.replace(SIZE, size) for size in sizes}
    return {size: [name.replace(SEED, seed) for seed in seeds or ("",)] for size, name in named.items()}


def _suite_named(name: str) -> str:
    from stagewise.checkpoints.suites import suites

    for suite in suites():
        owner, _, models = suite.repositories.partition("/")
        if models.lower() == f"{name.lower()}-*":
            return f"{owner}/{models[:-1]}{SIZE}"
    raise ValueError(
        f"no suite is known as {name!r}: give the names of the models with {SIZE} in them, as owner/{name}-{SIZE}"
    )
