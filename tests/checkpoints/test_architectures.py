"""Architectures from whatever a person has; each way gives the same model."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from stagewise import models
from stagewise.architecture import Architecture
from stagewise.checkpoints._architectures import architecture_from, asked_for
from stagewise.checkpoints.series import open_series
from tests.own_model import own_config, own_model

FIELDS = {"n_layers": 2, "d_model": 8, "d_head": 4, "n_ctx": 6, "d_vocab": 5, "act_fn": "relu"}


WAYS: dict[str, Callable[[Any, Path], Any]] = {
    "architecture": lambda model, path: Architecture(FIELDS),
    "config": lambda model, path: model.cfg,
    "model": lambda model, path: model,
    "dict": lambda model, path: model.cfg.to_dict(),
    "few fields": lambda model, path: FIELDS,
    "json text": lambda model, path: json.dumps(FIELDS),
    "json file": lambda model, path: path / "mine.json",
    "json file by name": lambda model, path: str(path / "mine.json"),
    "folder": lambda model, path: path,
}


@pytest.mark.parametrize("way", WAYS)
def test_a_series_of_files_opens_with_any_description_of_its_model(way: str, tmp_path: Path) -> None:
    model = own_model(own_config(**FIELDS, seed=0))
    for step in (0, 10):
        torch.save(model.state_dict(), tmp_path / f"model_{step}.pt")
    (tmp_path / "elsewhere").mkdir()
    for name in ("mine.json", "config.json"):
        (tmp_path / "elsewhere" / name).write_text(json.dumps(model.cfg.to_dict(), default=str))
    series = open_series(tmp_path, architecture=WAYS[way](model, tmp_path / "elsewhere"))
    built = models.build(series.architecture)
    models.load(built, series.weights(10))
    tokens = torch.arange(5)[None]
    with torch.no_grad():
        torch.testing.assert_close(built(tokens), model(tokens))


@pytest.mark.parametrize("way", ["config", "dict", "model", "json"])
def test_hugging_face_configs_and_models_are_taken(
    way: str, hugging_face: Callable[..., nn.Module], tmp_path: Path
) -> None:
    plain: Any = hugging_face("GPT2")
    plain.config.to_json_file(tmp_path / "gpt2.json")
    given = {"config": plain.config, "dict": plain.config.to_dict(), "model": plain, "json": tmp_path / "gpt2.json"}
    architecture = architecture_from(given[way])
    assert architecture.huggingface is not None
    assert (architecture.n_layers, architecture.n_heads) == (plain.config.n_layer, plain.config.n_head)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (3, r"`architecture` is a HookedTransformerConfig, a model, .*; got int: 3"),
        ("no-such-model", r"or a Hugging Face config; 'no-such-model' is no file"),
        ("{no json", r"this is no JSON"),
        ("not/there.json", r"not/there.json is not there: give a HookedTransformerConfig"),
        ({"n_layers": 2}, r"the model config lacks d_head, d_model, d_vocab, n_ctx"),
        ({**FIELDS, "n_layers": None}, r"the model config's n_layers: expected a whole number of at least 1, got null"),
        ({"model_type": "no-such-type"}, r"transformers does not know the model type"),
    ],
)
def test_what_describes_no_model_is_refused_with_what_does(given: Any, message: str) -> None:
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        architecture_from(given)


def test_the_question_has_a_line_to_copy() -> None:
    question = asked_for("own-run")
    assert "open_series('own-run', architecture=model.cfg)" in question
    assert "--architecture config.json" in question
    assert "json.dump(model.cfg.to_dict(), open('config.json', 'w'), default=str)" in question
    assert "model.config.to_json_file('config.json')" in question


KINDS: dict[str, dict[str, Any]] = {
    "plain": {}, "attention alone": {"attn_only": True}, "no norms": {"normalization_type": None},
    "norms without weights": {"normalization_type": "LNPre"}, "an MLP's width": {"d_mlp": 20},
    "a gate": {"normalization_type": "RMS", "gated_mlp": True, "act_fn": "silu"}, "outputs": {"d_vocab_out": 3},
    "rotary": {"positional_embedding_type": "rotary", "rotary_dim": 4, "rotary_base": 500},
    "rotary pairs": {"positional_embedding_type": "rotary", "rotary_dim": 4, "rotary_adjacent_pairs": True},
    "few keys": {"n_key_value_heads": 2}, "solu": {"act_fn": "solu_ln"}, "a scale of 8": {"d_head": 8},
}  # fmt: skip
"""Models whose weights lie in a folder without a config."""


@pytest.mark.hooked_only("the weights of a native bridge do not show their heads")
@pytest.mark.parametrize("kind", KINDS)
def test_the_config_of_a_hooked_transformer_is_read_off_its_weights(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fields = {"n_layers": 2, "d_model": 16, "d_head": 4, "n_heads": 4, "n_ctx": 9, "d_vocab": 7, "act_fn": "gelu"}
    model = own_model(own_config(**fields | KINDS[kind], seed=0))
    torch.save(model.state_dict(), tmp_path / "step_5.pt")
    shown = {"act_fn"} - ({"act_fn"} if kind in ("attention alone", "solu") else set())
    asked = {name: getattr(model.cfg, name) for name in shown}
    asked |= {"normalization_type": model.cfg.normalization_type} if "norms" in kind else {}
    opened = open_series(tmp_path, architecture=asked or None)
    assert "sizes are read off the weights, and taken are attention_dir = causal" in capsys.readouterr().err
    built = models.build(opened.architecture)
    models.load(built, opened.weights(5))
    tokens = torch.arange(7)[None]
    torch.testing.assert_close(models.clean_pass(built, tokens, ())[0], model(tokens).log_softmax(-1).detach())


@pytest.mark.hooked_only("the weights of a native bridge do not show their heads")
def test_what_weights_do_not_show_is_asked_for_by_name(tmp_path: Path) -> None:
    state = own_model(own_config(**FIELDS, seed=0)).state_dict()
    torch.save(state, tmp_path / "step_5.pt")
    asked = (
        r"n_layers = 2, d_model = 8, n_heads = 2, d_vocab = 5, and do not show act_fn \(.*relu, gelu.*--architecture"
    )
    with pytest.raises(ValueError, match=asked):
        open_series(tmp_path)
    torch.save({name: weight for name, weight in state.items() if ".ln" not in name}, tmp_path / "step_5.pt")
    with pytest.raises(ValueError, match=r"do not show act_fn .*; normalization_type \(null for no norms, or LNPre"):
        open_series(tmp_path)
