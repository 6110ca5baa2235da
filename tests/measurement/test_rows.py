"""From readings to rows: means, intervals, resamples."""

import dataclasses
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from stagewise import models
from stagewise.architecture import Architecture
from stagewise.architectures import full, minimal
from stagewise.checkpoints import not_finite
from stagewise.checkpoints.series import CheckpointSeries, open_series
from stagewise.intervention import AblateHead, RestrictContext
from stagewise.measurement._rows import (
    _NOT_FINITE,
    Table,
    bootstrap_weights,
    check_batch,
    checked_readings,
    checkpoint_labels,
    merge,
    rows,
    tidy_columns,
    unmeasured,
)
from stagewise.measurement.engine import measure
from stagewise.probe import Reading
from stagewise.probes import EdgeAttribution, HeadAttribution, Loss
from stagewise.table import Quantity, maps_in, tidy
from stagewise.task import Batch
from tests.conftest import unchecked_types

DOUBLE = 1e-12
"""Means of a few dozen doubles."""

N = 40
WEIGHTS = bootstrap_weights(N, 200)


def reading(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(N, *shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_weights_are_counts_of_a_resample_with_replacement() -> None:
    counts = bootstrap_weights(7, 50) * 7
    np.testing.assert_allclose(counts, counts.round(), atol=DOUBLE)
    np.testing.assert_allclose(counts.sum(1), 7, atol=DOUBLE)
    # The share of sequences left out of a resample is (1 - 1/n)^n.
    assert (bootstrap_weights(N, 2000) == 0).mean() == pytest.approx((1 - 1 / N) ** N, abs=0.01)


def test_weights_repeat_with_their_seed() -> None:
    assert np.array_equal(bootstrap_weights(9, 5, 1), bootstrap_weights(9, 5, 1))
    assert not np.array_equal(bootstrap_weights(9, 5, 1), bootstrap_weights(9, 5, 2))


def test_values_are_means_over_the_batch_by_named_axes() -> None:
    values = reading(2, 3)
    table = rows(Reading("batch layer relation", values, "mass", {"relation": ["a", "b", "c"]}), WEIGHTS)
    for layer in range(2):
        for index, name in enumerate("abc"):
            row = table[(table["layer"] == layer) & (table["relation"] == name)]
            assert row["value"].item() == pytest.approx(sum(values[:, layer, index].tolist()) / N, abs=DOUBLE)
    assert table["n"].eq(N).all()


def test_intervals_are_percentiles_of_the_resampled_means() -> None:
    values = reading(3)
    table = rows(Reading("batch head", values, "mass"), WEIGHTS, Quantity("mass", progress="up"))
    for head in range(3):
        means = sorted(sum(w * v for w, v in zip(row, values[:, head].tolist(), strict=True)) for row in WEIGHTS)
        lo, hi = np.percentile(means, [2.5, 97.5])
        assert list(table.loc[head, ["lo", "hi"]]) == pytest.approx([lo, hi], abs=DOUBLE)
        np.testing.assert_allclose(sorted(table["resamples"][head]), means, rtol=1e-5, atol=1e-6)


def test_what_does_not_exist_in_a_sequence_is_in_no_mean_and_no_resample() -> None:
    values, exists = reading(3), torch.zeros(N, 3, dtype=torch.bool)
    exists[:15, 0], exists[:, 1] = True, True
    table = rows(Reading("batch head", values, "mass", exists=exists), WEIGHTS)
    assert table[["head", "n"]].values.tolist() == [[0, 15], [1, N]]  # and no row of what is nowhere
    few = values[:15, 0].numpy()
    means = [(row[:15] @ few) / row[:15].sum() for row in WEIGHTS]
    assert table["value"][0] == pytest.approx(few.mean(), abs=DOUBLE)
    assert list(table.loc[0, ["lo", "hi"]]) == pytest.approx(np.percentile(means, [2.5, 97.5]), abs=DOUBLE)
    whole = rows(Reading("batch head", values, "mass"), WEIGHTS)
    assert list(table.loc[1, ["value", "lo", "hi"]]) == pytest.approx(list(whole.loc[1, ["value", "lo", "hi"]]))


def test_a_statistic_is_of_the_means_over_what_exists() -> None:
    values, exists = reading(2), torch.arange(N)[:, None] < torch.tensor([10, N])
    one = Reading("batch", values, "largest", statistic=lambda means: np.asarray(means.max(-1)), exists=exists)
    row = rows(one, WEIGHTS).iloc[0]
    assert row["value"] == pytest.approx(max(values[:10, 0].mean().item(), values[:, 1].mean().item()), abs=DOUBLE)
    assert row["n"] == 10


def test_a_resample_without_any_of_the_sequences_has_their_mean() -> None:
    exists = (torch.arange(N) == 0)[:, None]
    row = rows(Reading("batch head", reading(1), "mass", exists=exists), WEIGHTS).iloc[0]
    assert row["lo"] == row["value"] == row["hi"] == reading(1)[0].item()


def test_what_exists_is_put_together_from_slices() -> None:
    values, exists = reading(2, 3), torch.rand(N, 1, 3, generator=torch.Generator().manual_seed(0)) < 0.5
    exists[10:20] = True
    axes, labels = "batch head relation", {"relation": ["a", "b", "c"]}
    parts = [
        Reading(axes, values[:10], "mass", labels, exists=exists[:10]),
        Reading(axes, values[10:20], "mass", labels),
        Reading(axes, values[20:], "mass", labels, exists=exists[20:]),
    ]
    merged = merge(parts, [10, 10, 20])
    assert merged is not None
    assert merged.exists is not None
    assert torch.equal(merged.exists, exists)


def test_intervals_cover_a_known_mean_at_about_their_rate() -> None:
    covered = 0
    for seed in range(300):
        row = rows(Reading("batch", 5 + reading(seed=seed), "mass"), WEIGHTS).iloc[0]
        covered += row["lo"] <= 5 <= row["hi"]
    # Percentile intervals of 40 Gaussian values cover 93 to 94 %; three binomial standard errors are 4 %.
    assert 0.895 <= covered / 300 <= 0.975


@pytest.mark.parametrize("values", [reading(4), torch.full((N, 4), 0.1), torch.zeros(N, 4), reading(4).exp() * 1e6])
def test_a_value_lies_in_its_interval(values: torch.Tensor) -> None:
    table = rows(Reading("batch head", values, "mass"), WEIGHTS)
    assert (table["lo"] <= table["value"]).all()
    assert (table["value"] <= table["hi"]).all()


def test_a_value_of_a_biased_statistic_lies_in_its_interval() -> None:
    # The largest of many equal means is biased upwards in every resample.
    biased = Reading("batch", reading(200), "largest", statistic=lambda means: np.asarray(means.max(-1)))
    row = rows(biased, WEIGHTS).iloc[0]
    assert row["lo"] <= row["value"] <= row["hi"]


def test_a_statistic_is_of_the_means_and_not_the_mean_of_statistics() -> None:
    values = reading(2)
    ratio = Reading("batch", values, "ratio", statistic=lambda means: np.asarray(means[..., 0] / means[..., 1]))
    row = rows(ratio, WEIGHTS).iloc[0]
    assert row["value"] == pytest.approx(float(values[:, 0].mean() / values[:, 1].mean()), abs=DOUBLE)
    means = WEIGHTS @ values.numpy()
    np.testing.assert_allclose(row["resamples"], means[:, 0] / means[:, 1], rtol=1e-5)


def test_a_reading_without_batch_has_no_interval() -> None:
    table = rows(Reading("layer head", torch.eye(2), "cosine"), WEIGHTS)
    assert table["value"].tolist() == [1, 0, 0, 1]
    assert not {"lo", "hi", "n", "resamples"} & set(table.columns)


def test_a_map_is_one_row_with_all_its_cells() -> None:
    maps = reading(3, 5, 5)[:2]
    axes = {"query": range(5), "key": range(5)}
    table = rows(Reading("layer head query key", maps, "attention", axes), WEIGHTS)
    assert table[["layer", "head"]].to_numpy().tolist() == [[layer, head] for layer in range(2) for head in range(3)]
    np.testing.assert_array_equal(maps_in(table).reshape(2, 3, 5, 5), maps.float().numpy())
    assert table["value"].isna().all()


@pytest.mark.parametrize(
    ("shape", "keys"), [((2, 4, 3), range(3)), ((2, 3, 3), range(1, 4))], ids=["oblong", "not from 0 on"]
)
def test_a_map_of_some_positions_only_is_a_row_a_cell(shape: tuple[int, ...], keys: range) -> None:
    labels = {"query": range(shape[1]), "key": keys}
    table = rows(Reading("head query key", torch.rand(shape), "attention", labels), WEIGHTS)
    assert len(table) == math.prod(shape)
    assert table["key"].unique().tolist() == list(keys)


def test_a_batch_of_one_sequence_has_an_interval_of_no_width() -> None:
    row = rows(Reading("batch", torch.tensor([3.0]), "mass"), bootstrap_weights(1, 10)).iloc[0]
    assert (row["lo"], row["value"], row["hi"], row["n"]) == (3, 3, 3, 1)


def test_a_checkpoint_is_labelled_with_what_is_known_of_it() -> None:
    made = minimal(d_vocab=5, n_ctx=4)
    series = CheckpointSeries("run", made, (0, 10), lambda step: {}, tokens={10: 640}, seed=3)
    assert checkpoint_labels(series, 10) == {"run": "run", "step": 10, "tokens": 640, "seed": 3}
    assert checkpoint_labels(series, 0) == {"run": "run", "step": 0, "seed": 3}


def test_resamples_are_kept_of_what_onsets_and_stages_are_found_in_whatever_its_size() -> None:
    heads = Reading("batch head", reading(400), "mass")
    assert "resamples" in rows(heads, WEIGHTS, Quantity("mass", progress="up"))
    assert "resamples" not in rows(heads, WEIGHTS, Quantity("mass"))
    assert "resamples" in rows(Reading("batch reference", reading(2), "kl", {"reference": ["a", "b"]}), WEIGHTS)


def test_a_margin_widens_intervals_within_the_range_and_brings_its_own_number_of_sequences() -> None:
    values, margin = reading(3).abs(), torch.tensor([0.0, 0.1, 9.0])
    plain = Reading("batch layer", values, "kl")
    wider = Reading("batch layer", values, "kl", margin=margin, taken=torch.tensor([N, 4, 2]))
    one, other = (rows(each, WEIGHTS, Quantity("KL", "nats", (0, None))) for each in (plain, wider))
    assert other["n"].tolist() == [N, 4, 2]
    np.testing.assert_array_equal(one["value"], other["value"])
    np.testing.assert_allclose(other["hi"] - one["hi"], margin, atol=1e-6)
    np.testing.assert_allclose(other["lo"], [one["lo"][0], one["lo"][1] - 0.1, 0], atol=1e-6)


def test_columns_are_joined_and_what_a_block_lacks_is_missing() -> None:
    table = tidy_columns([{"step": 0, "value": [0.5, 0.25]}, {"step": 0, "head": [1], "value": [2.0]}])
    assert table["value"].tolist() == [0.5, 0.25, 2.0]
    assert table["head"].isna().tolist() == [True, True, False]


def test_a_table_prints_its_axes_in_one_column_and_the_ends_of_many_rows() -> None:
    rows = pd.DataFrame({"step": range(100), "value": 1 / 3, "layer": [0, pd.NA] * 50, "head": [1, pd.NA] * 50})
    frame = Table(tidy([rows.assign(run="run", probe="Loss", quantity="excess", resamples=None)]))
    lines = repr(frame).splitlines()
    assert lines[0].split() == ["run", "step", "probe", "quantity", "axes", "value"]
    assert lines[1].split() == ["run", "0", "Loss", "excess", "layer", "0,", "head", "1", "0.3333"]
    assert len(lines) == 1 + 16 + 1
    assert lines[-1] == "100 rows, the first and the last 8 shown"
    assert "<table" in frame._repr_html_()


def test_a_table_is_a_data_frame_in_all_else() -> None:
    frame = Table({"step": [0, 1], "value": [1.0, 2.0]})
    assert isinstance(frame[frame["step"] > 0], Table)
    assert repr(frame[["step"]]) == " step\n    0\n    1\n2 rows"
    assert repr(frame.iloc[:0]).endswith("0 rows")
    assert frame.groupby("step")["value"].mean().tolist() == [1.0, 2.0]


def test_resamples_do_not_spill_into_a_csv() -> None:
    frame = Table({"step": [0], "value": [1.0], "resamples": [[0.5] * 200]})
    assert frame.to_csv(index=False) == "step,value\n0,1.0\n"
    assert "0.5" in str(frame.to_csv(columns=["resamples"]))


FULL = full(5, 4, n_heads=2, d_model=8, d_mlp=6)


def batch(n: int = 2, low: int = 0, high: int = 4, target: int = 1, length: int = 4) -> Batch:
    tokens = torch.zeros(n, length, dtype=torch.long)
    tokens[0, 0], tokens[0, 1] = low, high
    return Batch(tokens, torch.full_like(tokens, target), torch.ones_like(tokens, dtype=torch.bool))


def test_a_path_in_place_of_a_series_is_refused() -> None:
    with unchecked_types(), pytest.raises(ValueError, match=r"a series is what `stagewise.open_series` returns, got "):
        measure(Path("runs/mine"), [Loss()], batch())  # type: ignore[arg-type]


def test_a_batch_that_fits_is_taken() -> None:
    check_batch(batch(), FULL, [(AblateHead(0, 0, "mean"),), (RestrictContext(1),)])
    check_batch(batch(1), FULL, [(AblateHead(0, 0),), (RestrictContext(1),)])


@pytest.mark.parametrize("kind", ["mean", "resample"])
def test_one_sequence_is_no_batch_to_average_over(kind: str) -> None:
    with pytest.raises(
        ValueError,
        match=rf"{kind} ablation replaces .* of other sequences, and the batch has one.*--without HeadAblation",
    ):
        check_batch(batch(1), FULL, [(AblateHead(0, 0), AblateHead(0, 1, kind))])  # type: ignore[arg-type]


@pytest.mark.parametrize("probe", [HeadAttribution(), EdgeAttribution(exact=False)])
def test_one_sequence_has_no_mean_to_attribute_to(probe: HeadAttribution | EdgeAttribution) -> None:
    two_layers = full(5, 4, n_layers=2, n_heads=2, d_model=8, d_mlp=6)
    with pytest.raises(ValueError, match=r"mean ablation replaces .* of other sequences, and the batch has one"):
        measure(open_series([(0, models.build(two_layers))]), [probe], batch(1))
    kinds = HeadAttribution("zero").attributions(two_layers)
    check_batch(batch(1), two_layers, [], attributions=kinds)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"low": -1}, "the batch holds token -1, and the series has 5 tokens, counted from 0"),
        ({"high": 5}, "the batch holds token 5, and the series has 5 tokens"),
        ({"target": 5}, "the batch holds target 5"),
        ({"target": -100}, "the batch holds target -100, .*: put any token where no prediction counts, and False"),
        ({"length": 5}, "the batch has 5 positions, and the series has 4: shorten it"),
    ],
    ids=str,
)
def test_a_batch_that_the_models_cannot_read_is_refused(given: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_batch(batch(**given), FULL, [], "the series")


def test_targets_are_the_tokens_that_the_model_predicts() -> None:
    more, fewer = (Architecture({**FULL.config, "d_vocab_out": outputs}) for outputs in (8, 3))
    check_batch(batch(target=7), more, [])
    with pytest.raises(ValueError, match="the batch holds target 4, and the model has 3 tokens"):
        check_batch(batch(target=4), fewer, [])


def test_parts_of_a_batch_that_are_of_another_size_are_named() -> None:
    uniform, mask = torch.zeros(2, 4, 6).log_softmax(-1), torch.ones(2, 4, 5, dtype=torch.bool)
    wrong = {
        r"its reference 'padded' should be of the shape \(2, 4, 5\), got \(2, 4, 6\)": {
            "references": {"padded": uniform}
        },
        r"its relation 'cut' should be of the shape \(2, 4, 4\), got \(2, 4, 5\)": {"relations": {"cut": mask}},
        r"its targets should be of the shape \(2, 4, 5\), got \(2, 4, 3\)": {"targets": torch.zeros(2, 4, 3)},
        r"its input vectors should be of the shape \(2, 4, 5\), got \(2, 4, 1\)": {"tokens": torch.zeros(2, 4, 1)},
    }
    for message, part in wrong.items():
        with pytest.raises(ValueError, match=message):
            check_batch(dataclasses.replace(batch(), **part), FULL, [])  # type: ignore[arg-type]


def test_a_sequence_without_a_scored_position_is_named() -> None:
    whole = batch(3)
    whole.scored[1] = False
    with pytest.raises(ValueError, match="sequences 1 of the batch have no scored position"):
        check_batch(whole, FULL, [])


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_a_checkpoint_that_is_not_finite_is_marked_and_named(value: float) -> None:
    state = {"W_Q": torch.ones(3), "attn.IGNORE": torch.tensor(-float("inf"))}
    assert not not_finite(state)
    state["W_Q"][1] = value
    with pytest.warns(UserWarning, match=r"step 3 holds nan or infinity \(W_Q\): nothing is measured there"):
        marker = unmeasured(not_finite(state), "step 3")
    assert marker[["quantity", "value"]].values.tolist() == [[_NOT_FINITE, 1.0]]


def test_readings_may_come_one_after_the_other() -> None:
    readings = [Reading("batch", torch.zeros(2), "loss"), Reading("layer", torch.zeros(3), "norm")]
    assert checked_readings(Loss(), iter(readings), 2) == readings


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (Reading("batch", torch.zeros(2), "loss"), r"Loss\.read returns a list of readings, got Reading"),
        (None, r"Loss\.read returns a list of readings, got NoneType"),
        ([torch.zeros(2)], r"Loss\.read returns a list of readings, got list"),
        ([Reading("batch", torch.zeros(3), "loss")], r"Loss reads 'loss' of 3 sequences, and `view\.batch` has 2"),
    ],
    ids=str,
)
def test_what_is_no_reading_of_the_batch_is_refused_by_the_probes_name(given: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        checked_readings(Loss(), given, 2)
