"""No head of an untrained model has a role, on any task of the catalogue."""

import pytest

from stagewise import models, tasks
from stagewise.checkpoints.series import CheckpointSeries
from stagewise.findings._roles import UNDECIDED, head_labels
from stagewise.measurement.engine import measure
from stagewise.presets import recipe_for
from stagewise.probes import AttentionTo, HeadSpecialisation

TASKS = ("MarkovChain", "MarkovRegression", "AssociativeRecall", "SequenceClasses", "RepeatedTokens")


@pytest.mark.one_of(2)
@pytest.mark.each_value
@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("n_heads", [4, 8])
def test_no_head_of_an_untrained_model_has_a_role(name: str, n_heads: int) -> None:
    recipe = recipe_for(getattr(tasks, name), n_heads=n_heads)
    series = CheckpointSeries(
        "untrained",
        recipe.architecture,
        (0, 1, 2),
        lambda seed: models.weights(models.build(recipe.architecture, seed)),
    )
    table = measure(series, [AttentionTo(), HeadSpecialisation()], recipe.task.probe_batch(64, seed=0), progress=False)
    assert set(head_labels(table)["label"]) <= {"diffuse", UNDECIDED}
