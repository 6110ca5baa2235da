"""Ways to plant a fault into a series: in one weight, in all, in files, between steps and between runs."""

import json
import math
import re
import shutil
from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from evidence.calibration.audit.planted import (
    Corruption,
    Inapplicable,
    Planted,
    is_embedding,
    is_matrix,
    is_weight,
    neighbour,
    pick,
)


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


def poisoned(weight: Tensor, generator: torch.Generator) -> Tensor:
    changed = weight.clone()
    changed.view(-1)[3] = torch.nan
    return changed
