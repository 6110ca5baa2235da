"""stagewise: in which stages did a model's attention heads learn what they do?

    train(recipe, folder) -> CheckpointSeries      open_series(folder) -> CheckpointSeries
    measure(series, probes, batch) -> table        find_stages(table) -> Stages
    plot.*(table) -> Axes                          report(folder) -> report.html
    analyse(series) -> all of it, for any series of checkpoints

Names are imported when they are first used: `import stagewise` costs no torch. docs/api.md lists them by what one wants
to do; `architectures`, `schedules`, `tasks`, `probes`, `plot`, `table` and `statistics` hold further ones.

Axes of tensors, in every annotation and in `Reading.axes`:

- batch: sequences of the probe batch; averaged, so never a column.
- pos: positions of a sequence.
- query: the position that attends.
- key: the position that is attended to.
- token: entries of the vocabulary, by id.
- layer: layers, from 0.
- head: heads of a layer, from 0.
- step: optimiser updates before a checkpoint.
- reference: named solutions and other predictors that the model is compared with.
- relation: named sets of keys, for each query, that a head may attend to.
- offset: query position less key position; 0 is the query itself.
- position: positions of a sequence, as a label in the table.
- predictions: classes of predictions, as "of token 7" or "that repeat 2 tokens".
- context: number of last tokens that a restricted context or a restricted model holds.
- kind: how a head is ablated: zero, mean, resample, pattern or values; or held in training.
- control: "head", or what the matched control is: "random head", "random direction" and so on.
- transition: what an intervention in training delays.
- moving: of a transition that did not come, 1 where its curve was still on its way; else 0.
- change: fields of the recipe that a branch changes, with their values from its step on.
- feature: named matrices (value maps), or entries of an attention profile.
- cluster: clusters of attention patterns, by first appearance.
- n_clusters: number of clusters tried.
- row: single scored queries, from the first sequence on.
- source: the earlier head of a composition, as "L0H1".
- composition: Q, K or V.
- among: the tokens that an entropy is over: all, or those of a relation.
- threshold: attention above which a token counts as recalled.
- time: of reduced dynamics, learning rate times steps; it becomes `step`.

Columns beside the axes:

- run: name of the series.
- step: optimiser updates before the checkpoint.
- tokens: training tokens before the checkpoint, where the source records them.
- seed: of several trainings, which one; of branches, the order of their batches, 0 for the run's own.
- probe: class name of the probe.
- quantity: name of the value within the probe.
- value: the measured value, averaged over the batch.
- lo, hi: ends of the 95 % bootstrap interval.
- n: number of sequences averaged.
- resamples: the value in every bootstrap resample, of what stages and onsets are found in.
- map: the cells of a map over queries and keys, query after query, in one row without a value; see `table.maps_in`.
- nested: rank of the row's reference among the nested partial solutions, from 1; 0 for other references.
"""

import sys

if sys.argv[:1] == ["-m"] and not sys.flags.safe_path and {__name__, f"-m{__name__}"} & {*sys.orig_argv}:
    del sys.path[0]  # the current folder, which `python -m stagewise` puts before the packages that are installed

import importlib
import importlib.util
from typing import Any

import lazy_loader

_attribute, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    try:
        return _attribute(name)
    except AttributeError:
        if name.startswith("_") or name in __all__ or importlib.util.find_spec(f"{__name__}.{name}"):
            raise  # a module, which the import itself finds
    from stagewise.plain_text import did_you_mean

    rooms = (
        *("architectures", "schedules", "tasks", "probes", "plot", "table", "statistics"),
        *("init", "intervention", "saved_findings", "sweeping"),
    )
    inside = {room: dir(importlib.import_module(f"{__name__}.{room}")) for room in rooms}
    same = [f"{room}.{name}" for room, names in inside.items() if name in names]
    others = [*__all__, *(each for names in inside.values() for each in names if not each.startswith("_"))]
    hint = f" (it is stagewise.{same[0]})" if same else did_you_mean(name, others)
    raise AttributeError(f"stagewise has no {name!r}{hint}", name=name)
