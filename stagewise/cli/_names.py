"""Names of tasks and probes on the command line: short names of the catalogue, or module:Class for one's own."""

import dataclasses
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FunctionType
from typing import Any

import stagewise
from stagewise import checkpoints, measurement
from stagewise.entry_points import added
from stagewise.plain_text import did_you_mean, instead_of


def kebab_case(name: str) -> str:
    """Return a class name as the command line writes it."""
    return re.sub(r"(?<!^)(?=[A-Z])", "-", name).lower()


TASKS = {
    "markov": "MarkovChain",
    "recall": "AssociativeRecall",
    "ioi": "IndirectObjects",
    "wikitext": "WikiText",
    "repeated-tokens": "RepeatedTokens",
    "text": "Text",
    "tokens": "Tokens",
}
"""Short name -> class of the catalogue; its class name in kebab case (markov-chain) is understood too."""
TASKS |= {kebab_case(name): name for name in added("tasks") if name not in TASKS.values()}

TASK_NAMES = {kebab_case(cls): cls for cls in TASKS.values()} | TASKS


def task_class(name: str) -> "type[stagewise.AbstractTask]":
    """Return the class of a task by its name, or by module:Class."""
    from stagewise.recipe import load_class

    if ":" in name:
        return load_class(name, (stagewise.AbstractTask,), f"the command names the task {name}")
    if name not in TASK_NAMES:
        own = "one's own as module:Class"
        own += f". {name} is a run folder: `stagewise train {name}` resumes it" if is_run(name) else ""
        raise ValueError(f"there is no task {name!r}{instead_of(name, TASKS)}, and {own}")
    task: type = getattr(stagewise.tasks, TASK_NAMES[name])
    if not issubclass(task, stagewise.AbstractTask):
        raise ValueError(f"{TASK_NAMES[name]} cannot be trained from a recipe: it is no AbstractTask")
    return task


def run_folder_named(name: str) -> Path | None:
    """Return the run folder of a name; a task of the name wins, and a line says so, unless it is a path as ./recall."""
    if not is_run(name):
        return None
    if name in TASK_NAMES:
        print(f"{name} is the task here, not the run folder of this name: that one is ./{name}", file=sys.stderr)
        return None
    return Path(name)


def is_run(name: str) -> bool:
    """Whether a folder is that of a run that was trained here."""
    return Path(name, checkpoints.RUN).exists()


def task_classes(names: Sequence[str] = ()) -> "list[type]":
    """Return the classes that run.json may name, the catalogue's and these; modules of relations are allowed so."""
    from stagewise.init import AbstractInit
    from stagewise.recipe import load_class

    kinds = (stagewise.AbstractTask, AbstractInit, FunctionType)
    own = [load_class(name, kinds, f"the command names {name}") if ":" in name else task_class(name) for name in names]
    return [value for value in (*vars(stagewise.tasks).values(), *own) if isinstance(value, type)]


def probe_named(name: str) -> "stagewise.AbstractProbe":
    """Return a probe of the catalogue by its class name, or one's own as module:Class; with its default arguments."""
    from stagewise.recipe import load_class

    if ":" in name:
        cls: type = load_class(name, (stagewise.AbstractProbe,), f"the command line names the probe {name}")
    elif name in (known := _catalogue()):
        cls = getattr(stagewise.probes, name)
    else:
        raise ValueError(f"there is no probe {name!r}{instead_of(name, known)}, and one's own as module:Class")
    try:
        probe: stagewise.AbstractProbe = cls()
    except TypeError as reason:
        missing = f"the probe {name} needs arguments ({reason})"
        raise ValueError(f"{missing}: give them defaults, or measure in Python") from None
    return probe


def _catalogue() -> list[str]:
    own = (name for name, value in vars(stagewise.probes).items() if isinstance(value, type))
    return sorted({*own, *added("probes")})


def chooser(only: Sequence[str], without: Sequence[str], *, exact: bool = False) -> Callable[..., list[Any]]:
    """Return a function that chooses among `default_probes` by name; `exact` ablates every head on all sequences."""

    def choose(architecture: Any, batch: "stagewise.Batch", task: Any) -> list[Any]:
        chosen = {type(probe).__name__: probe for probe in stagewise.default_probes(architecture, batch, task)}
        _check_known((*only, *without), chosen)
        some = [probe for name, probe in chosen.items() if name not in without and (not only or name in only)]
        return all_exact(some) if exact else some

    return choose


def all_exact(probes: Sequence[Any]) -> list[Any]:
    """Return probes that ablate every head on all sequences."""
    heads = stagewise.probes.HeadAblation
    return [dataclasses.replace(probe, exact=True) if isinstance(probe, heads) else probe for probe in probes]


def probes_again(
    recipe: "stagewise.Recipe", folder: Path, only: Sequence[str], without: Sequence[str], extra: Sequence[Any]
) -> "list[stagewise.AbstractProbe]":
    """Return the probes of a run folder's table, or, without one, those of `chooser`; `extra` ones replace theirs."""
    saved = measurement.recorded_probes(folder)
    recorded = {name.rpartition(":")[2]: (name, words) for name, words in saved.items()}
    model, batch, task = recipe.architecture, stagewise.load_batch(recipe, folder), recipe.task
    if not recorded:
        return chooser(only, without)(model, batch, task)
    default = {type(probe).__name__: probe for probe in stagewise.default_probes(model, batch, task)}
    _check_known((*only, *without), {**default, **recorded})
    left_out = {*without, *(type(probe).__name__ for probe in extra)}
    chosen = [name for name in only or recorded if name not in left_out]
    again = dict(recorded[name] for name in chosen if name in recorded)
    others = (default[name] for name in chosen if name not in recorded)
    return [*measurement.made_anew(again, default.values()), *others]


def _check_known(names: Sequence[str], probes: Mapping[str, object]) -> None:
    for name in (name for name in names if name not in probes):
        near = did_you_mean(name, probes)
        raise ValueError(
            f"{name} is none of the default probes here{near}; they are {', '.join(probes)}. --probe adds others"
        )


def check_probes(names: Sequence[str]) -> None:
    """Raise a ValueError at a name that is none of the catalogue of probes, before anything is opened."""
    if unknown := [name for name in names if not hasattr(stagewise.probes, name)]:
        raise ValueError(f"there is no probe {unknown[0]}{did_you_mean(unknown[0], _catalogue())}")


def only_task(names: list[str] | None) -> "stagewise.AbstractTask | None":
    """Return the one task whose probe batch checkpoints from elsewhere are measured on, with its default arguments."""
    if not names:
        return None
    if len(names) > 1:
        raise ValueError(f"checkpoints are measured on one task, got {', '.join(names)}")
    return task_class(names[0])()
