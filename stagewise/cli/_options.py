"""The one list of options: those that belong together are a dataclass, which `commands.command` flattens."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from stagewise.bars import silence
from stagewise.cli._names import chooser, probe_named

SOURCE = "a run folder, a folder of checkpoints, or a hub repository owner/name"
Origin = Annotated[str, Argument(metavar="SOURCE", help=SOURCE)]
Out = Annotated[
    Path | None, Option(help="where the table and the report go; a run folder keeps its own", show_default=False)
]
RunFolder = Annotated[
    Path | None, Option("--folder", help="the run folder; an interrupted run in it resumes. runs/TASK if not given")
]
StepsColumn = Annotated[
    str | None,
    Option("--step-column", help='of logged curves: the steps; "rows" counts them; "step" or the like if not given'),
]
Causes = Annotated[
    list[str] | None,
    Option(
        "--cause",
        metavar="STEP=NAME",
        help='what was done to the run, as "3000=a larger batch", or "0-500=a warm-up"; may be repeated',
    ),
]
OwnTask = Annotated[
    list[str] | None,
    Option("--task", help="module:Class of one's own that run.json names, which alone imports nothing"),
]
SequenceCount = Annotated[
    int | None,
    Option(
        "--sequences",
        min=1,
        help="how many sequences to measure on; if not given 64, of a run 400 (densify: as its table), or fewer",
    ),
]
Device = Annotated[str, Option(help="where to run the model, as in cuda or cuda:1")]
DtypeName = Annotated[str, Option("--dtype", help="of the matrix products: float32, or bfloat16 by torch's autocast")]
Axis = Annotated[
    str, Option(help="what times are written and drawn in: steps, or tokens, where it is known how many a run had seen")
]
TokensPerStep = Annotated[
    int | None,
    Option(min=1, help="tokens of an update, where neither names nor tables say how many the model had seen"),
]
Restricted = Annotated[
    bool | None, Option(help="train restricted-context models to compare; by default where the task names contexts")
]
Controls = Annotated[
    bool, Option("--controls/--no-controls", help="the same elsewhere or later, or a kick of the same norm, to compare")
]
LeftOut = Annotated[
    list[str] | None,
    Option(
        "--leave-out",
        help='classes of predictions, or what their names begin with: "at position", "of token", "that repeat"; may be '
        "repeated",
    ),
]
DryRun = Annotated[bool, Option("--dry-run", help="print what it would cost, and do nothing")]
Quiet = Annotated[bool, Option("--quiet", callback=silence, help="no progress bars")]
AsJson = Annotated[bool, Option("--json", callback=silence, help="print JSON, and no progress bars")]


@dataclass(frozen=True)
class RecipeOptions:
    """The changes of a preset; None leaves it as it is."""

    preset: Annotated[str | None, Option(help="the recipe to start from; the task's first if not given")] = None
    seed: Annotated[
        int | None, Option(help="of the task, the initial weights, the data and the evaluation; 0 if not given")
    ] = None
    heads: Annotated[int | None, Option(min=1, help="heads of each layer; the preset's if not given")] = None
    layers: Annotated[int | None, Option(min=1, help="layers; the preset's if not given")] = None
    steps: Annotated[int | None, Option(help="optimiser updates; the preset's if not given")] = None
    settings: Annotated[
        list[str] | None,
        Option("--set", help="any field of the recipe, as task.importance=1.5; =@FILE for the JSON of a file"),
    ] = None


@dataclass(frozen=True)
class SeriesOptions:
    """How the checkpoints of a source are opened, which of them, and what downloads may take."""

    architecture: Annotated[str | None, Option(help="the architecture, where there is no config.json: a JSON file")] = (
        None
    )
    branch: Annotated[
        str | None,
        Option(help="where checkpoints are of several branches of training, one of them: stage1 of stage1-step9"),
    ] = None
    join: Annotated[
        str | None, Option(help="branches whose steps go on counting, as stage1,stage2: they are opened as one")
    ] = None
    parse: Annotated[
        str | None,
        Option(help="how names hold the step, where that is read otherwise: a regular expression with (?P<step>...)"),
    ] = None
    base: Annotated[
        str | None, Option(help="of LoRA adapters: the model they are merged into, a folder, a file or a repository")
    ] = None
    start: Annotated[
        str | None,
        Option("--from", help="what a post-training began from, a model or a series: its checkpoints come first"),
    ] = None
    checkpoints: Annotated[
        int | None, Option(help="only so many checkpoints, log-spaced, the first and the last one too")
    ] = None
    steps: Annotated[
        str | None,
        Option(help="only the checkpoints of these steps: from:to:every, as 0:10000:1000, or a list, as 0,512,1000"),
    ] = None
    tokens_per_step: TokensPerStep = None
    cache: Annotated[Path | None, Option(help="folder for downloads; ~/.cache/stagewise/hub if not given")] = None
    cache_size: Annotated[
        str | None, Option(help="size that it stays below, as in 50GB; of each repository two revisions stay")
    ] = None
    yes: Annotated[bool, Option("--yes", help="download and measure without being asked, whatever it takes")] = False

    @property
    def choice(self) -> int | str | None:
        """Which checkpoints are taken, as `open_series` takes it."""
        if self.checkpoints is not None and self.steps is not None:
            raise ValueError("--checkpoints says how many and --steps which ones: give one of the two")
        return self.checkpoints if self.steps is None else self.steps

    def finding(self) -> dict[str, Any]:
        """Return them as arguments of `series.find`."""
        cache = {"cache": self.cache, "cache_bytes": read_memory(self.cache_size, "--cache-size")}
        hub = {name: value for name, value in cache.items() if value is not None}
        return {"join": read_names(self.join), "parse": self.parse, "base": self.base, "start": self.start, "hub": hub}

    def opening(self) -> dict[str, Any]:
        """Return them as arguments of `open_series`."""
        chosen = {"architecture": self.architecture, "branch": self.branch, "steps": self.choice}
        return {**self.finding(), **chosen, "tokens_per_step": self.tokens_per_step}


@dataclass(frozen=True)
class DataOptions(SeriesOptions):
    """How the checkpoints of a source are opened, and the tokens, the text or the task that they are measured on."""

    tokens: Annotated[
        str | None,
        Option(help="tokens to measure on: a file .pt, .npy, .safetensors, nanoGPT's .bin, or a folder of `datasets`"),
    ] = None
    relation: Annotated[
        list[str] | None,
        Option(help='of --tokens: as "previous token", "offset 31", or file.py:function; may be repeated'),
    ] = None
    text: Annotated[
        list[Path] | None,
        Option(help="a file of text to measure on in place of repeated random tokens; may be repeated"),
    ] = None
    tokenizer: Annotated[
        str | None,
        Option(help="of text or pairs: a tokenizer.json, its folder or owner/name[@revision]; the series' own if none"),
    ] = None
    pairs: Annotated[
        str | None,
        Option(
            help="a file of prompts with a right and a wrong answer, to measure a behaviour on: CSV, JSONL, datasets, "
            "BLiMP's, or an lm-evaluation-harness task's of two choices"
        ),
    ] = None
    whole_answers: Annotated[
        bool | None,
        Option(
            "--whole-answers/--first-tokens",
            help="of --pairs: compare summed log-probabilities of answers, or first tokens; by the format if not given",
        ),
    ] = None
    own_task: OwnTask = None

    @property
    def given(self) -> bool:
        """Whether a run is measured on these data, or after its base, in place of its own task alone."""
        return bool(self.text or self.tokens or self.pairs or self.start)


@dataclass(frozen=True)
class PassOptions:
    """Where, and how many at once, the passes of a measurement are computed."""

    workers: Annotated[int, Option(help="checkpoints that are measured at once, each in its own process")] = 1
    memory: Annotated[str | None, Option(help="for the passes of a slice of the batch, as in 512MB or 2GB")] = None
    device: Device = "cpu"
    dtype: DtypeName = "float32"
    quiet: Quiet = False

    def resources(self) -> dict[str, Any]:
        """Return them as arguments of `measure`."""
        where: dict[str, Any] = {"workers": self.workers, "device": self.device, "dtype": self.dtype}
        return {**where, "memory": read_memory(self.memory), "progress": not self.quiet}


@dataclass(frozen=True)
class ProbeOptions(PassOptions):
    """Which probes are measured, and where."""

    probe: Annotated[
        list[str] | None, Option(help="an additional probe: a name of the catalogue, or module:Class; may be repeated")
    ] = None
    only: Annotated[
        list[str] | None, Option(help="of the default probes (densify: the table's) this one; may be repeated")
    ] = None
    without: Annotated[list[str] | None, Option(help="leave out this one of them; may be repeated")] = None
    exact: Annotated[bool, Option("--exact", help="of a large model too, ablate every head on all sequences")] = False

    def arguments(self) -> dict[str, Any]:
        """Return them as arguments of `analysis.run`."""
        chosen = chooser(self.only or (), self.without or (), exact=self.exact)
        return {"probes": chosen, "extra_probes": [*map(probe_named, self.probe or ())], **self.resources()}


@dataclass(frozen=True)
class Measurement(ProbeOptions):
    """Which probes are measured, on how many sequences, and where."""

    sequences: SequenceCount = None

    def arguments(self) -> dict[str, Any]:
        """Return them as arguments of `analysis.measure_run`."""
        number = {} if self.sequences is None else {"sequences": self.sequences}
        return {**super().arguments(), **number}


@dataclass(frozen=True)
class ReplayOptions:
    """How a run is replayed with something changed."""

    own_task: OwnTask = None
    device: Device = "cpu"
    dtype: DtypeName = "float32"
    dry: DryRun = False
    quiet: Quiet = False

    def resources(self) -> dict[str, Any]:
        """Return them as arguments of `branch` and its like."""
        return {"progress": not self.quiet, "device": self.device, "dtype": self.dtype}


def read_causes(texts: Sequence[str] | None) -> dict[str, int | tuple[int, int]]:
    """Return causes by their names, from texts as "3000=a larger batch" or "0-500=the warm-up"."""
    matches = _matches(r"(\d+)(?:-(\d+))?=(.+)", texts, f"--cause takes STEP=NAME or FIRST-LAST=NAME, {CAUSE}")
    return {match[3]: (int(match[1]), int(match[2])) if match[2] else int(match[1]) for match in matches}


def read_expected(texts: Sequence[str] | None) -> dict[str, int]:
    """Return the steps by which events are expected, from texts as "induction=2000"."""
    matches = _matches(r"(.+)=(\d+)", texts, '--expect takes EVENT=STEP, as "induction=2000"')
    return {match[1]: int(match[2]) for match in matches}


def _matches(pattern: str, texts: Sequence[str] | None, form: str) -> list[re.Match[str]]:
    matches = [(text, re.fullmatch(pattern, text)) for text in texts or ()]
    if wrong := [text for text, match in matches if match is None]:
        raise ValueError(f"{form}; got {wrong[0]!r}")
    return [match for _, match in matches if match]


def read_names(text: str | None) -> tuple[str, ...]:
    """Return the names of a list; none of no list."""
    return () if text is None else tuple(name.strip() for name in text.split(","))


CAUSE = 'as "3000=a larger batch" or "0-500=a warm-up"'
UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}


def read_memory(memory: str | None, option: str = "--memory") -> int | None:
    """Return bytes."""
    if memory is None:
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?) ?([KMG]?I?B)", memory.strip().upper())
    if match is None or match[2] not in UNITS or not (size := int(float(match[1]) * UNITS[match[2]])):
        raise ValueError(f"{option} takes a size with its unit, as in 512MB or 2GB; got {memory!r}")
    return size
