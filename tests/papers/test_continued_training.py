"""A model that is trained on: what is drawn anew, what is trained, and a run that was stopped and resumes."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from stagewise.checkpoints.series import open_series
from stagewise.papers.continued_training import AGAIN, PLAIN, Plan, _draw_anew, _heads_moved, _train_on, continued
from stagewise.table import select

SMALL = Plan({1: (1,)}, first=1, sequences=4, length=16, again=4, warmup=2, steps=4, every=2)
TEXT = torch.arange(200) % 31
"""Tokens below 31 of a vocabulary of 40: others are random."""


def small() -> Any:
    """A Llama of two layers, whose four heads share two keys."""
    sizes = {"vocab_size": 40, "hidden_size": 16, "intermediate_size": 24, "max_position_embeddings": 64}
    heads = {"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "tie_word_embeddings": True}
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes, **heads, bos_token_id=0, eos_token_id=0))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(20 if parameter.ndim > 1 else 1)
    return model


def test_one_key_and_the_queries_that_read_it_are_drawn_anew_and_nothing_else() -> None:
    model, before = small(), small().state_dict()
    _draw_anew(model, {1: (1,)})
    changed = {name: (weight != before[name]).any(1) for name, weight in model.state_dict().items() if weight.ndim == 2}
    rows = {name: which.nonzero()[:, 0].tolist() for name, which in changed.items() if which.any()}
    assert rows == {
        "model.layers.1.self_attn.q_proj.weight": list(range(8, 16)),
        "model.layers.1.self_attn.k_proj.weight": list(range(4, 8)),
    }


def test_heads_that_moved_are_those_whose_queries_or_outputs_changed() -> None:
    before, after = (small().state_dict() for _ in range(2))
    attention = "model.layers.1.self_attn."
    after[f"{attention}q_proj.weight"][4:8] *= 2
    after[f"{attention}o_proj.weight"][:, 12:] *= 1.5
    moved = _heads_moved(before, after, n_heads=4)
    assert [head for head, part in moved.items() if part] == [(1, 1), (1, 3)]
    query, output = (before[f"{attention}q_proj.weight"][4:8], before[f"{attention}o_proj.weight"][:, 4:8])
    assert moved[1, 1] == pytest.approx(float(query.norm() / torch.cat([query, output.T], 1).norm()))


def test_half_of_the_sequences_are_random_and_each_ends_on_tokens_that_it_had_before() -> None:
    tokens = SMALL.tokens(TEXT, 3, 40)
    assert torch.equal(tokens, SMALL.tokens(TEXT, 3, 40))
    assert not torch.equal(tokens, SMALL.tokens(TEXT, 4, 40))
    for row in tokens:
        windows = row[:-4].unfold(0, 4, 1)
        assert (windows == row[-4:]).all(1).any()
    text = dataclasses.replace(SMALL, again=0).tokens(TEXT, 3, 40)
    assert (text.diff(dim=1) % 31 == 1).all()


def test_a_run_that_was_stopped_resumes_with_the_same_bits_and_the_lower_layers_stay(tmp_path: Path) -> None:
    _train_on(small(), TEXT, tmp_path / "whole", SMALL)
    _train_on(small(), TEXT, tmp_path / "parts", dataclasses.replace(SMALL, steps=2))
    _train_on(small(), TEXT, tmp_path / "parts", SMALL)
    whole, parts = open_series(tmp_path / "whole"), open_series(tmp_path / "parts")
    assert whole.steps == parts.steps == (0, 2, 4)
    last, first = whole.load(4), whole.load(0)
    assert all(torch.equal(weight, parts.load(4)[name]) for name, weight in last.items())
    moved = {name for name, weight in last.items() if not torch.equal(weight, first[name])}
    assert moved == {name for name in last if ".layers.1." in name}


@pytest.mark.one_of(2)
@pytest.mark.parametrize("plan", [SMALL, dataclasses.replace(SMALL, drawn={}, again=0)], ids=["anew", "plain"])
def test_the_checkpoints_are_analysed_with_the_model_before_as_a_reference(plan: Plan, tmp_path: Path) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = Tokenizer(models.WordLevel({str(number): number for number in range(40)}, unk_token="0"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    small().save_pretrained(tmp_path / "model")
    transformers.PreTrainedTokenizerFast(tokenizer_object=words).save_pretrained(tmp_path / "model")
    (tmp_path / "text.txt").write_text(" ".join(map(str, TEXT.tolist())))
    table = continued(tmp_path / "model", tmp_path / "text.txt", tmp_path / "run", plan).table
    kl = select(table, "KLToReference", "kl").set_index("step")["value"]
    assert kl.index.tolist() == [0, 2, 4]
    assert bool(kl[0] < 1e-3) is (not plan.drawn)
    assert kl[4] > 1e-4
    assert (tmp_path / "run" / "analysis" / "report.html").exists()


def test_both_plans_train_the_same_layers() -> None:
    assert AGAIN.first == PLAIN.first <= min(AGAIN.drawn)
