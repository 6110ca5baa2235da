"""Pattern clusters: planted kinds of heads are found, and identical heads are one kind."""

from collections.abc import Callable, Sequence

import pandas as pd
import pytest
import torch
from torch import Tensor

from stagewise.measurement._rows import bootstrap_weights, rows
from stagewise.probe import View
from stagewise.probes import PatternClusters
from stagewise.table import tidy

LENGTH = 6
LATE = torch.arange(LENGTH).expand(2, -1) >= 3
FLOAT32 = 1e-6
"""Means of float32 patterns."""

Maker = Callable[[int, int], Tensor]


@pytest.fixture
def table_of(view_of: Callable[..., View], looking_back: Maker) -> Callable[..., pd.DataFrame]:
    """Measure heads of one layer whose offsets, and share of uniform noise, are given a step."""

    def make(
        offsets: Sequence[Sequence[int]], noise: float = 0.0, probe: PatternClusters | None = None
    ) -> pd.DataFrame:
        probe, generator, frames = probe or PatternClusters(), torch.Generator().manual_seed(0), []
        for step, heads in enumerate(offsets):
            patterns = torch.stack([looking_back(LENGTH, offset) for offset in heads]).expand(2, 1, -1, -1, -1)
            random = torch.rand(patterns.shape, generator=generator).tril()
            random = random / random.sum(-1, keepdim=True)
            view = view_of((1 - noise) * patterns + noise * random, scored=LATE, step=step)
            for reading in probe.read(view):
                frame = rows(reading, bootstrap_weights(2, 5))
                frames.append(frame.assign(run="run", step=step, probe="PatternClusters"))
        table = tidy(frames)
        return tidy([table, probe.across(table)])

    return make


def clusters(table: pd.DataFrame) -> list[int]:
    return table[table["quantity"] == "cluster"].sort_values(["step", "head"])["value"].astype(int).tolist()


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_planted_clusters_are_found_and_numbered_by_first_appearance(
    table_of: Callable[..., pd.DataFrame], noise: float
) -> None:
    planted = [[2, 2, 2], [2, 0, 2], [1, 0, 2], [1, 0, 2], [1, 0, 2]]
    number = {2: 0, 0: 1, 1: 2}
    assert clusters(table_of(planted, noise)) == [number[offset] for heads in planted for offset in heads]


def test_two_planted_clusters_without_noise_are_two(table_of: Callable[..., pd.DataFrame]) -> None:
    assert clusters(table_of([[0, 0, 0], [0, 1, 1]])) == [0, 0, 0, 0, 1, 1]


def test_identical_heads_are_one_cluster(table_of: Callable[..., pd.DataFrame]) -> None:
    assert set(clusters(table_of([[1, 1, 1]] * 4))) == {0}


def test_heads_that_differ_by_noise_alone_are_one_cluster(table_of: Callable[..., pd.DataFrame]) -> None:
    assert set(clusters(table_of([[1] * 4] * 10, noise=0.05))) == {0}


@pytest.mark.parametrize("heads", [[1], [0, 1]])
def test_fewer_heads_than_can_be_clustered_are_one_cluster(
    table_of: Callable[..., pd.DataFrame], heads: list[int]
) -> None:
    assert set(clusters(table_of([heads]))) == {0}


def test_a_centroid_is_the_mean_profile_of_its_cluster(table_of: Callable[..., pd.DataFrame]) -> None:
    table = table_of([[2, 2, 0], [2, 2, 0], [2, 2, 0]], noise=0.1)
    profiles = table[table["quantity"] == "profile"]
    centroids = table[table["quantity"] == "centroid"].set_index(["cluster", "feature"])["value"]
    for number, heads in enumerate(([0, 1], [2])):
        for feature in ("offset 0", "offset 2"):
            members = profiles[profiles["head"].isin(heads) & (profiles["feature"] == feature)]["value"]
            assert centroids[number, feature] == pytest.approx(sum(members) / len(members), abs=FLOAT32)


def test_silhouettes_are_told_for_each_number_tried_up_to_the_largest(
    table_of: Callable[..., pd.DataFrame],
) -> None:
    table = table_of([[2, 1, 0], [2, 1, 0], [2, 1, 0]], noise=0.1, probe=PatternClusters(max_clusters=4))
    silhouettes = table[table["quantity"] == "silhouette"]
    assert silhouettes["n_clusters"].tolist() == [2, 3, 4]
    assert silhouettes["value"].idxmax() == silhouettes.index[1]
    assert silhouettes["value"].between(-1, 1).all()


def test_profiles_hold_offsets_and_relations(view_of: Callable[..., View], looking_back: Maker) -> None:
    relation = torch.ones(LENGTH, LENGTH).tril(-2).triu(-2).bool()
    view = view_of(looking_back(LENGTH, 2).expand(2, 1, 1, -1, -1), {"back 2": relation}, LATE)
    (reading,) = PatternClusters(max_offset=1).read(view)
    assert list(reading.labels["feature"]) == ["offset 0", "offset 1", "back 2"]
    assert reading.values[0, 0, 0].tolist() == [0, 0, 1]


def test_a_relation_that_is_an_offset_is_no_second_feature(view_of: Callable[..., View], looking_back: Maker) -> None:
    relation = torch.ones(LENGTH, LENGTH).tril(-2).triu(-2).bool()
    view = view_of(looking_back(LENGTH, 2).expand(2, 1, 1, -1, -1), {"offset 2": relation, "back 2": relation}, LATE)
    (reading,) = PatternClusters(max_offset=2).read(view)
    assert list(reading.labels["feature"]) == ["offset 0", "offset 1", "offset 2", "back 2"]
    assert reading.values[0, 0, 0].tolist() == [0, 0, 1, 1]


def test_clustering_the_same_table_twice_gives_the_same_rows(table_of: Callable[..., pd.DataFrame]) -> None:
    planted = [[2, 1, 0], [1, 1, 0], [2, 2, 2]]
    pd.testing.assert_frame_equal(
        table_of(planted, noise=0.2).drop(columns="resamples"),
        table_of(planted, noise=0.2).drop(columns="resamples"),
    )
