"""Sources of checkpoints: folders of files, Trainer folders, models in memory."""

import argparse
import json
import os
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from stagewise import architecture
from stagewise import models as model
from stagewise.architecture import Architecture
from stagewise.checkpoints.audit import audit
from stagewise.checkpoints.series import find, open_series

CONFIG = {"n_layers": 1, "d_model": 8, "d_head": 4, "n_ctx": 6, "d_vocab": 5, "act_fn": "relu"}
Saved = Callable[..., dict[str, bytes]]


def native(seed: int) -> model.Model:
    return model.build(architecture.Architecture(CONFIG), seed)


def put(folder: Path, files: dict[str, bytes]) -> None:
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)


@pytest.fixture
def trainer_folder(tmp_path: Path, saved: Saved) -> Path:
    for seed, step in enumerate((100, 20, 1000)):
        put(tmp_path / f"checkpoint-{step}", saved("Llama", seed))
    (tmp_path / "runs").mkdir()
    return tmp_path


def test_checkpoint_folders_are_a_series_in_the_order_of_their_steps(
    trainer_folder: Path, hugging_face: Callable[..., nn.Module]
) -> None:
    series = open_series(trainer_folder)
    assert series.steps == (20, 100, 1000)
    assert (series.architecture.n_layers, series.architecture.n_heads) == (2, 4)
    for step, seed in ((20, 1), (100, 0), (1000, 2)):
        expected = dict(hugging_face("Llama", seed).named_parameters())
        assert all(torch.equal(weight, expected[name]) for name, weight in series.weights(step).items())


def test_weights_are_found_under_another_key_where_they_are_the_only_ones(tmp_path: Path) -> None:
    state = model.weights(native(1))
    torch.save({"epoch": 3, "net": state, "optimizer": {"state": {}, "param_groups": []}}, tmp_path / "m1.pt")
    torch.save({"net": state, "ema": state}, tmp_path / "m2.pt")
    series = open_series(tmp_path, architecture=CONFIG)
    assert series.weights(1).keys() == state.keys()
    with pytest.raises(ValueError, match=r"m2.pt holds no weights by name: .*; it holds net, ema"):
        series.weights(2)


def test_an_adapter_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    put(tmp_path / "checkpoint-5", {"adapter_config.json": b"{}", "adapter_model.safetensors": b""})
    with pytest.raises(ValueError, match="checkpoint-5 holds an adapter, not the weights of a model"):
        open_series(tmp_path).weights(5)


def test_a_state_dict_with_an_older_versions_masks_opens(tmp_path: Path) -> None:
    state = model.weights(native(1))
    torch.save(
        {**state, "blocks.0.attn.mask": torch.ones(6, 6), "blocks.0.attn.IGNORE": torch.tensor(0.0)}, tmp_path / "m1.pt"
    )
    series = open_series(tmp_path, architecture=CONFIG)
    other = native(0)
    model.load(other, series.weights(1))
    assert all(torch.equal(weight, state[name]) for name, weight in model.weights(other).items())


def test_sharded_weights_are_read_together(tmp_path: Path, hugging_face: Callable[..., nn.Module]) -> None:
    plain: Any = hugging_face("GPT2")
    plain.save_pretrained(tmp_path / "checkpoint-5", max_shard_size="20KB")
    assert len(list((tmp_path / "checkpoint-5").glob("*.safetensors"))) > 1
    state = open_series(tmp_path).weights(5)
    built = model.build(open_series(tmp_path).architecture)
    model.load(built, state)
    tokens = torch.arange(8)[None]
    with torch.no_grad():
        torch.testing.assert_close(built(tokens), plain(tokens).logits)
    next((tmp_path / "checkpoint-5").glob("*-00002-of-*")).unlink()
    with pytest.raises(FileNotFoundError, match=r"names model-00002-of-.*, which is not there"):
        open_series(tmp_path).weights(5)


