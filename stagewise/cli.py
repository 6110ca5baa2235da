"""The command line: a thin face of the verbs."""

import contextlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from stagewise.analysis import Analysis
    from stagewise.recipe import Recipe
    from stagewise.stages import Stages

app = typer.Typer(
    help="In which stages did a model's attention heads learn what they do?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
run_app = typer.Typer(help="Run a paper's experiment from training to report.", no_args_is_help=True)
app.add_typer(run_app, name="run")

Origin = Annotated[
    str, typer.Argument(metavar="SOURCE", help="a run folder, a folder of checkpoints, or a hub repository owner/name")
]
Out = Annotated[
    Path | None, typer.Option(help="where the table and the report go; a run folder keeps its own", show_default=False)
]
Folder = Annotated[Path, typer.Argument(help="the run folder")]
Preset = Annotated[str, typer.Option(help="the model: minimal or full")]
Seed = Annotated[int, typer.Option(help="of the chain, the initial weights, the data and the evaluation")]
Heads = Annotated[int, typer.Option(help="number of heads")]
Steps = Annotated[int | None, typer.Option(help="optimiser updates, where the preset's are not wanted")]
Config = Annotated[
    Path | None,
    typer.Option(help="JSON file with the fields of a HookedTransformerConfig, in place of the preset's"),
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", help="any other field of the recipe, as in task.importance=1.5 or plan.learning_rate=0.02"),
]
Quiet = Annotated[bool, typer.Option("--quiet", help="no progress bars")]
AsJson = Annotated[bool, typer.Option("--json", help="print JSON, and no progress bars")]


@run_app.command("markov")
def run_markov(
    folder: Annotated[Path, typer.Option(help="the run folder; an interrupted run in it goes on")] = Path(
        "runs/markov"
    ),
    preset: Preset = "minimal",
    seed: Seed = 0,
    heads: Heads = 3,
    steps: Steps = None,
    config: Config = None,
    settings: Settings = None,
    restricted: Annotated[bool, typer.Option(help="train restricted-context models to compare with")] = True,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Train on the high-order Markov chain, probe every checkpoint, find the stages, write the report."""
    with _reported_errors():
        _one_thread()
        from stagewise.experiments import markov

        recipe = _markov_recipe(preset, seed, heads, steps, config, settings)
        stages = markov.run(recipe, folder, restricted=restricted, progress=not (quiet or as_json))
        _show(stages, as_json)
        print(f"report: {folder / 'report.html'}", file=sys.stderr if as_json else sys.stdout)


@run_app.command("incremental")
def run_incremental(
    figure: Annotated[str, typer.Option(help="of the paper: 4L, 4R, 5, 6, 8, 10, 13, 15 or 17")],
    folder: Annotated[
        Path | None, typer.Option(help="where its runs go; runs/incremental/SETTING/FIGURE where not given")
    ] = None,
    setting: Annotated[str, typer.Option(help="small, for two cores, or paper")] = "small",
    seeds: Annotated[int, typer.Option(help="how many, from 0 on")] = 1,
    restricted: Annotated[
        bool, typer.Option("--restricted", help="train restricted-context models to compare with; 5 always does")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Run the sweep behind a figure of Incremental Learning (arXiv 2602.19143), summarise it and draw it."""
    with _reported_errors():
        _one_thread()
        from stagewise.experiments import incremental, incremental_figures

        folder = folder or Path("runs/incremental") / setting / figure
        if figure == "10":
            drawn = incremental_figures.ode()
        else:
            summary = incremental.run_figure(
                figure, folder, setting, range(seeds), restricted=restricted, progress=not quiet
            )
            print(summary.round(3).to_string(index=False))
            drawn = incremental_figures.draw(figure, folder, summary["run"].tolist())
        folder.mkdir(parents=True, exist_ok=True)
        drawn.savefig(path := folder / f"figure-{figure}.png", dpi=150)
        print(path)


@run_app.command("scan-and-snap")
def run_scan_and_snap(
    figure: Annotated[int, typer.Option(help="the paper's figure: 4, 5, 6 or 7")] = 6,
    folder: Annotated[
        Path | None, typer.Option(help="where to write; runs/scan-and-snap/figure-N if not given")
    ] = None,
    seeds: Annotated[int | None, typer.Option(help="number of seeds of figures 5 and 6")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="figure 6 with new seeds in place of the replay")] = False,
    data: Annotated[str | None, typer.Option(help="figure 7: folder of WikiText-2; the hub if not given")] = None,
    steps: Annotated[int | None, typer.Option(help="figure 7: minibatches")] = None,
    quiet: Quiet = False,
) -> None:
    """Train the one-layer models of Scan and Snap and draw one of its figures, with its tables."""
    with _reported_errors():
        _one_thread()
        from stagewise.experiments import scan_and_snap_figures

        folder = folder or Path(f"runs/scan-and-snap/figure-{figure}")
        settings: dict[str, Any] = {"seeds": seeds, "fresh": fresh, "data": data, "steps": steps}
        print(scan_and_snap_figures.draw(figure, folder, **settings, progress=not quiet))
        print(f"tables and pictures: {folder}")


@run_app.command("emergence")
def run_emergence(
    figure: Annotated[int, typer.Option(help="1, 2: the toy model; 3: regression; 4, 5: recall")] = 1,
    setting: Annotated[str, typer.Option(help="small, for two cores, or paper")] = "small",
    folder: Annotated[Path, typer.Option(help="where runs and figures go; an interrupted sweep goes on")] = Path(
        "runs/emergence"
    ),
    quiet: Quiet = False,
) -> None:
    """Make a figure of "The emergence of sparse attention", and print the published numbers beside ours."""
    with _reported_errors():
        _one_thread()
        from stagewise.experiments import emergence

        result = emergence.run(figure, setting, folder, progress=not quiet)
        print(emergence.in_words(result.numbers))
        print(f"figure: {emergence.figure_path(folder, figure, setting)}")


@app.command()
def train(
    folder: Folder,
    preset: Preset = "minimal",
    seed: Seed = 0,
    heads: Heads = 3,
    steps: Steps = None,
    config: Config = None,
    settings: Settings = None,
    quiet: Quiet = False,
) -> None:
    """Train a preset of the Markov chain into a run folder, or go on with the run in it."""
    with _reported_errors():
        _one_thread()
        from stagewise.training import train as train_recipe

        series = train_recipe(_markov_recipe(preset, seed, heads, steps, config, settings), folder, progress=not quiet)
        print(series)


@app.command()
def measure(source: Origin, out: Out = None, quiet: Quiet = False) -> None:
    """Run every probe on every checkpoint of a run folder, or of any other source, and write the table."""
    with _reported_errors():
        _one_thread()
        from stagewise.experiments import markov
        from stagewise.folder import RUN, TABLE

        if (folder := Path(source)).joinpath(RUN).exists():
            table = markov.measure_run(_read_recipe(folder), folder, progress=not quiet)
        else:
            from stagewise.analysis import folder_of, measured
            from stagewise.series import open_series

            series = open_series(source)
            folder = out or folder_of(series)
            found, table = measured(series, folder, progress=not quiet)
            print(found)
        print(f"{len(table)} rows of {table['probe'].nunique()} probes: {folder / TABLE}")


@app.command()
def audit(
    source: Origin,
    weights: Annotated[
        bool | None, typer.Option("--weights/--no-weights", help="read the weights too; from a hub only if asked for")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Look for missing, repeated, damaged and outlying checkpoints; exit status 1 where something is wrong."""
    with _reported_errors():
        from stagewise.audit import audit as audit_source
        from stagewise.series import find

        found = find(source)
        result = audit_source(found, weights=not found.remote if weights is None else weights)
        print(result.to_json() if as_json else result)
    if not result.clean:
        raise typer.Exit(1)


@app.command()
def stages(folder: Folder, as_json: AsJson = False) -> None:
    """Find the stages in a run folder's table and print them."""
    with _reported_errors():
        from stagewise.folder import read_table
        from stagewise.reporting import stages_of
        from stagewise.stages import find_stages

        table = read_table(folder)
        _show(stages_of(table) or find_stages(table), as_json)


@app.command()
def report(source: Origin, out: Out = None, quiet: Quiet = False) -> None:
    """Write report.html and its figures anew; measure first where a source was not measured yet."""
    with _reported_errors():
        _one_thread()
        from stagewise.folder import RUN, TABLE
        from stagewise.reporting import report as write_report

        folder = Path(source)
        measured = (folder / RUN).exists() or (folder / TABLE).exists()
        print(write_report(folder) if measured else _analyse(source, out, quiet))


@contextlib.contextmanager
def _reported_errors() -> Iterator[None]:
    """Print what is wrong in a line or two instead of a traceback; what is on disk stays, and a rerun goes on."""
    try:
        yield
    except KeyboardInterrupt:
        print("interrupted; the same command goes on from the last checkpoint", file=sys.stderr)
        raise typer.Exit(130) from None
    except (ValueError, TypeError, OSError, FloatingPointError) as error:
        print(f"stagewise: {error}", file=sys.stderr)
        raise typer.Exit(2) from None


def _analyse(source: str, out: Path | None, quiet: bool) -> "Analysis":
    from stagewise.analysis import analyse
    from stagewise.series import open_series

    return analyse(open_series(source), out, progress=not quiet)


def _one_thread() -> None:
    # Small models train fastest on one thread a process; two on busy cores are tens of times slower.
    import torch

    torch.set_num_threads(1)


def _markov_recipe(
    preset: str, seed: int, heads: int, steps: int | None, config: Path | None, settings: list[str] | None
) -> "Recipe":
    from stagewise.experiments import markov

    values = dict(_setting(text) for text in settings or [])
    task = {key.removeprefix("task."): values.pop(key) for key in list(values) if key.startswith("task.")}
    recipe = markov.recipe(preset, seed, heads, **task)
    if steps is not None:
        values |= {"plan.steps": steps, "plan.save": None}
    if config is not None:
        values["architecture"] = {
            "type": "Architecture",
            "config": json.loads(config.read_text(encoding="utf8")),
        }
    return _changed(recipe, values)


def _setting(text: str) -> tuple[str, Any]:
    key, separator, value = text.partition("=")
    if not separator:
        raise ValueError(f"--set takes key=value, got {text!r}")
    try:
        return key, _tuples(json.loads(value))
    except json.JSONDecodeError:
        return key, value


def _tuples(value: Any) -> Any:
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value


def _changed(recipe: "Recipe", values: dict[str, Any]) -> "Recipe":
    from stagewise import tasks
    from stagewise.recipe import describe, rebuild

    described = describe(recipe)
    for key, value in values.items():
        *path, last = key.split(".")
        part = described
        for name in path:
            part = part.get(name) if isinstance(part, dict) else None
        if not isinstance(part, dict) or (last not in part and path != ["architecture", "config"]):
            there = ", ".join(sorted(part)) if isinstance(part, dict) else ", ".join(sorted(described))
            raise ValueError(f"--set {key}: the recipe has no such field; there are {there}")
        part[last] = value
    rebuilt: Recipe = rebuild(described, _classes(tasks))
    return rebuilt


def _read_recipe(folder: Path) -> "Recipe":
    from stagewise import tasks
    from stagewise.folder import read_run
    from stagewise.recipe import rebuild

    recipe: Recipe = rebuild(read_run(folder)["recipe"], _classes(tasks))
    return recipe


def _classes(module: Any) -> list[type]:
    return [value for value in vars(module).values() if isinstance(value, type)]


def _show(found: "Stages", as_json: bool) -> None:
    if as_json:
        parts = ("table", "turning_points", "events")
        data = {name: json.loads(getattr(found, name).to_json(orient="records")) for name in parts}
        print(json.dumps({"run": found.run, **data}, indent=2))
    else:
        print(found)
