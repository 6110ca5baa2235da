"""Faults planted into a clean series, each with the steps at which the audit must name it.

python -m evidence.calibration.audit.corruptions FOLDER [NAME...]      of series by `clean_series`: a table of what
was named
"""

import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path

import torch

from evidence.calibration.audit.planted import (
    Corruption,
    Inapplicable,
    Planted,
    is_embedding,
    is_gain,
    is_matrix,
    is_of_heads,
    is_square,
)
from evidence.calibration.audit.planting import (
    all_weights,
    blurred,
    byte_changed,
    copied,
    copy_of_a_distant_one,
    cut_short,
    embedding_of_another_seed,
    from_other_run,
    last_one_gone,
    layer_of_another_step,
    layers_exchanged,
    one_gone,
    one_weight,
    optimiser_state,
    own_step_disagrees,
    permuted,
    poisoned,
    shard_of_a_neighbour,
    tail_of_other_run,
    transposed,
    weight_missing,
    without_a_head,
)
from stagewise.checkpoints.audit import audit
from stagewise.checkpoints.findings import Audit
from stagewise.checkpoints.series import find

CORRUPTIONS: dict[str, Corruption] = {
    "copy of a neighbour": copied(0.0),
    "copy but for 1e-7": copied(1e-7),
    "fresh initialisation": from_other_run(1.0, lambda other, step: other.steps[0]),
    "another seed": from_other_run(1.0, lambda other, step: step),
    "half another run": from_other_run(0.5, lambda other, step: step),
    "tail of another run": tail_of_other_run,
    "all weights scaled": all_weights(lambda name, weight, _: 1.5 * weight),
    "matrix transposed": one_weight(is_square, transposed),
    "gain zeroed": one_weight(is_gain, lambda weight, _: 0 * weight),
    "gain scaled": one_weight(is_gain, lambda weight, _: 2 * weight),
    "layer of another step": layer_of_another_step,
    "embedding permuted": one_weight(is_embedding, permuted),
    "shard of a neighbour": shard_of_a_neighbour,
    "last step gone": last_one_gone,
    "own step disagrees": own_step_disagrees,
    "rounded to bfloat16": all_weights(lambda name, weight, _: weight.bfloat16().to(weight.dtype)),
    "sign flipped": one_weight(is_matrix, lambda weight, _: -weight),
    "head zeroed": one_weight(is_of_heads, without_a_head),
    "optimiser's state": optimiser_state,
    "cut short": cut_short,
    "not a number": one_weight(is_matrix, poisoned),
    "one step gone": one_gone,
}
"""The faults on which the thresholds were chosen."""


HELD_OUT: dict[str, Corruption] = {
    "noise on a matrix": one_weight(is_matrix, blurred),
    "matrix zeroed": one_weight(is_matrix, lambda weight, _: 0 * weight),
    "rows permuted": one_weight(is_of_heads, permuted),
    "layers exchanged": layers_exchanged,
    "copy of a distant one": copy_of_a_distant_one,
    "all weights scaled by 1.1": all_weights(lambda name, weight, _: 1.1 * weight),
    "embedding of another seed": embedding_of_another_seed,
    "weight missing": weight_missing,
    "byte changed": byte_changed,
}
"""Faults that were not tried before the thresholds stood."""


def tried(
    series: Path, other: Path, corruption: Corruption, step: int, generator: torch.Generator
) -> tuple[bool, set[int], Audit] | None:
    """Plant a fault into a copy: whether it was named at its step, and the steps named; None if it does not apply."""
    with tempfile.TemporaryDirectory() as scratch:
        planted = Planted(Path(shutil.copytree(series, Path(scratch) / "series")))
        try:
            expected = set(corruption(planted, step, Planted(other), generator))
        except Inapplicable:
            return None
        found = audit(find(planted.folder))
    named = {at for finding in found.findings for at in finding.steps}
    return bool(named & expected), named - expected, found


def main(folder: Path, names: list[str], corruptions: dict[str, Corruption]) -> None:
    """Print a table: of each fault how often it was named, at other steps too, and not at all."""
    counts: dict[str, Counter[str]] = {name: Counter() for name in corruptions}
    for series in sorted(folder.iterdir()):
        other = folder.parents[0].with_name(folder.parent.name + "-other") / folder.name / series.name
        if (names and series.name not in names) or not other.exists():
            continue
        steps = Planted(series).steps
        for name, corruption in corruptions.items():
            for where in (len(steps) // 3, 2 * len(steps) // 3, len(steps) - 1):
                generator = torch.Generator().manual_seed(where)
                result = tried(series, other, corruption, steps[where], generator)
                if result is None:
                    continue
                named, elsewhere, found = result
                place = "last" if where == len(steps) - 1 else "inner"
                counts[name][f"{place} {'named' if named else 'missed'}"] += 1
                counts[name]["elsewhere"] += bool(elsewhere)
                if not named or elsewhere:
                    print(f"-- {series.name}: {name} at {steps[where]}: {found}", flush=True)
    for name, count in counts.items():
        print(f"{name:26} " + ", ".join(f"{key} {n}" for key, n in sorted(count.items())))


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]), sys.argv[2:], {**CORRUPTIONS, **HELD_OUT})