@pytest.mark.parametrize("shards", ["20KB", "1GB"])
def test_one_saved_model_is_a_series_of_one_checkpoint(
    shards: str, tmp_path: Path, hugging_face: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    plain = hugging_face("GPT2")
    plain.save_pretrained(tmp_path / "model", max_shard_size=shards)
    capsys.readouterr()
    series = open_series(tmp_path / "model")
    assert series.steps == (0,)
    assert capsys.readouterr().err.startswith("model -> one checkpoint, called step 0")
    tokens = torch.arange(6)[None]
    with torch.no_grad():
        torch.testing.assert_close(series.model(0)(tokens), plain(tokens).logits)
    with pytest.raises(FileNotFoundError, match="not a run folder"):
        open_series(tmp_path / "model", parse=r"(?P<step>\d+)_of")


def test_parts_of_one_model_without_an_index_are_no_checkpoints(
    tmp_path: Path, hugging_face: Callable[..., Any]
) -> None:
    plain = hugging_face("GPT2")
    plain.save_pretrained(tmp_path / "model", max_shard_size="20KB")
    (tmp_path / "model" / "model.safetensors.index.json").unlink()
    series = open_series(tmp_path / "model")
    assert series.steps == (0,)
    assert series.load(0).keys() >= {name for name, _ in plain.named_parameters()}


@pytest.mark.each_value
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("kind", ["native", "GPT2", "bridge"])
def test_models_in_memory_are_a_series(kind: str, compiled: bool, hugging_face: Callable[..., nn.Module]) -> None:
    def make(seed: int) -> Any:
        if kind == "native":
            return native(seed)
        plain = hugging_face("GPT2", seed)
        if kind == "GPT2":
            return plain
        built = model.build(model.described(plain))
        model.load(built, plain.state_dict())
        return built

    held: Callable[[Any], Any] = torch.compile if compiled else lambda made: made  # compiled at its first pass: never
    series = open_series([(0, held(make(0))), (7, held(make(1)))], name="mine")
    assert (series.name, series.steps) == ("mine", (0, 7))
    built = model.build(series.architecture)
    tokens = torch.arange(5)[None]
    for seed, step in enumerate(series.steps):
        model.load(built, series.weights(step))
        given = make(seed)(tokens)
        expected = (given.logits if kind == "GPT2" else given).log_softmax(-1)
        torch.testing.assert_close(model.clean_pass(built, tokens, ())[0], expected.detach(), atol=1e-5, rtol=0)


def test_hooks_that_stay_with_a_model_in_memory_are_left_aside_with_a_line() -> None:
    hooked: Any = native(0)
    hooked.hook_dict["blocks.0.attn.hook_z"].add_perma_hook(lambda z, hook: 2 * z)
    with pytest.warns(UserWarning, match="hooks that stay of a model in memory: no part of a series"):
        open_series([(0, hooked)])


def test_hooks_of_torch_on_a_model_in_memory_are_left_aside_with_a_line_but_not_those_of_its_library(
    hugging_face: Callable[..., Any], recwarn: pytest.WarningsRecorder
) -> None:
    plain = hugging_face("Llama", 0)
    plain(torch.arange(5)[None], output_attentions=True)  # transformers hooks what it shows
    assert any(each._forward_hooks for each in plain.modules())
    open_series([(0, plain)])
    assert not [each for each in recwarn if "in memory" in str(each.message)]
    plain.model.layers[0].register_forward_hook(lambda module, given, out: 0 * out)
    with pytest.warns(UserWarning, match="hooks that stay of a model in memory: no part of a series"):
        open_series([(0, plain)])


@pytest.mark.hooked_only("the state of a compiled bridge keeps the names of what it wraps")
def test_weights_of_a_compiled_model_have_the_names_of_the_model() -> None:
    compiled: Any = torch.compile(native(0))
    series = open_series({0: compiled.state_dict()}, architecture=CONFIG)
    assert model.weights(native(0)).keys() <= series.weights(0).keys()


def test_a_mapping_from_steps_to_weights_is_the_series_of_its_pairs() -> None:
    weights = {step: model.weights(native(step)) for step in (0, 5)}
    series = open_series(weights, architecture=CONFIG)
    assert series.steps == (0, 5)
    assert torch.equal(series.weights(5)["embed.W_E"], weights[5]["embed.W_E"])


def test_chosen_steps_alone_are_opened(trainer_folder: Path) -> None:
    assert open_series(trainer_folder, steps=[20, 1000]).steps == (20, 1000)
    with pytest.raises(ValueError, match="has no step 7; its steps are 20, 100, 1000"):
        open_series(trainer_folder, steps=[20, 7])


@pytest.mark.parametrize("order", [(5, 3), (5, 5)])
def test_a_list_that_does_not_ascend_is_refused(order: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match=r"steps of a series ascend|two checkpoints of step 5: item 0 and item 1"):
        open_series([(step, native(step)) for step in order])


def test_two_files_of_one_step_are_refused(tmp_path: Path) -> None:
    for name in ("a_5.pt", "b_5.pt"):
        torch.save(model.weights(native(0)), tmp_path / name)
    with pytest.raises(ValueError, match=r"two checkpoints of step 5: a_5.pt and b_5.pt"):
        open_series(tmp_path, architecture=CONFIG)


def test_weights_without_a_config_ask_for_one(tmp_path: Path, hugging_face: Callable[..., Any]) -> None:
    torch.save(hugging_face("GPT2").state_dict(), tmp_path / "m5.pt")
    with pytest.raises(
        ValueError, match=r"nothing says which model the weights of .* belong to: put its config.json beside"
    ):
        open_series(tmp_path)


@pytest.mark.parametrize("content", [b"", b"not weights at all", b"PK\x03\x04broken"])
@pytest.mark.parametrize("name", ["m5.pt", "m5.safetensors"])
def test_a_damaged_file_is_named(content: bytes, name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=rf"{name} is truncated or damaged \(\d+ bytes"):
        open_series(tmp_path, architecture=CONFIG).weights(5)


def test_a_pickle_that_holds_something_else_is_refused(tmp_path: Path) -> None:
    torch.save({"optimiser": [1, 2]}, tmp_path / "m5.pt")
    with pytest.raises(ValueError, match=r"m5.pt holds no weights by name"):
        open_series(tmp_path, architecture=CONFIG).weights(5)


def test_an_empty_folder_says_what_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"neither checkpoint-N folders nor .safetensors, .pt"):
        open_series(tmp_path)


