"""Repeated random tokens: what repeats, where each relation points, and which references hold."""

import dataclasses
import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

import stagewise
from stagewise.architecture import Architecture
from stagewise.architectures import full
from stagewise.checkpoints.series import CheckpointSeries, open_series
from stagewise.loss import kl_divergence
from stagewise.measurement._rows import check_batch
from stagewise.probe import View
from stagewise.probes import AttentionTo
from stagewise.tasks import RepeatedTokens


@pytest.mark.parametrize("bos", [None, 3])
def test_a_stretch_of_the_first_part_comes_again_and_no_token_comes_twice_in_it(bos: int | None) -> None:
    task = RepeatedTokens(d_vocab=20, length=7, bos=bos)
    batch = task.sample(200, seed=0)
    whole = torch.cat([batch.tokens, batch.targets[:, -1:]], 1)[:, int(bos is not None) :]
    assert whole.shape == (200, 10)
    assert all(len(set(row[:7].tolist())) == 7 for row in whole)
    places = [row[:7].tolist().index(row[7]) for row in whole]
    assert set(places) == {0, 1, 2, 3, 4}
    assert all(torch.equal(row[7:], row[place : place + 3]) for row, place in zip(whole, places, strict=True))
    assert bos is None or (bool((batch.tokens[:, 0] == bos).all()) and bos not in whole)


def test_a_whole_repeat_has_one_lag() -> None:
    batch = RepeatedTokens(d_vocab=20, length=6, again=6).sample(50, seed=0)
    whole = torch.cat([batch.tokens, batch.targets[:, -1:]], 1)
    assert torch.equal(whole[:, :6], whole[:, 6:])


@pytest.mark.parametrize("bos", [None, 3])
def test_the_relations_point_at_what_their_names_say(bos: int | None) -> None:
    batch = RepeatedTokens(d_vocab=20, length=6, bos=bos).sample(4, seed=1)
    for row, query in batch.scored.nonzero().tolist():
        token = batch.tokens[row, query]
        earlier = (batch.tokens[row, :query] == token).nonzero()[:, 0].tolist()
        expected = {
            "previous token": [query - 1],
            "duplicate token": earlier,
            "induction": [key + 1 for key in earlier],
            "first token": [0],
            "self": [query],
        }
        for name, keys in expected.items():
            assert batch.relations[name][row, query].nonzero()[:, 0].tolist() == keys, name


def test_a_head_that_looks_a_fixed_way_back_is_no_induction_head(view_of: Callable[..., View]) -> None:
    batch = RepeatedTokens(d_vocab=64).probe_batch(64, seed=0)
    length = batch.tokens.shape[1]
    positions = torch.arange(length)
    back = [(positions - offset).clamp(min=0) for offset in range(1, length)]
    fixed = torch.stack([torch.nn.functional.one_hot(keys, length).float() for keys in back])
    real = batch.relations["induction"].float()
    patterns = torch.cat([fixed.expand(64, -1, -1, -1), real[:, None]], 1)[:, None]
    made = dataclasses.replace(view_of(patterns, scored=batch.scored), batch=batch)
    reading, *_ = AttentionTo(("induction",)).read(made)
    *others, induction = reading.values.mean(0)[0, :, 0].tolist()
    assert induction == pytest.approx(1, abs=1e-6)
    assert max(others) < 0.2


def test_what_follows_the_induction_key_is_the_target() -> None:
    batch = RepeatedTokens(d_vocab=20, length=6).sample(4, seed=1)
    found = torch.einsum("bqk,bk->bq", batch.relations["induction"].long(), batch.tokens)
    assert torch.equal(found[batch.scored], batch.targets[batch.scored])


def test_the_copy_is_right_everywhere_and_the_sequences_tokens_are_log_length_away() -> None:
    task = RepeatedTokens(d_vocab=20, length=6, bos=0)
    batch = task.probe_batch(3, seed=0)
    assert list(batch.references) == ["uniform", "tokens of the sequence", "copy"]
    for reference in batch.references.values():
        torch.testing.assert_close(reference.exp().sum(-1), torch.ones(reference.shape[:2]))
    away = kl_divergence(batch.references["copy"], batch.references["tokens of the sequence"])[batch.scored]
    torch.testing.assert_close(away, torch.full_like(away, math.log(6)))


