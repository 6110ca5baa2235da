"""Readings and views: axes fit, labels are there, names are checked."""

import dataclasses
import math
from collections.abc import Callable

import numpy as np
import pytest
import torch

from stagewise.architecture import Architecture
from stagewise.intervention import AblateHead, Edit
from stagewise.probe import AbstractProbe, Reading, View, chosen, example_view, pattern_hooks
from tests.conftest import unchecked_types


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


def test_values_that_are_no_tensor_are_refused() -> None:
    with unchecked_types(), pytest.raises(TypeError, match="the values of 'mass' are a torch tensor, got ndarray"):
        Reading("layer", np.zeros(2), "mass")  # type: ignore[arg-type]


def test_a_probe_that_reads_patterns_without_asking_for_them_is_told_how_to() -> None:
    view = example_view([[[1, 0], [0.5, 0.5]]], relations={"self": [[1, 0], [0, 1]]})
    blind = dataclasses.replace(view, activations={})
    for read in ("patterns", "masses", "queries", "offsets"):
        assert getattr(view, read) is not None
        with pytest.raises(ValueError, match=r"did not ask for .*: make it an AbstractPatternProbe"):
            getattr(blind, read)


def test_an_axis_without_labels_is_refused() -> None:
    with pytest.raises(ValueError, match=r"axes context, relation of 'mass' need labels.*range"):
        Reading("layer relation context", torch.zeros(2, 2, 2), "mass")


@pytest.mark.parametrize("axes", ["batch step", "value", "seed", "tokens layer", "layer layer"])
def test_an_axis_is_called_as_no_column_is(axes: str) -> None:
    values = torch.zeros(*(2 for _ in axes.split()))
    with pytest.raises(ValueError, match=r"an axis is called .*, as a column or another axis is"):
        Reading(axes, values, "x", {name: [0, 1] for name in axes.split()})


def test_a_label_comes_once() -> None:
    with pytest.raises(ValueError, match="axis 'feature' of 'x' has a label twice: a, a"):
        Reading("feature", torch.zeros(2), "x", {"feature": ["a", "a"]})


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


def test_a_probe_is_due_at_the_steps_that_it_is_given_and_the_one_it_is_made_of_at_all() -> None:
    probe = Silent()
    some = probe.at([0, 20, 40])
    assert some.due(range(0, 50, 10)) == [0, 20, 40]
    assert probe.due((0, 10)) == [0, 10]
    assert type(some) is Silent


def test_a_view_by_hand_says_that_it_has_no_model_to_read_out() -> None:
    with pytest.raises(ValueError, match="give it a readout, by `find_readout`"):
        _ = example_view([[[1.0]]]).readout


def test_names_asked_for_or_all() -> None:
    there = {"a": torch.zeros(1), "b": torch.zeros(1)}
    assert chosen(None, there, "relation") == ["a", "b"]
    assert chosen(("b",), there, "relation") == ["b"]


def test_a_name_that_is_not_there_is_answered_with_those_that_are() -> None:
    with pytest.raises(ValueError, match="the batch has no relation 'c'; it has 'a'"):
        chosen(("a", "c"), {"a": torch.zeros(1)}, "relation")
    with pytest.raises(ValueError, match="the batch has no references; a task's `probe_batch` has those"):
        chosen(None, {}, "reference")


def test_an_example_view_holds_what_it_was_given_and_scores_everything() -> None:
    edit: Edit = (AblateHead(0, 1),)
    view = example_view(
        [[[1, 0], [0.5, 0.5]], [[1, 0], [0, 1]]],
        probs=[[0.5, 0.25, 0.25], [0, 1, 0]],
        relations={"self": [[1, 0], [0, 1]]},
        references={"guess": [[1, 0, 0], [0, 0, 1]]},
        edited={edit: [[0, 0, 1], [0, 0, 1]]},
    )
    assert (view.architecture.n_layers, view.architecture.n_heads) == (1, 2)
    assert view.architecture.config["d_vocab"] == 3
    assert view.patterns.tolist() == [[[[[1, 0], [0.5, 0.5]], [[1, 0], [0, 1]]]]]
    assert view.batch.tokens.tolist() == view.batch.targets.tolist() == [[0, 1]]
    assert view.batch.scored.all()
    assert torch.equal(view.batch.relations["self"][0], torch.eye(2, dtype=torch.bool))
    assert view.log_probs.exp().tolist() == [[[0.5, 0.25, 0.25], [0, 1, 0]]]
    assert view.batch.references["guess"].exp().tolist() == [[[1, 0, 0], [0, 0, 1]]]
    assert view.edited[edit].log_probs.exp().tolist() == [[0, 0, 1], [0, 0, 1]]
    assert view.edited[edit].loss.tolist() == [torch.inf]  # both targets are impossible
    assert view.edited[edit].kl.tolist() == [torch.inf]


def test_effects_are_what_edits_change_in_the_order_in_which_they_are_asked_for() -> None:
    one, other = (AblateHead(0, 0),), (AblateHead(0, 0, "mean"),)
    view = example_view(probs=[[0.5, 0.5]], targets=[0], edited={one: [[0.25, 0.75]], other: [[1, 0]]})
    assert view.loss.tolist() == pytest.approx([math.log(2)])
    effects = view.effects([other, one])
    assert effects.loss_change[0].tolist() == pytest.approx([-math.log(2), math.log(2)])
    assert effects.kl[0].tolist() == pytest.approx([math.inf, math.log(2) - math.log(3) / 2])


def test_an_example_view_takes_tokens_targets_and_scored_positions() -> None:
    view = example_view(tokens=[4, 2], targets=[2, 0], scored=[False, True], activations={"hook": [[[3], [5]]]})
    assert view.batch.tokens.tolist() == [[4, 2]]
    assert view.batch.targets.tolist() == [[2, 0]]
    assert view.batch.scored.tolist() == [[False, True]]
    assert view.activations["hook"].tolist() == [[[[3], [5]]]]
    assert torch.allclose(view.log_probs.exp(), torch.full((1, 2, 5), 0.2))