def test_what_is_no_model_is_refused() -> None:
    with pytest.raises(ValueError, match=r"a model in memory is a HookedTransformer.*got int"):
        open_series([(0, 3)])


@pytest.mark.parametrize("wrap", [lambda one: one, lambda one: [one, one], lambda one: [(0, one), one]])
@pytest.mark.usefixtures("unchecked")
def test_models_without_steps_are_refused(wrap: Callable[[Any], Any]) -> None:
    model = native(0)  # of either version of TransformerLens
    with pytest.raises(ValueError, match=rf"give \[\(step, model\), \.\.\.\]; got {type(model).__name__}"):
        open_series(wrap(model))


@pytest.mark.parametrize("where", ["folder", "memory"])
def test_an_encoder_is_refused_before_anything_is_measured(where: str, tmp_path: Path) -> None:
    from transformers import BertConfig, BertForMaskedLM

    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    encoder = BertForMaskedLM(BertConfig(vocab_size=20, **sizes))
    encoder.config.architectures = ["BertForMaskedLM"]
    encoder.save_pretrained(tmp_path / "checkpoint-5")
    with pytest.raises(ValueError, match="stagewise reads causal language models; this is BertForMaskedLM"):
        open_series(tmp_path if where == "folder" else [(5, encoder)])


@pytest.mark.parametrize("config", [{"model_type": "bert"}, {"model_type": "roberta"}, {"model_type": "t5"}])
@pytest.mark.parametrize("architectures", [None, ["BertLMHeadModel"]])
def test_an_encoder_that_does_not_say_so_is_refused(config: dict[str, str], architectures: list[str] | None) -> None:
    with pytest.raises(
        ValueError, match=r"stagewise reads causal language models; this is (bert|roberta|t5|BertLMHead)"
    ):
        Architecture({**config, "architectures": architectures})


