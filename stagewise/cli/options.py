"""What the commands share: their options, one thread, errors in a line, stages on the screen."""

import contextlib
import json
import os
import re
import sys
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stagewise.cli.names import chooser, probe_named

if TYPE_CHECKING:
    import pandas as pd

    from stagewise.detection.home import Home
    from stagewise.detection.stages import Stages

Origin = Annotated[
    str, typer.Argument(metavar="SOURCE", help="a run folder, a folder of checkpoints, or a hub repository owner/name")
]
Origins = Annotated[
    list[str],
    typer.Argument(
        metavar="SOURCE...", help="a source, as for the other commands; several seeds give one report on all"
    ),
]
Seeds = Annotated[
    list[str],
    typer.Argument(
        metavar="SOURCE...", help="a measured source, as for the other commands; several seeds are compared"
    ),
]
TextFiles = Annotated[
    list[Path] | None,
    typer.Option("--text", help="a file of text to measure on in place of repeated random tokens; may be repeated"),
]
TokenFile = Annotated[
    str | None,
    typer.Option(
        "--tokens",
        help="a file of tokens to measure on: .pt, .npy, .safetensors, nanoGPT's .bin, or a folder of `datasets`",
    ),
]
RelationNames = Annotated[
    list[str] | None,
    typer.Option(
        "--relation", help='of --tokens: as "previous token", "offset 31" or module:function; may be repeated'
    ),
]
TokenizerName = Annotated[
    str | None,
    typer.Option(
        "--tokenizer",
        help="of the text: a tokenizer.json, its folder or a hub repository; the series' own if not given",
    ),
]
SequenceCount = Annotated[
    int | None,
    typer.Option(
        "--sequences",
        min=1,
        help="how many sequences to measure on; if not given 64, of a run 400, and fewer with a large vocabulary",
    ),
]
ModelConfig = Annotated[
    str | None,
    typer.Option(
        "--architecture",
        help="the architecture, where checkpoints have no config.json: a JSON file, or a name of TransformerLens",
    ),
]
Branch = Annotated[
    str | None,
    typer.Option(
        "--branch", help="where checkpoints are of several branches of training, one of them: stage1 of stage1-step9"
    ),
]
Out = Annotated[
    Path | None, typer.Option(help="where the table and the report go; a run folder keeps its own", show_default=False)
]
RunFolder = Annotated[
    Path | None,
    typer.Option("--folder", help="the run folder; an interrupted run in it resumes. runs/TASK if not given"),
]
Preset = Annotated[str | None, typer.Option(help="the recipe to start from; the task's first if not given")]
Seed = Annotated[
    int | None, typer.Option(help="of the task, the initial weights, the data and the evaluation; 0 if not given")
]
Heads = Annotated[int | None, typer.Option(min=1, help="heads of each layer; the preset's if not given")]
Layers = Annotated[int | None, typer.Option(min=1, help="layers; the preset's if not given")]
Steps = Annotated[int | None, typer.Option(help="optimiser updates; the preset's if not given")]
StepsColumn = Annotated[
    str | None,
    typer.Option("--steps", help='of a file of logged curves: the column of steps; "step" or the like if not given'),
]
Config = Annotated[
    Path | None,
    typer.Option(help="JSON file with the fields of a HookedTransformerConfig, in place of the preset's"),
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", help="any other field of the recipe, as in task.importance=1.5 or plan.learning_rate=0.02"),
]
OwnTask = Annotated[
    list[str] | None,
    typer.Option("--task", help="module:Class of a task that is not in the catalogue, where run.json cannot find it"),
]
MoreProbes = Annotated[
    list[str] | None,
    typer.Option("--probe", help="an additional probe: a name of the catalogue, or module:Class; may be repeated"),
]
Only = Annotated[list[str] | None, typer.Option("--only", help="only this one of the default probes; may be repeated")]
Without = Annotated[list[str] | None, typer.Option("--without", help="leave out this default probe; may be repeated")]
Workers = Annotated[
    int, typer.Option("--workers", help="checkpoints that are measured at once, each in its own process")
]
Memory = Annotated[
    str | None,
    typer.Option("--memory", help="memory for the passes of a slice of the batch, as in 512MB or 2GB"),
]
Restricted = Annotated[
    bool | None,
    typer.Option(
        "--restricted/--no-restricted",
        help="train restricted-context models for comparison; by default where the task names contexts for them",
    ),
]
ContextList = Annotated[
    str | None,
    typer.Option("--contexts", help="of the restricted-context models, as in 1,2,4; the task's if not given"),
]
Device = Annotated[str, typer.Option(help="where to run the model, as in cuda or cuda:1")]
DtypeName = Annotated[
    str, typer.Option("--dtype", help="of the matrix products: float32, or bfloat16 by torch's autocast")
]
Quiet = Annotated[bool, typer.Option("--quiet", help="no progress bars")]
AsJson = Annotated[bool, typer.Option("--json", help="print JSON, and no progress bars")]


