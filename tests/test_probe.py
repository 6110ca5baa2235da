"""Readings and views: axes fit, labels are there, names are checked."""

from collections.abc import Callable

import pytest
import torch

from stagewise.architecture import Architecture
from stagewise.probe import AbstractProbe, Reading, View, chosen, pattern_hooks


class Silent(AbstractProbe):
    """A probe with nothing but the one method that it must have."""

    def read(self, view: View) -> list[Reading]:
        return []


def test_a_reading_says_its_axes() -> None:
    reading = Reading("batch head", torch.zeros(4, 2), "mass")
    assert repr(reading) == "Reading(mass: batch=4 head=2)"


def test_axes_that_do_not_fit_the_values_are_refused() -> None:
    with pytest.raises(ValueError, match=r"axes 'layer head' do not fit values of shape \(2,\)"):
        Reading("layer head", torch.zeros(2), "mass")


def test_an_axis_without_labels_is_refused() -> None:
    with pytest.raises(ValueError, match="axes context, relation of 'mass' need labels"):
        Reading("layer relation context", torch.zeros(2, 2, 2), "mass")


def test_a_statistic_needs_a_batch() -> None:
    with pytest.raises(ValueError, match="axes must start with \"batch\", got 'layer'"):
        Reading("layer", torch.zeros(2), "share", statistic=lambda mean: mean)


def test_patterns_are_stacked_in_the_order_of_the_layers(view_of: Callable[..., View]) -> None:
    patterns = torch.rand(2, 3, 2, 4, 4)
    assert torch.equal(view_of(patterns).patterns, patterns)


def test_pattern_hooks_are_transformer_lenss_names(two_layers: Architecture) -> None:
    assert pattern_hooks(two_layers) == ("blocks.0.attn.hook_pattern", "blocks.1.attn.hook_pattern")


def test_a_probe_asks_for_nothing_by_default(two_layers: Architecture) -> None:
    assert not list(Silent().hooks(two_layers))
    assert not list(Silent().edits(two_layers))


def test_names_asked_for_or_all() -> None:
    there = {"a": torch.zeros(1), "b": torch.zeros(1)}
    assert chosen(None, there, "relation") == ["a", "b"]
    assert chosen(("b",), there, "relation") == ["b"]


def test_a_name_that_is_not_there_is_answered_with_those_that_are() -> None:
    with pytest.raises(ValueError, match="the batch has no relation 'c'; it has 'a'"):
        chosen(("a", "c"), {"a": torch.zeros(1)}, "relation")
    with pytest.raises(ValueError, match="the batch has no references; a task's `probe_batch` has those"):
        chosen(None, {}, "reference")
