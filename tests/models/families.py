"""Every edit on every family of Hugging Face's causal language models that TransformerLens bridges, made small.

python -m tests.models.families [NAME ...]      prints the table of docs/records/families.md

Each family is measured as any series is. The reference is the plain Hugging Face model: its output projections are
handed z with a head replaced, its attention modules another mask.
"""

import copy
import dataclasses
import re
import sys
import warnings
from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple

import torch

from stagewise import models
from stagewise.intervention import AblateHead, Edit, RestrictContext
from stagewise.measurement._checkpoint import Checkpoint, Plan, readings
from stagewise.probe import AbstractProbe, Reading, View
from stagewise.task import Batch
from tests.models.plain_reference import Reference
from tests.models.small_families import LAYERS, LENGTH, VOCAB, Family, families

SAME = 1e-4
"""Largest difference of log-probabilities, over their spread, that sums in another order explain."""


def edits_of(n_heads: int) -> Mapping[str, tuple[Edit, ...]]:
    """Return what is tried on every family."""
    kinds: tuple[Literal["zero", "mean", "resample"], ...] = ("zero", "mean", "resample")
    places = [(layer, head) for layer in range(LAYERS) for head in range(n_heads)]
    return {
        "ablation": tuple((AblateHead(layer, head, kind),) for kind in kinds for layer, head in places),
        "context": tuple((RestrictContext(context),) for context in (1, 3, LENGTH)),
    }


@dataclasses.dataclass(frozen=True)
class Predictions(AbstractProbe):
    """The predictions of edited passes."""

    chosen: tuple[Edit, ...]

    def edits(self, architecture: Any) -> Iterable[Edit]:
        return self.chosen

    def read(self, view: View) -> list[Reading]:
        seen = [view.edited[edit].log_probs.reshape(view.log_probs.shape) for edit in self.chosen]
        values = torch.stack([view.log_probs, *seen], 1)
        labels = {"edit": range(values.shape[1]), "pos": range(LENGTH), "token": range(values.shape[3])}
        return [Reading("batch edit pos token", values, "predictions", labels)]


class Outcome(NamedTuple):
    """What came of a kind of edit: the largest difference from the reference over its spread, or why it is refused."""

    difference: float | None
    refused: str = ""

    @property
    def agrees(self) -> bool:
        return self.difference is not None and self.difference <= SAME

    def __str__(self) -> str:
        if self.difference is None:
            return f"refused: {self.refused}"
        return "agrees" if self.agrees else f"DIFFERS by {self.difference:.1g}"


def tried(family: Family, by_hooks: bool = False) -> dict[str, Outcome]:
    """Measure a small model of a family with every kind of edit, and hold it against the reference.

    Args:
        family: of the model.
        by_hooks: take hooks even where the lean pass agrees.
    """
    plain = family.small()
    n_heads = int(plain.config.num_attention_heads) if hasattr(plain.config, "num_attention_heads") else 1
    return edited(plain, edits_of(n_heads), by_hooks)


def edited(plain: Any, kinds: Mapping[str, tuple[Edit, ...]], by_hooks: bool = False) -> dict[str, Outcome]:
    """Measure a plain model with kinds of edits, and hold each against the reference."""
    plain.set_attn_implementation("eager")
    tokens = torch.randint(VOCAB, (3, LENGTH), generator=torch.Generator().manual_seed(0))
    reference = Reference(copy.deepcopy(plain), tokens)
    batch = Batch(tokens, tokens, torch.ones_like(tokens, dtype=torch.bool))
    outcomes: dict[str, Outcome] = {}
    for name, edits in kinds.items():
        try:
            architecture = models.described(plain)
            built = models.build(architecture)
            models.load(built, plain.state_dict())
            plan = Plan(architecture, [Predictions(edits)], batch, by_hooks=by_hooks)
            read = readings(plan, Checkpoint(built, 0, {})).of["Predictions"][0]
        except ValueError as reason:
            outcomes[name] = Outcome(None, str(reason))
            continue
        expected = [reference.run(edit) for edit in ((), *edits)]
        for edit, each in zip(edits, expected[1:], strict=True):
            whole = any(isinstance(part, RestrictContext) and part.context >= widest(plain.config) for part in edit)
            if bool((each - expected[0]).abs().max() < 1e-3) is not whole:
                raise AssertionError(f"the reference of {type(plain).__name__} does not make the edit {edit}")
        pairs = zip(read.values.unbind(1), expected, strict=True)
        outcomes[name] = Outcome(max(float((one - other).abs().max() / other.std()) for one, other in pairs))
    return outcomes


def widest(config: Any) -> int:
    """Return how many positions a query sees: of its own sequence all, but where each layer has the same window."""
    mixed = getattr(config, "layer_types", None) is not None and "full_attention" in config.layer_types
    return min(LENGTH, LENGTH if mixed else getattr(config, "sliding_window", None) or LENGTH)


def short(outcome: Outcome) -> str:
    """Return an outcome for the table, its reason without the family's own name and the version."""
    text = re.sub(r"(?<=bridge) of transformer-lens [\d.]+", "", str(outcome)).partition(". ")[0]
    text = re.sub(r"( around| for| of)? ?\w+(For|LMHead)\w+", "", text.partition(": they differ")[0])
    text = re.sub(r"has no hook .*: (?=TransformerLens shows)", "", text)
    return text.partition(", so that")[0].replace("|", "/").replace(":  ", ": ")


def main(names: list[str]) -> None:
    """Print the table."""
    import transformers

    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    transformers.utils.logging.set_verbosity_error()
    print("| family | ablated heads | restricted context |\n| --- | --- | --- |")
    worst, counts = 0.0, [0, 0]
    for name, family in families().items():
        if not names or name in names:
            outcomes = tried(family)
            worst = max([worst, *(one.difference or 0.0 for one in outcomes.values())])
            counts = [count + one.agrees for count, one in zip(counts, outcomes.values(), strict=True)]
            print(f"| {name} | {' | '.join(short(outcome) for outcome in outcomes.values())} |", flush=True)
    agree = f"{counts[0]} families and variants agree under ablation, {counts[1]} under a restricted context"
    print(f"\n{agree}, to {worst:.0e} of the spread.")


if __name__ == "__main__":
    main(sys.argv[1:])