def test_an_encoders_decoder_is_taken() -> None:
    assert Architecture({"model_type": "bert", "is_decoder": True, "architectures": ["BertLMHeadModel"]}).n_heads == 12


def test_tokens_that_trainer_counted_are_the_series_tokens(trainer_folder: Path) -> None:
    for step in (20, 100):
        record = {"global_step": step, "num_input_tokens_seen": 512 * step}
        (trainer_folder / f"checkpoint-{step}" / "trainer_state.json").write_text(json.dumps(record))
    (trainer_folder / "checkpoint-1000" / "trainer_state.json").write_text("[]")
    assert open_series(trainer_folder).tokens == {20: 10_240, 100: 51_200}


def test_tokens_that_nobody_counted_are_not_zero(trainer_folder: Path) -> None:
    for step in (20, 100, 1000):
        (trainer_folder / f"checkpoint-{step}" / "trainer_state.json").write_text('{"num_input_tokens_seen": 0}')
    assert open_series(trainer_folder).tokens == {}


@pytest.mark.hooked_only("a native bridge in a module saves each weight twice")
def test_checkpoints_of_lightning_are_a_series(tmp_path: Path) -> None:
    lightning = pytest.importorskip("lightning.pytorch")

    class Module(lightning.LightningModule):  # type: ignore[misc, name-defined]
        def __init__(self, rate: float) -> None:
            super().__init__()
            self.save_hyperparameters()
            self.net = native(0)

        def training_step(self, batch: list[torch.Tensor]) -> torch.Tensor:
            loss = self.net(batch[0]).log_softmax(-1)[..., 0].mean()
            self.log("loss", loss)
            return loss

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=self.hparams["rate"])

    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randint(5, (4, 6))))
    save = lightning.callbacks.ModelCheckpoint(tmp_path, every_n_train_steps=2, save_top_k=-1)
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu"}
    best = lightning.callbacks.ModelCheckpoint(
        tmp_path / "named",
        "{epoch}-{step}-{loss:.2f}",
        monitor="loss",
        every_n_train_steps=2,
        save_top_k=-1,
        save_last=True,
    )
    (tmp_path / "named").mkdir()
    (tmp_path / "named" / "last.ckpt").touch()  # of an earlier training: the next one is called last-v1
    trainer = lightning.Trainer(max_steps=4, callbacks=[save, best], **quiet)
    module = Module(0.1)
    trainer.fit(module, data)
    assert {path.name for path in tmp_path.glob("*.ckpt")} == {"epoch=0-step=2.ckpt", "epoch=0-step=4.ckpt"}
    assert find(tmp_path / "named").ignored == ("last-v1.ckpt", "last.ckpt")
    assert [entry.at.step for entry in find(tmp_path / "named").entries] == [2, 4]
    series = open_series(tmp_path, architecture=CONFIG)
    other = native(1)
    model.load(other, series.weights(4))
    tokens = torch.arange(5)[None]
    torch.testing.assert_close(other(tokens), module.net(tokens))


@pytest.mark.parametrize(
    "prefix", ["module.", "_orig_mod.", "_orig_mod.module.", "model.", "net._orig_mod.", "net.backbone."]
)
def test_names_that_a_wrapper_put_a_prefix_before_are_read(prefix: str, tmp_path: Path) -> None:
    state = model.weights(native(1))
    torch.save({prefix + name: weight for name, weight in state.items()}, tmp_path / "m1.pt")
    assert open_series(tmp_path, architecture=CONFIG).weights(1).keys() == state.keys()


