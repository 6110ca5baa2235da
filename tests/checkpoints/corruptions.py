"""Faults planted into a clean series, each with the steps at which the audit must name it.

python -m tests.checkpoints.corruptions FOLDER [NAME...]      of series by `clean_series`: a table of what was named
"""

import json
import math
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from stagewise import models
from stagewise.checkpoints.audit import audit
from stagewise.checkpoints.findings import Audit
from stagewise.checkpoints.series import find

State = dict[str, Tensor]


class Inapplicable(Exception):  # noqa: N818
    """The series has no such weight."""


class Planted:
    """The files of a series, whose weights are read and written in the form that they have."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        files = [*folder.glob("checkpoint-*"), *folder.glob("model_*.pt"), *folder.glob("checkpoints/step-*")]
        self.paths = {int(re.findall(r"\d+", path.name)[0]): path for path in files}
        self.steps = sorted(self.paths)

    def file(self, step: int) -> Path:
        """Where the weights of a step are."""
        path = self.paths[step]
        return path / "model.safetensors" if path.is_dir() else path

    def load(self, step: int) -> State:
        path = self.file(step)
        if path.suffix == ".safetensors":
            return dict(load_file(path))
        loaded = torch.load(path, weights_only=True)
        return dict(loaded.get("model", loaded))

    def save(self, step: int, state: State) -> None:
        state = {name: weight.clone().contiguous() for name, weight in state.items()}
        path = self.file(step)
        if path.suffix == ".safetensors":
            save_file(state, path)
        else:
            wrapped = "model" in (loaded := torch.load(path, weights_only=True))
            torch.save({**loaded, "model": state} if wrapped else state, path)

    def change(self, step: int, change: Callable[[str, Tensor], Tensor | None]) -> None:
        """Replace some weights of a step."""
        state = self.load(step)
        new = {name: change(name, weight) for name, weight in state.items()}
        if all(value is None or torch.equal(value, state[name]) for name, value in new.items()):
            raise Inapplicable
        self.save(step, {name: state[name] if value is None else value for name, value in new.items()})


Corruption = Callable[[Planted, int, Planted, torch.Generator], Iterable[int]]
"""Plants a fault at a step, given another run of the series; returns the steps of which one must be named."""


def is_weight(weight: Tensor) -> bool:
    return weight.is_floating_point() and weight.numel() > 8 and bool(weight.isfinite().all())


def is_gain(name: str, weight: Tensor) -> bool:
    return weight.ndim == 1 and ("ln" in name or "norm" in name) and name.endswith(("weight", ".w"))


def pick(planted: Planted, step: int, chosen: Callable[[str, Tensor], bool], generator: torch.Generator) -> str:
    names = [name for name, weight in planted.load(step).items() if is_weight(weight) and chosen(name, weight)]
    if not names:
        raise Inapplicable
    return names[int(torch.randint(len(names), (1,), generator=generator))]


def neighbour(planted: Planted, step: int) -> int:
    return planted.steps[planted.steps.index(step) - 1]


def one_weight(
    chosen: Callable[[str, Tensor], bool], change: Callable[[Tensor, torch.Generator], Tensor]
) -> Corruption:
    def plant(planted: Planted, step: int, other: Planted, generator: torch.Generator) -> Iterable[int]:
        name = pick(planted, step, chosen, generator)
        planted.change(step, lambda n, weight: change(weight, generator) if n == name else None)
        return [step]

    return plant


def all_weights(change: Callable[[str, Tensor, torch.Generator], Tensor | None]) -> Corruption:
    def plant(planted: Planted, step: int, other: Planted, generator: torch.Generator) -> Iterable[int]:
        planted.change(step, lambda name, weight: change(name, weight, generator) if is_weight(weight) else None)
        return [step]

    return plant


def swapped(distance: int) -> Corruption:
    def plant(planted: Planted, step: int, other: Planted, generator: torch.Generator) -> Iterable[int]:
        k = planted.steps.index(step)
        if len(planted.steps) <= distance + 1:
            raise Inapplicable
        partner = planted.steps[(k + distance) if k + distance < len(planted.steps) else (k - distance)]
        one, two = planted.load(step), planted.load(partner)
        planted.save(step, two)
        planted.save(partner, one)
        return [step, partner]

    return plant


def copied(noise: float) -> Corruption:
    def plant(planted: Planted, step: int, other: Planted, generator: torch.Generator) -> Iterable[int]:
        near = neighbour(planted, step)
        state = {
            name: weight * (1 + noise * torch.randn(weight.shape, generator=generator)) if is_weight(weight) else weight
            for name, weight in planted.load(near).items()
        }
        planted.save(step, {name: w.to(planted.load(near)[name].dtype) for name, w in state.items()})
        return [step, near]

    return plant


def from_other_run(part: float, at: Callable[[Planted, int], int]) -> Corruption:
    def plant(planted: Planted, step: int, other: Planted, generator: torch.Generator) -> Iterable[int]:
        state, foreign = planted.load(step), other.load(at(other, step))
        names = sorted(name for name in state if is_weight(state[name]))[: max(1, math.ceil(part * len(state)))]
        planted.save(step, {**state, **{name: foreign[name] for name in names}})
        return [step]

    return plant


def tail_of_other_run(planted: Planted, step: int, other: Planted, generator: torch.Generator) -> Iterable[int]:
    if not 3 <= planted.steps.index(step) <= len(planted.steps) - 3:
        raise Inapplicable
    for later in planted.steps[planted.steps.index(step) :]:
        planted.save(later, other.load(later))
    return [step]


def layer_of_another_step(planted: Planted, step: int, other: Planted, generator: torch.Generator) -> Iterable[int]:
    k = planted.steps.index(step)
    source = planted.load(planted.steps[k - 4 if k >= 4 else k + 3])
    layer = [name for name in source if re.search(r"\.(0)\.", name) and is_weight(source[name])]
    planted.save(step, {**planted.load(step), **{name: source[name] for name in layer}})
    return [step]


def shard_of_a_neighbour(planted: Planted, step: int, other: Planted, generator: torch.Generator) -> Iterable[int]:
    source = planted.load(neighbour(planted, step))
    names = sorted(name for name in source if is_weight(source[name]))
    names = names[len(names) // 2 :]
    planted.save(step, {**planted.load(step), **{name: source[name] for name in names}})
    return [step, neighbour(planted, step)]


def last_one_gone(planted: Planted, step: int, other: Planted, generator: torch.Generator) -> Iterable[int]:
    if step != planted.steps[-1]:
        raise Inapplicable
    path = planted.paths[planted.steps[-1]]
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    return [planted.steps[-1]]


def one_gone(planted: Planted, step: int, other: Planted, generator: torch.Generator) -> Iterable[int]:
    if step == planted.steps[-1]:
        raise Inapplicable
    path = planted.paths[step]
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    return [step]


def own_step_disagrees(planted: Planted, step: int, other: Planted, generator: torch.Generator) -> Iterable[int]:
    path = planted.paths[step]
    if path.suffix == ".pt":
        torch.save({"model": planted.load(step), "step": neighbour(planted, step)}, path)
    elif path.is_dir():
        record = json.loads((path / "trainer_state.json").read_text())
        record["global_step"] = neighbour(planted, step)
        (path / "trainer_state.json").write_text(json.dumps(record))
    else:
        raise Inapplicable
    return [step]


def cut_short(planted: Planted, step: int, other: Planted, generator: torch.Generator) -> Iterable[int]:
    content = planted.file(step).read_bytes()
    planted.file(step).write_bytes(content[: int(torch.randint(len(content), (1,), generator=generator))])
    return [step]


def optimiser_state(planted: Planted, step: int, other: Planted, generator: torch.Generator) -> Iterable[int]:
    after = planted.load(neighbour(planted, step))
    planted.change(step, lambda name, weight: 0.1 * (weight - after[name]) if is_weight(weight) else None)
    return [step]


def layers_exchanged(planted: Planted, step: int, other: Planted, generator: torch.Generator) -> Iterable[int]:
    state = planted.load(step)
    twins = {name: re.sub(r"\.(0|1)\.", lambda found: f".{1 - int(found[1])}.", name) for name in state}
    planted.change(step, lambda name, weight: state.get(twins[name], weight) if is_weight(weight) else None)
    return [step]


def copy_of_a_distant_one(planted: Planted, step: int, other: Planted, generator: torch.Generator) -> Iterable[int]:
    k = planted.steps.index(step)
    source = planted.steps[k - 3 if k >= 3 else k + 3]
    planted.save(step, planted.load(source))
    return [step, source]


def embedding_of_another_seed(planted: Planted, step: int, other: Planted, generator: torch.Generator) -> Iterable[int]:
    name = pick(planted, step, is_embedding, generator)
    planted.change(step, lambda n, weight: other.load(step)[n] if n == name else None)
    return [step]


def weight_missing(planted: Planted, step: int, other: Planted, generator: torch.Generator) -> Iterable[int]:
    name = pick(planted, step, is_matrix, generator)
    planted.save(step, {n: weight for n, weight in planted.load(step).items() if n != name})
    return [step]


def byte_changed(planted: Planted, step: int, other: Planted, generator: torch.Generator) -> Iterable[int]:
    content = bytearray(planted.file(step).read_bytes())
    at = int(torch.randint(len(content), (1,), generator=generator))
    content[at] ^= 1 << int(torch.randint(8, (1,), generator=generator))
    planted.file(step).write_bytes(content)
    return [step]


def transposed(weight: Tensor, generator: torch.Generator) -> Tensor:
    return weight.transpose(-1, -2).contiguous()


def without_a_head(weight: Tensor, generator: torch.Generator) -> Tensor:
    changed = weight.clone()
    changed[: 1 if weight.ndim == 3 else weight.shape[0] // 4] = 0
    return changed


def permuted(weight: Tensor, generator: torch.Generator) -> Tensor:
    return weight[torch.randperm(len(weight), generator=generator)]


def blurred(weight: Tensor, generator: torch.Generator) -> Tensor:
    noise = torch.randn(weight.shape, generator=generator)
    return (weight + 0.7 * weight.float().std() * noise).to(weight.dtype)


def is_square(name: str, weight: Tensor) -> bool:
    return weight.ndim == 2 and weight.shape[0] == weight.shape[1]


def is_matrix(name: str, weight: Tensor) -> bool:
    buffer = name.endswith(models.CONSTANTS)
    return (
        weight.ndim >= 2
        and weight.numel() >= 100
        and "pos" not in name
        and not buffer
        and not bool((weight == 0).all())
    )


def is_embedding(name: str, weight: Tensor) -> bool:
    return "W_E" in name or "wte" in name or "embed_in" in name or "embed_tokens" in name


def is_of_heads(name: str, weight: Tensor) -> bool:
    return re.search(r"W_[QKVO]|q_proj|k_proj|v_proj|query_key_value|c_attn", name) is not None and weight.ndim > 1


def poisoned(weight: Tensor, generator: torch.Generator) -> Tensor:
    changed = weight.clone()
    changed.view(-1)[3] = torch.nan
    return changed


CORRUPTIONS: dict[str, Corruption] = {
    "neighbours exchanged": swapped(1),
    "distant ones exchanged": swapped(5),
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
    "two apart exchanged": swapped(2),
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
