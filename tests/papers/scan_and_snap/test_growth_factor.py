"""Growth: exp(2 (z(t) - z(0))) of each token's score, whatever the model."""

import math

import pytest
import torch

from stagewise.architecture import Architecture
from stagewise.checkpoints.series import CheckpointSeries
from stagewise.measurement.engine import measure
from stagewise.models import build, weights
from stagewise.papers.scan_and_snap._synthetic import moments_of_syn_small
from stagewise.papers.scan_and_snap.growth_factor import GrowthFactor
from stagewise.papers.scan_and_snap.published_data import population_batch
from stagewise.papers.scan_and_snap.yz_hooked import series_of
from stagewise.papers.scan_and_snap.yz_model import YZ, zeros
from stagewise.papers.scan_and_snap.yz_training import Rates
from stagewise.papers.tasks import syn_small
from stagewise.table import select
from stagewise.task import Batch


@pytest.mark.hooked_only("a native bridge does not compute with the scores that (Y, Z) edits")
def test_the_growth_of_syn_small_is_the_one_in_the_notes() -> None:
    recorded = {0: 1.0, 8: 1.712, 48: 12.90, 100: 13.13}
    moments = ((m.step, m.weights) for m in moments_of_syn_small([Rates(1.0, 1.0)]) if m.step in recorded)
    series = series_of("run", moments, 156)
    table = measure(series, [GrowthFactor()], population_batch(syn_small()), progress=False)
    growth = select(table, "GrowthFactor", "growth", token=19)
    assert dict(zip(growth["step"], growth["value"], strict=True)) == pytest.approx(recorded, rel=1e-3)


@pytest.mark.hooked_only("a native bridge does not compute with the scores that (Y, Z) edits")
def test_every_token_has_its_own_growth_since_the_first_checkpoint() -> None:
    task = syn_small()
    start, end = zeros(1, 34), zeros(1, 34)
    end.z[0, task.queries[1], task.distinct_tokens[1]] = torch.arange(10) / 10
    series = series_of("run", [(5, start), (9, YZ(end.y, end.z))], 156)
    table = measure(series, [GrowthFactor()], population_batch(task), progress=False)
    growth = select(table, "GrowthFactor", "growth", step=9).set_index("token")["value"]
    expected = {own: math.exp(2 * k / 10) for k, own in enumerate(task.distinct_tokens[1].tolist())}
    assert growth.loc[list(expected)].to_dict() == pytest.approx(expected, rel=1e-5)
    assert growth.loc[task.distinct_tokens[0].tolist()].tolist() == pytest.approx([1.0] * 10)


@pytest.mark.hooked_only("hook_attn_scores of a native model holds the pattern, and is refused")
def test_it_runs_on_any_model(two_layers: Architecture) -> None:
    tokens = torch.tensor([[0, 1, 2, 3]])
    relation = {"before": torch.ones(1, 4, 4).tril(-1).bool()}
    batch = Batch(tokens, tokens, tokens == 3, relation)
    state = weights(build(two_layers))
    series = CheckpointSeries("run", two_layers, (0, 1), lambda step: state)
    table = measure(series, [GrowthFactor("before")], batch, progress=False)
    growth = select(table, "GrowthFactor", "growth")
    assert len(growth) == 2 * 2 * 3 * 3
    assert growth["value"].tolist() == pytest.approx([1.0] * len(growth))


@pytest.mark.hooked_only("a native bridge does not compute with the scores that (Y, Z) edits")
def test_a_relation_without_keys_is_refused() -> None:
    batch = population_batch(syn_small())
    nothing = Batch(batch.tokens, batch.targets, batch.scored, {"distinct": batch.relations["distinct"] & False})
    with pytest.raises(ValueError, match="has a key of the relation 'distinct': nothing to follow"):
        measure(series_of("run", [(0, zeros(1, 34))], 156), [GrowthFactor()], nothing, progress=False)