def test_weights_of_the_module_that_held_the_model_are_left_out(tmp_path: Path) -> None:
    state = model.weights(native(1))
    held = {f"module.model.{name}": weight for name, weight in state.items()}
    torch.save({"module.loss.weight": torch.ones(3), **held}, tmp_path / "m1.pt")
    with pytest.warns(UserWarning, match=r"left aside beside the weights: module\.loss"):
        assert open_series(tmp_path, architecture=CONFIG).weights(1).keys() == state.keys()


@pytest.mark.parametrize("prefix", ["model.", "_orig_mod.model."])
def test_so_are_those_of_a_hugging_face_model_whose_own_prefix_stays(
    prefix: str, tmp_path: Path, hugging_face: Callable[..., Any]
) -> None:
    module = hugging_face("Llama")
    own = {name: weight for name, weight in module.state_dict().items() if name != "lm_head.weight"}
    torch.save({prefix + name: weight for name, weight in module.state_dict().items()}, tmp_path / "m0.pt")
    torch.save(own, tmp_path / "m1.pt")  # of tied weights no head is saved
    series = open_series(tmp_path, architecture=module.config)
    assert series.weights(0).keys() == module.state_dict().keys()
    assert series.weights(1).keys() == own.keys()


def test_names_of_a_model_whose_layers_are_compiled_each_are_read(tmp_path: Path) -> None:
    state = model.weights(native(1))
    compiled = {re.sub(r"(blocks\.\d\.)", r"\1_orig_mod.", name): weight for name, weight in state.items()}
    torch.save(compiled, tmp_path / "m1.pt")
    assert compiled.keys() != state.keys() == open_series(tmp_path, architecture=CONFIG).weights(1).keys()


def test_what_lies_beside_the_weights_is_named_and_no_damage(tmp_path: Path) -> None:
    state, config = model.weights(native(1)), {**CONFIG, "attn_scale": np.float64(2.0)}
    beside = {"cfg": config, "rng": np.random.default_rng(0), "args": argparse.Namespace(rate=1)}
    torch.save({"model": state, "step": 5, **beside}, tmp_path / "step_5.pt")
    series = open_series(tmp_path)
    assert series.architecture == architecture.Architecture(CONFIG | {"attn_scale": 2.0})
    aside = r"left aside beside the weights: cfg \(numpy.*\), rng \(numpy.*\), args \(argparse.Namespace\)"
    with pytest.warns(UserWarning, match=aside):
        assert series.weights(5).keys() == state.keys()
    with pytest.warns(UserWarning, match=aside):
        found = audit(find(tmp_path))
    assert found.clean
    assert "note: step_5.pt: cfg (numpy" in str(found)


@pytest.mark.one_of(2)
@pytest.mark.parametrize("kind", ["HookedTransformer", "GPT2"])
def test_a_model_that_was_saved_whole_is_its_weights_and_its_config(
    kind: str, tmp_path: Path, hugging_face: Callable[..., Any]
) -> None:
    if kind == "GPT2":
        whole = hugging_face("GPT2")
    elif model.has_hooked_transformer():
        from transformer_lens import HookedTransformer, HookedTransformerConfig

        whole = HookedTransformer(HookedTransformerConfig(**CONFIG, seed=0))
    else:
        pytest.skip("there is no HookedTransformer")
    torch.save(whole, tmp_path / "step_5.pt")
    series = open_series(tmp_path)
    weights = {name: weight for name, weight in whole.state_dict().items() if name in series.weights(5)}
    assert {name for name, _ in whole.named_parameters()} <= series.weights(5).keys()
    assert all(torch.equal(series.weights(5)[name], weight) for name, weight in weights.items())
    model.load(model.build(series.architecture), series.weights(5))


