"""What the commands share: their options, recipes from options, one thread, errors in a line, stages on the screen."""

import contextlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from stagewise.detection.stages import Stages
    from stagewise.recipe import Recipe

Origin = Annotated[
    str, typer.Argument(metavar="SOURCE", help="a run folder, a folder of checkpoints, or a hub repository owner/name")
]
TextFiles = Annotated[
    list[Path] | None,
    typer.Option("--text", help="a file of text to measure on in place of repeated random tokens; may come again"),
]
TokenizerName = Annotated[
    str | None,
    typer.Option(
        "--tokenizer",
        help="of the text: a tokenizer.json, its folder or a hub repository; the series' own if not given",
    ),
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


@contextlib.contextmanager
def reported_errors() -> Iterator[None]:
    """Print what is wrong in a line or two instead of a traceback; what is on disk stays, and a rerun goes on."""
    try:
        yield
    except KeyboardInterrupt:
        print("interrupted; the same command goes on from the last checkpoint", file=sys.stderr)
        raise typer.Exit(130) from None
    except (ValueError, TypeError, OSError, FloatingPointError) as error:
        print(f"stagewise: {error}", file=sys.stderr)
        raise typer.Exit(2) from None


def one_thread() -> None:
    """Set torch to one thread."""
    # Small models train fastest on one thread a process; two on busy cores are tens of times slower.
    import torch

    torch.set_num_threads(1)


def markov_recipe(
    preset: str, seed: int, heads: int, steps: int | None, config: Path | None, settings: list[str] | None
) -> "Recipe":
    """Return a preset of the Markov chain, changed by the options.

    Raises:
        ValueError: an unknown preset or field, or a value out of range.
    """
    from stagewise.experiments.incremental import markov

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


def read_recipe(folder: Path) -> "Recipe":
    """Return the recipe of a run folder, of one of this library's tasks."""
    from stagewise import tasks
    from stagewise.checkpoints.run_folder import read_run
    from stagewise.recipe import rebuild

    recipe: Recipe = rebuild(read_run(folder)["recipe"], _classes(tasks))
    return recipe


def _classes(module: Any) -> list[type]:
    return [value for value in vars(module).values() if isinstance(value, type)]


def show(found: "Stages", as_json: bool) -> None:
    """Print stages in words, or as JSON."""
    if as_json:
        parts = ("table", "turning_points", "events", "onsets")
        data = {name: json.loads(getattr(found, name).to_json(orient="records")) for name in parts}
        print(json.dumps({"run": found.run, **data}, indent=2))
    else:
        print(found)