TOO_LARGE = "can't allocate memory|out of memory"
"""What torch says in a RuntimeError where Python would raise a MemoryError."""


@contextlib.contextmanager
def reported_errors() -> Iterator[None]:
    """Print what is wrong in a line or two instead of a traceback; files on disk stay, and a rerun resumes."""
    if os.getcwd() not in sys.path:  # one's own tasks and probes lie there
        sys.path.insert(0, os.getcwd())
    try:
        yield
    except KeyboardInterrupt:
        print("interrupted; the same command resumes from the last checkpoint", file=sys.stderr)
        raise typer.Exit(130) from None
    except BrokenPipeError:
        raise  # who reads the output has read enough, as `head`: typer ends in silence
    except (ValueError, TypeError, OSError, FloatingPointError) as error:
        print(f"stagewise: {error}", file=sys.stderr)
        raise typer.Exit(2) from None
    except BrokenExecutor:
        print(
            "stagewise: the system ended a worker process, most often for want of memory; what it had finished stays: "
            "run the same command again, with fewer --workers if it has that option",
            file=sys.stderr,
        )
        raise typer.Exit(2) from None
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and not re.search(TOO_LARGE, str(error)):
            raise
        why = (str(error).splitlines() or [""])[0]
        print(f"stagewise: there is not enough memory; make the model or the batch smaller ({why})", file=sys.stderr)
        raise typer.Exit(2) from None


def one_thread() -> None:
    """Take one thread, keep freed memory, and import what runs models: `models.process`."""
    from stagewise.models import process  # imports torch

    process.one_thread()
    process.import_libraries()


def read_contexts(restricted: bool | None, contexts: str | None) -> "bool | tuple[int, ...] | None":
    """Return the baselines of the options, as `analysis.run` takes them.

    Raises:
        ValueError: contexts that are no whole numbers, or contexts with --no-restricted.
    """
    if contexts is None:
        return restricted
    if restricted is False:
        raise ValueError("--contexts are those of the models that --no-restricted leaves out: give one of the two")
    if not all(each.strip().isdecimal() for each in contexts.split(",")):
        raise ValueError(f"--contexts takes whole numbers, as in 1,2,4; got {contexts!r}")
    return tuple(sorted({int(each) for each in contexts.split(",")}))


UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}


def read_memory(memory: str | None) -> int | None:
    """Return bytes.

    Raises:
        ValueError: it is no positive number with a unit.

    >>> read_memory("512MB"), read_memory("1.5 GiB")
    (512000000, 1610612736)
    """
    if memory is None:
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?) ?([KMG]?I?B)", memory.strip().upper())
    if found is None or found[2] not in UNITS or not (size := int(float(found[1]) * UNITS[found[2]])):
        raise ValueError(f"--memory takes a size with its unit, as in 512MB or 2GB; got {memory!r}")
    return size


def measuring(
    probe: list[str] | None,
    only: list[str] | None,
    without: list[str] | None,
    workers: int,
    memory: str | None,
    quiet: bool,
    device: str = "cpu",
    dtype: str = "float32",
) -> dict[str, Any]:
    """Return the options of measuring as the arguments of `analysis.run`."""
    return {
        "probes": chooser(only or (), without or ()),
        "extra_probes": [probe_named(name) for name in probe or ()],
        "workers": workers,
        "memory": read_memory(memory),
        "device": device,
        "dtype": dtype,
        "progress": not quiet,
    }


def show(stages: "Stages | None", as_json: bool, run: str = "", home: "Home | None" = None) -> None:
    """Print stages in words, or as JSON, with what is known of the probe batch; None where the table can show none."""
    if not as_json:
        from stagewise.detection.from_onsets import NO_STAGES
        from stagewise.detection.home import warned

        print(warned(NO_STAGES if stages is None else str(stages), home))
        return
    print(json.dumps(as_data(stages, run, home), indent=2))


def as_data(stages: "Stages | None", run: str = "", home: "Home | None" = None) -> dict[str, Any]:
    """Return stages as plain data, a list of rows a frame."""
    from stagewise.detection.stages import FRAMES

    frames = {name: [] if stages is None else records(getattr(stages, name)) for name in FRAMES}
    batch = None if home is None else home.plain
    return {"run": run if stages is None else stages.run, "probe_batch": batch, **frames}


def records(frame: "pd.DataFrame") -> list[dict[str, Any]]:
    """Return the rows of a frame as plain data; what is missing or infinite is null."""
    rows: list[dict[str, Any]] = json.loads(frame.to_json(orient="records"))
    return rows