@pytest.mark.parametrize("saved", ["whole", "parameters", "memory"])
def test_weights_that_are_saved_as_parameters_are_loaded_as_they_are(
    saved: str, tmp_path: Path, hugging_face: Callable[..., Any]
) -> None:
    plain = hugging_face("GPTNeoX").eval()
    parameters = dict(plain.named_parameters())
    torch.save(plain if saved == "whole" else parameters, tmp_path / "step_5.pt")
    series = open_series([(5, parameters)] if saved == "memory" else tmp_path, architecture=plain.config)
    assert not any(weight.requires_grad for weight in series.weights(5).values())
    tokens = torch.arange(5)[None]
    built = model.build(series.architecture)
    model.load(built, series.weights(5))
    with torch.no_grad():
        torch.testing.assert_close(built(tokens), plain(tokens).logits)


@pytest.mark.parametrize("prefix", ["", "model.", "module.model."])
@pytest.mark.parametrize("head", ["v_head.summary.weight", "score.weight", "lm_head.weight", "value_head.0.bias"])
def test_a_head_beside_a_model_is_left_aside_and_named(head: str, prefix: str, tmp_path: Path) -> None:
    state = model.weights(native(1))
    for name, beside in (("a_1", head), ("b_2", prefix + head)):
        saved = {**{prefix + each: weight for each, weight in state.items()}, beside: torch.ones(3)}
        torch.save(saved, tmp_path / f"{name}.pt")
    series = open_series(tmp_path, architecture=CONFIG)
    for step in (1, 2):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert series.weights(step).keys() == state.keys()
        assert [f"left aside beside the weights: {head.split('.')[0]}" in str(each.message) for each in caught] == [
            True
        ]


@pytest.mark.parametrize("prefix", ["", "model."])
def test_a_value_head_of_a_hugging_face_model_is_left_aside(
    prefix: str, tmp_path: Path, hugging_face: Callable[..., Any]
) -> None:
    module = hugging_face("GPT2")
    saved = {prefix + name: weight for name, weight in module.state_dict().items()}
    torch.save({**saved, "v_head.summary.weight": torch.ones(1, 16)}, tmp_path / "m1.pt")
    series = open_series(tmp_path, architecture=module.config)
    with pytest.warns(UserWarning, match="left aside beside the weights: v_head"):
        assert series.weights(1).keys() == module.state_dict().keys()


def test_a_series_that_is_read_backwards_is_warned_of(tmp_path: Path) -> None:
    for number, ppl in enumerate((35, 21, 18)):
        torch.save(model.weights(native(0)), tmp_path / f"run_{ppl}.pt")
        os.utime(tmp_path / f"run_{ppl}.pt", (1000 + number, 1000 + number))
    with pytest.warns(
        UserWarning, match=r"each checkpoint was written before the one that precedes it by name, run_35"
    ):
        open_series(tmp_path, architecture=CONFIG)
    assert open_series(tmp_path, architecture=CONFIG, parse=lambda name: 100 - int(name[4:])).steps == (65, 79, 82)


def test_steps_that_the_trainer_recorded_in_another_order_are_warned_of(trainer_folder: Path) -> None:
    for name, step in (("checkpoint-20", 300), ("checkpoint-100", 200), ("checkpoint-1000", 100)):
        (trainer_folder / name / "trainer_state.json").write_text(json.dumps({"global_step": step}))
    with pytest.warns(
        UserWarning, match=r"checkpoint-20 comes before checkpoint-100 by name, and after it by the steps"
    ):
        open_series(trainer_folder)


