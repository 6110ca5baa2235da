"""stagewise: in which stages did a model's attention heads learn what they do?

    train(recipe, folder) -> CheckpointSeries      open_series(folder) -> CheckpointSeries
    measure(series, probes, batch) -> table        find_stages(table) -> Stages
    plot.*(table) -> Axes                          report(folder) -> report.html
    analyse(series) -> all of it, for any series of checkpoints

Names are imported when they are first used: `import stagewise` costs no torch.

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
- context: number of last tokens that a restricted context or a restricted model holds.
- kind: how a head is ablated: zero, mean, resample, pattern or values; or held in training.
- control: "head", or what the matched control is: "random head", "random head 1", "random direction" and so on.
- transition: what an intervention in training delays.
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
- seed: of several trainings, which one.
- probe: class name of the probe.
- quantity: name of the value within the probe.
- value: the measured value, averaged over the batch.
- lo, hi: ends of the 95 % bootstrap interval.
- n: number of sequences averaged.
- resamples: the value in every bootstrap resample, of what stages and onsets are found in.
- map: the cells of a map over queries and keys, query after query, in one row without a value; see `table.maps_in`.
- nested: rank of the row's reference among the nested partial solutions, from 1; 0 for other references.
"""

import re
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stagewise import plot as plot
    from stagewise.analysis import Analysis as Analysis
    from stagewise.analysis import analyse as analyse
    from stagewise.analysis import run as run
    from stagewise.architecture import Architecture as Architecture
    from stagewise.architecture import OneHotInit as OneHotInit
    from stagewise.architecture import full as full
    from stagewise.architecture import minimal as minimal
    from stagewise.checkpoints.seeds import open_seeds as open_seeds
    from stagewise.checkpoints.series import CheckpointSeries as CheckpointSeries
    from stagewise.checkpoints.series import open_series as open_series
    from stagewise.detection.criteria import StageCriteria as StageCriteria
    from stagewise.detection.delays import mean_delays as mean_delays
    from stagewise.detection.early_warning import predict_onset as predict_onset
    from stagewise.detection.lineage import Lineage as Lineage
    from stagewise.detection.lineage import find_lineage as find_lineage
    from stagewise.detection.mixed_law import compare_laws as compare_laws
    from stagewise.detection.mixed_law import fit_mixed as fit_mixed
    from stagewise.detection.onsets import find_onsets as find_onsets
    from stagewise.detection.own_curves import curves as curves
    from stagewise.detection.power_law import PowerLaw as PowerLaw
    from stagewise.detection.power_law import fit_interval_censored as fit_interval_censored
    from stagewise.detection.power_law import fit_log_linear as fit_log_linear
    from stagewise.detection.replicates import Replicates as Replicates
    from stagewise.detection.replicates import find_replicates as find_replicates
    from stagewise.detection.replicates import load_replicates as load_replicates
    from stagewise.detection.second_opinion import second_opinion as second_opinion
    from stagewise.detection.stages import Stages as Stages
    from stagewise.detection.stages import find_stages as find_stages
    from stagewise.detection.stages import load_stages as load_stages
    from stagewise.detection.stages import stages_of as stages_of
    from stagewise.detection.thresholds import emergence_times as emergence_times
    from stagewise.init import GaussianInit as GaussianInit
    from stagewise.init import LinearInit as LinearInit
    from stagewise.intervention import AblateHead as AblateHead
    from stagewise.intervention import AblateMLP as AblateMLP
    from stagewise.intervention import PatchEdge as PatchEdge
    from stagewise.intervention import RestrictContext as RestrictContext
    from stagewise.measurement.comparing import compare_checkpoints as compare_checkpoints
    from stagewise.measurement.engine import measure as measure
    from stagewise.measurement.learning_coefficient import learning_coefficients as learning_coefficients
    from stagewise.measurement.trajectory import trajectory as trajectory
    from stagewise.plan import ClampHead as ClampHead
    from stagewise.plan import linear as linear
    from stagewise.plan import logarithmic as logarithmic
    from stagewise.probe import AbstractPatternProbe as AbstractPatternProbe
    from stagewise.probe import AbstractProbe as AbstractProbe
    from stagewise.probe import Reading as Reading
    from stagewise.probe import View as View
    from stagewise.recipe import Recipe as Recipe
    from stagewise.recipe import Seeds as Seeds
    from stagewise.recipe import TrainPlan as TrainPlan
    from stagewise.replay.densifying import densify as densify
    from stagewise.replay.intervening import intervene as intervene
    from stagewise.reporting.attention_view import show_attention as show_attention
    from stagewise.reporting.comparison import compare as compare
    from stagewise.reporting.page import report as report
    from stagewise.sweeping import grid as grid
    from stagewise.sweeping import sweep as sweep
    from stagewise.table import Quantity as Quantity
    from stagewise.table import select as select
    from stagewise.task import AbstractTask as AbstractTask
    from stagewise.task import Batch as Batch
    from stagewise.theory.dynamics import predict as predict
    from stagewise.training import train as train
    from stagewise.training_together import train_together as train_together

_PUBLIC = re.findall(r"^    from (\S+) import (\w+) as \2$", Path(__file__).read_text(encoding="utf8"), re.MULTILINE)
_HOME = {name: module for module, name in _PUBLIC}
"""Public name -> the module that it is imported from, by the one list that type checkers read too: the one above."""

__all__ = list(_HOME)


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'stagewise' has no attribute {name!r}")
    if _HOME[name] == __name__:
        return import_module(f"{__name__}.{name}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
