"""The paper's WikiText model: its initial weights replayed, its batches, its probe."""

import math

import numpy as np
import pytest
import torch

from stagewise.papers.scan_and_snap._wikitext_model import Baseline, blocks, columns, probe_entropy, text_loss
from stagewise.papers.tasks import WikiText

RECORDED = 1e-4
"""Check T14's tolerance, nats."""

D_VOCAB = 28_782
INITIAL = {1: (10.622020, 2.495230), 2: (10.662874, 2.494934), 3: (10.654023, 2.541739)}
"""Validation loss and probe entropy of the recorded one-layer runs at iteration 0."""


@pytest.fixture(scope="module")
def validation(wikitext: str) -> torch.Tensor:
    return columns(WikiText(data=wikitext, tokenizer="basic_english").corpus().ids["validation"], 10)


@pytest.mark.slow
@pytest.mark.parametrize("seed", INITIAL)
def test_the_initial_attention_is_the_recorded_one(seed: int, validation: torch.Tensor) -> None:
    # Check T14.
    assert validation.shape == (21_441, 10)
    assert probe_entropy(Baseline(D_VOCAB, seed=seed), validation) == pytest.approx([INITIAL[seed][1]], abs=RECORDED)


def test_the_first_of_two_layers_starts_as_the_only_one_of_one(validation: torch.Tensor) -> None:
    first, _ = probe_entropy(Baseline(D_VOCAB, n_layers=2, seed=1), validation)
    assert first == pytest.approx(INITIAL[1][1], abs=RECORDED)


@pytest.mark.slow
@pytest.mark.parametrize("seed", INITIAL)
def test_the_initial_loss_is_the_recorded_one(seed: int, validation: torch.Tensor) -> None:
    # Check T14.
    assert text_loss(Baseline(D_VOCAB, seed=seed), validation) == pytest.approx(INITIAL[seed][0], abs=RECORDED)


def test_attention_is_causal_and_looks_at_itself() -> None:
    model = Baseline(7, n_layers=2).eval()
    tokens = torch.randint(7, (6, 3), generator=torch.Generator().manual_seed(0))
    logits, patterns = model(tokens)
    assert patterns.shape == (2, 3, 6, 6)
    assert not patterns.triu(1).any()
    assert (patterns.diagonal(dim1=-2, dim2=-1) > 0).all()
    torch.testing.assert_close(patterns.sum(-1), torch.ones(2, 3, 6))
    torch.testing.assert_close(model(tokens[:4])[0], logits[:4])


def test_the_layers_are_torchs_own() -> None:
    model = Baseline(7, n_layers=2).eval()
    tokens = torch.randint(7, (5, 2), generator=torch.Generator().manual_seed(1))
    place = torch.arange(5)[:, None] / 10_000 ** (torch.arange(200) // 2 * 2 / 200)
    position = torch.where(torch.arange(200) % 2 == 0, place.sin(), place.cos())
    x = model.embedding(tokens) * math.sqrt(200) + position[:, None]
    for layer in model.layers:
        x = layer(x, src_mask=torch.nn.Transformer.generate_square_subsequent_mask(5), is_causal=True)
    torch.testing.assert_close(model(tokens)[0], model.decoder(x), atol=1e-4, rtol=1e-4)


def test_the_loss_is_the_mean_over_all_words_but_the_first_row() -> None:
    model = Baseline(7)
    rows = columns(np.arange(2 * 90) % 7, 2)
    losses = []
    model.eval()
    for words, targets in blocks(rows):
        log_probs = model(words)[0].log_softmax(-1)
        losses += (-log_probs.gather(-1, targets[..., None])).flatten().tolist()
    assert len(losses) == 2 * 89
    assert text_loss(model, rows) == pytest.approx(np.mean(losses), abs=1e-5)


def test_seeds_repeat_and_leave_the_global_generator_alone() -> None:
    state = torch.get_rng_state()
    first, again, other = Baseline(7, seed=1), Baseline(7, seed=1), Baseline(7, seed=2)
    assert torch.equal(first.decoder.weight, again.decoder.weight)
    assert not torch.equal(first.decoder.weight, other.decoder.weight)
    assert torch.equal(torch.get_rng_state(), state)