def test_an_expression_reads_names_that_have_no_word(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a7x100y", "a7x200y", "other"):
        torch.save(model.weights(native(0)), tmp_path / f"{name}.pt")
    series = open_series(tmp_path, architecture=CONFIG, parse=r"x(?P<step>\d+)y")
    assert series.steps == (100, 200)
    assert capsys.readouterr().err == "other.pt -> left out: `parse` gives it no step\n"


def test_how_names_were_read_is_said_where_anything_was_ignored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("step_100_ppl_35", "step_200_ppl_21", "best"):
        torch.save(model.weights(native(0)), tmp_path / f"{name}.pt")
    assert open_series(tmp_path, architecture=CONFIG).steps == (100, 200)
    told = capsys.readouterr().err.splitlines()
    assert told == [
        "best.pt -> left out: a copy, or no step of the training",
        "step_100_ppl_35.pt -> step 100, read from `step_100`, ignored `ppl_35`",
        "step_200_ppl_21.pt -> step 200, read from `step_200`, ignored `ppl_21`",
    ]
    assert [line.strip().removeprefix("name: ") for line in str(audit(tmp_path)).splitlines()[-3:]] == told


@pytest.mark.parametrize("copy", ["tmp-checkpoint-30", "checkpoint-last", "final", "init", "best", "latest", "last-v1"])
def test_copies_beside_numbered_folders_are_no_branches(
    copy: str, trainer_folder: Path, saved: Saved, capsys: pytest.CaptureFixture[str]
) -> None:
    put(trainer_folder / copy, saved("Llama", 0))
    assert open_series(trainer_folder).steps == (20, 100, 1000)
    assert f"{copy} -> left out: a copy, or no step of the training" in capsys.readouterr().err


def test_the_state_of_a_training_beside_the_weights_is_no_checkpoint(tmp_path: Path) -> None:
    module = torch.nn.Linear(2, 2)
    optimiser = torch.optim.AdamW(module.parameters()).state_dict()
    for step in (100, 200):
        torch.save(module.state_dict(), tmp_path / f"model{step:06d}.pt")
        for state in (f"opt{step:06d}", f"step{step}_optimizer", f"optim_{step}_rank0", f"step{step}_optim_rank0"):
            torch.save(optimiser, tmp_path / f"{state}.pt")
    assert [entry.label for entry in find(tmp_path).entries] == ["model000100.pt", "model000200.pt"]


@pytest.mark.parametrize("name", ["{step}", "checkpoint-{step}/model", "step{step}/hf"])
def test_a_model_in_the_folder_of_a_step_is_its_checkpoint(
    name: str, tmp_path: Path, hugging_face: Callable[..., Any]
) -> None:
    module = hugging_face("GPT2")
    for step in (100, 200):
        module.save_pretrained(tmp_path / name.format(step=step))
    (tmp_path / "logs").mkdir()
    series = open_series(tmp_path)
    assert series.steps == (100, 200)
    tokens = torch.arange(5)[None]
    ours, theirs = series.model(200)(tokens), module(tokens).logits
    torch.testing.assert_close(ours.log_softmax(-1), theirs.log_softmax(-1), atol=1e-4, rtol=0)


def test_a_folder_above_the_checkpoints_says_where_they_are(tmp_path: Path) -> None:
    place = tmp_path / "lightning_logs" / "version_0" / "checkpoints"
    place.mkdir(parents=True)
    torch.save(torch.nn.Linear(2, 2).state_dict(), place / "epoch=0-step=100.ckpt")
    with pytest.raises(FileNotFoundError, match="lightning_logs/version_0/checkpoints in it holds checkpoints: give"):
        find(tmp_path)


def test_weights_under_two_keys_beside_the_optimisers_are_read(tmp_path: Path) -> None:
    module = torch.nn.Linear(2, 2)
    optimiser = torch.optim.AdamW(module.parameters())
    module(torch.ones(2)).sum().backward()
    optimiser.step()
    held = {"checkpoint": {"state_dict": module.state_dict()}, "optimizer": optimiser.state_dict()}
    torch.save(held, tmp_path / "step1.pt")
    assert find(tmp_path).entries[0].load().keys() == module.state_dict().keys()
