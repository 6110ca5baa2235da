"""The command line's experiments: `stagewise run`, any task from training to report, and a command a paper."""

import dataclasses
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from stagewise.cli import _papers
from stagewise.cli._commands import command, one_thread
from stagewise.cli._findings import show
from stagewise.cli._names import TASKS
from stagewise.cli._options import (
    AsJson,
    BaselineOptions,
    Measurement,
    MoreProbes,
    PassOptions,
    ProbeOptions,
    RecipeOptions,
    RunFolder,
    Settings,
)
from stagewise.cli._recipes import recipe_of
from stagewise.cli._settings import changed, read_settings

ANY = "TASK"
"""The command that stands for every name that is not a command itself."""


class TaskCommand(TyperCommand):
    """The command that runs any task: its context, which says the task, is of the type that typer documents."""

    context_class = typer.Context


class TaskGroup(TyperGroup):
    """A group of commands in which any other name is that of a task."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command of the first argument, or the one that runs any task, under the name of the task."""
        name = args[0]
        if name.startswith("-") or self.get_command(ctx, name) is not None:
            return super().resolve_command(ctx, args)
        return name, self.get_command(ctx, ANY), args[1:]


run_app = typer.Typer(cls=TaskGroup, help="Run a task or a paper's experiment, to the report.", no_args_is_help=True)


def run_task(
    ctx: typer.Context,
    *,
    folder: RunFolder = None,
    changes: RecipeOptions,
    probe: MoreProbes = None,
    chosen: ProbeOptions,
    baselines: BaselineOptions,
    passes: PassOptions,
    as_json: AsJson = False,
) -> None:
    """Train a preset of the task, probe every checkpoint, find the stages, write the report."""
    one_thread()
    from stagewise.analysis import run

    task = str(ctx.info_name)
    measurement = Measurement(dataclasses.replace(passes, quiet=passes.quiet or as_json), chosen, probe)
    analysis = run(
        recipe_of(task, changes),
        folder or Path("runs", task.replace(":", "-")),
        restricted=baselines.read(),
        **measurement.arguments(),
    )
    show(analysis.stages, as_json, analysis.series.name)
    print(f"report: {analysis.report}", file=sys.stderr if as_json else sys.stdout)


def run_wikitext(
    *,
    folder: Annotated[Path, typer.Option(help="the run folder; an interrupted run in it resumes")] = Path(
        "runs/wikitext"
    ),
    data: Annotated[
        str | None, typer.Option(help="folder of WikiText-2; STAGEWISE_WIKITEXT, or the hub, if not given")
    ] = None,
    layers: Annotated[int, typer.Option(help="number of layers, 1 to 4")] = 2,
    mlp: Annotated[bool, typer.Option("--mlp", help="with MLPs; attention only if not given")] = False,
    tokenizer: Annotated[str, typer.Option(help="how the text is tokenised: bpe, plain or basic_english")] = "bpe",
    vocab_size: Annotated[int, typer.Option(help="size of the vocabulary")] = 1024,
    length: Annotated[int, typer.Option(help="positions of a window")] = 64,
    repeating: Annotated[
        float,
        typer.Option(help="share of training windows with a repeated excerpt; 0 leaves the text unchanged"),
    ] = 0.3,
    steps: Annotated[int, typer.Option(help="optimiser updates")] = 5000,
    seed: Annotated[int, typer.Option(help="of the initial weights, the data and the evaluation")] = 0,
    settings: Settings = None,
    probe: MoreProbes = None,
    chosen: ProbeOptions,
    baselines: BaselineOptions,
    passes: PassOptions,
) -> None:
    """Train a small transformer on WikiText-2, probe every checkpoint, write the report; minutes of one core."""
    one_thread()
    from stagewise.analysis import run
    from stagewise.tasks import wiki_text

    sizes: dict[str, Any] = {"tokenizer": tokenizer, "vocab_size": vocab_size, "length": length, "steps": steps}
    recipe = wiki_text.recipe(layers, attn_only=not mlp, repeating=repeating, seed=seed, data=data, **sizes)
    recipe = changed(recipe, read_settings(settings or []))
    measured = Measurement(passes, chosen, probe).arguments()
    analysis = run(recipe, folder, restricted=baselines.read(), **measured)
    print(f"report: {analysis.report}")


_HELP = f"Run a task from training to report: {', '.join(TASKS)}, or one's own as module:Class."
run_app.command(ANY, cls=TaskCommand, help=_HELP)(command(run_task))
for _name, _function in {"wikitext": run_wikitext, **_papers.COMMANDS}.items():
    run_app.command(_name)(command(_function))