@pytest.mark.parametrize(("outputs", "bos"), [(9, None), (9, 10), (30, 3)])
def test_models_that_predict_other_tokens_than_they_read_are_measured(outputs: int, bos: int | None) -> None:
    sizes = {"n_layers": 1, "d_model": 8, "d_head": 4, "n_ctx": 12, "d_vocab": 12, "d_vocab_out": outputs}
    named = None if bos is None else {"model_type": "gpt2", "bos_token_id": bos}
    task = RepeatedTokens.for_model(Architecture({**sizes, "attn_only": True}, huggingface=named))
    batch = task.probe_batch(20, seed=0)
    assert int(batch.targets.max()) < min(12, outputs)
    assert batch.references["uniform"][0, 0].tolist() == pytest.approx([-math.log(outputs)] * outputs)
    for reference in batch.references.values():
        torch.testing.assert_close(reference.exp().sum(-1), torch.ones(reference.shape[:2]))
    check_batch(batch, Architecture({**sizes, "attn_only": True}), [])


@pytest.mark.parametrize(
    ("change", "few"),
    [
        ({"n_ctx": 1}, "a context of 1"),
        ({"n_ctx": 2}, "a context of 2"),
        ({"d_vocab_out": 1}, "1 tokens that are read and predicted"),
    ],
)
def test_models_that_nothing_can_repeat_for_are_refused_with_advice(change: dict[str, int], few: str) -> None:
    sizes = {"n_layers": 1, "d_model": 8, "d_head": 4, "n_ctx": 12, "d_vocab": 12, **change}
    with pytest.raises(ValueError, match=f"the model has {few}, too few for that: .*--tokens FILE"):
        RepeatedTokens.for_model(Architecture(sizes))


def series_beside(folder: Path, words: int, first: bool) -> CheckpointSeries:
    """A model of 32 tokens beside a tokenizer of so many words, which may put its last one first."""
    from tokenizers import Tokenizer, processors
    from tokenizers import models as kinds

    tokenizer = Tokenizer(kinds.WordLevel({f"w{number}": number for number in range(words)}, unk_token="w0"))
    if first:
        last = f"w{words - 1}"
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{last} $A", special_tokens=[(last, words - 1)]
        )
    tokenizer.save(str(folder / "tokenizer.json"))
    save_file(stagewise.models.build(full(32, 20)).state_dict(), folder / "step0.safetensors")
    return open_series(folder, architecture=full(32, 20))


@pytest.mark.parametrize("first", [True, False])
def test_tokens_that_the_tokenizer_of_a_series_does_not_have_are_not_drawn(first: bool, tmp_path: Path) -> None:
    task = RepeatedTokens.for_series(series_beside(tmp_path, 20, first))
    batch = task.probe_batch(200, seed=0)
    drawn = set(torch.cat([batch.tokens[:, int(first) :], batch.targets[:, -1:]], 1).flatten().tolist())
    assert drawn == set(range(20 - first))
    assert (task.bos, task.d_vocab, task.n_words) == (19 if first else None, 32, 20)
    assert batch.references["uniform"][0, 0].tolist() == pytest.approx([-math.log(32)] * 32)  # the model has them all


@pytest.mark.parametrize("words", [32, 40])
def test_a_tokenizer_with_all_tokens_of_the_model_changes_nothing(words: int, tmp_path: Path) -> None:
    series = series_beside(tmp_path, words, first=False)
    assert RepeatedTokens.for_series(series) == RepeatedTokens.for_model(series.architecture)


def test_without_a_tokenizer_a_series_has_the_task_of_its_models(tmp_path: Path) -> None:
    series = series_beside(tmp_path, 20, first=True)
    (tmp_path / "tokenizer.json").unlink()
    assert RepeatedTokens.for_series(series) == RepeatedTokens.for_model(series.architecture)


def test_seeds_repeat() -> None:
    task = RepeatedTokens(d_vocab=20, length=6)
    assert torch.equal(task.sample(3, 5).tokens, task.sample(3, 5).tokens)
    assert not torch.equal(task.sample(3, 5).tokens, task.sample(3, 6).tokens)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"length": 21}, "length must be between 2 and d_vocab = 20"),
        ({"n_outputs": 5}, "length must be between 2 and n_outputs = 5"),
        ({"n_outputs": 1}, "n_outputs must be at least 2, or None for d_vocab; got 1"),
        ({"again": 7}, "again must be between 2 and length = 6, got 7"),
        ({"again": 1}, "again must be between 2 and length = 6, got 1"),
        ({"length": 1}, "length must be between 2 and d_vocab = 20"),
        ({"bos": 20}, "bos must be one of the 20 tokens, got 20"),
    ],
)
def test_parameters_out_of_range_are_refused(change: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RepeatedTokens(**{"d_vocab": 20, "length": 6, **change})
