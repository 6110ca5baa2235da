"""Objects of other libraries in memory and the files that they write: measured, or refused with their name."""

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from stagewise.checkpoints.audit import audit
from stagewise.checkpoints.series import open_series

CONFIG = LlamaConfig(
    vocab_size=16, hidden_size=32, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=4, max_position_embeddings=16,
)  # fmt: skip


def llama() -> nn.Module:
    torch.manual_seed(0)
    model: nn.Module = LlamaForCausalLM(CONFIG).eval()
    return model


def test_averages_of_torch_are_told_as_averages_in_files_and_refused_in_memory(tmp_path: Path) -> None:
    averaged = AveragedModel(llama())
    for step in (1, 2):
        averaged.update_parameters(averaged.module)
        torch.save(averaged.state_dict(), tmp_path / f"step_{step}.pt")
    CONFIG.to_json_file(tmp_path / "config.json")
    with pytest.warns(UserWarning, match="of torch's AveragedModel: the weights are averages"):
        assert "the weights are averages" in str(audit(tmp_path))
    with pytest.raises(ValueError, match="got AveragedModel"):
        open_series([(0, averaged)])


def test_a_sparse_autoencoder_in_a_model_is_left_aside_with_a_line() -> None:
    sae_lens = pytest.importorskip("sae_lens", reason="sae-lens is not installed")
    from transformer_lens import HookedTransformerConfig

    sizes = {"n_layers": 1, "d_model": 16, "n_ctx": 16, "d_head": 8, "n_heads": 2, "d_vocab": 32, "act_fn": "gelu"}
    model: Any = sae_lens.HookedSAETransformer(HookedTransformerConfig(**sizes, device="cpu", seed=0))
    plain = open_series([(0, model)]).weights(0)
    sae = sae_lens.StandardSAE(sae_lens.StandardSAEConfig(d_in=16, d_sae=32, device="cpu", dtype="float32"))
    sae.cfg.metadata.hook_name = "blocks.0.hook_resid_post"
    model.add_sae(sae)
    with pytest.warns(UserWarning, match="modules in the place of hook points .* its weights alone are taken"):
        series = open_series([(0, model)])
    assert {name: weight.tolist() for name, weight in series.weights(0).items()} == {
        name: weight.tolist() for name, weight in plain.items()
    }


def test_quantised_tensors_in_memory_are_refused_and_their_values_are_read() -> None:
    torchao = pytest.importorskip("torchao.quantization", reason="torchao is not installed")
    model = llama()
    torchao.quantize_(model, torchao.Int8WeightOnlyConfig())
    with pytest.raises(ValueError, match=r"holds model.layers.0.self_attn.q_proj.weight as a Int8Tensor.*dequantize"):
        open_series([(0, model)])
    plain = {name: weight.dequantize() for name, weight in model.state_dict().items()}
    assert open_series([(0, plain)], architecture=CONFIG).model(0)(torch.arange(5)[None]).isfinite().all()


def test_what_pyvene_wraps_is_refused_by_its_name() -> None:
    pyvene = pytest.importorskip("pyvene", reason="pyvene is not installed")
    plan = pyvene.IntervenableConfig(
        representations=[{"layer": 0, "component": "block_output"}], intervention_types=pyvene.VanillaIntervention
    )
    with pytest.raises(ValueError, match="or a Hugging Face model; got IntervenableModel"):
        open_series([(0, pyvene.IntervenableModel(plan, model=llama()))])


def test_which_weights_a_schedule_free_optimiser_left_is_told_of_each_checkpoint(tmp_path: Path) -> None:
    schedulefree = pytest.importorskip("schedulefree", reason="schedulefree is not installed")
    model = llama()
    optimiser = schedulefree.AdamWScheduleFree(model.parameters(), lr=0.01)
    for step in (1, 2, 3, 4):
        optimiser.train()
        model(torch.arange(8)[None], labels=torch.arange(8)[None]).loss.backward()
        optimiser.step()
        if step % 2:
            optimiser.eval()
        torch.save({"model": model.state_dict(), "optimizer": optimiser.state_dict()}, tmp_path / f"step_{step}.pt")
    CONFIG.to_json_file(tmp_path / "config.json")
    with pytest.warns(UserWarning, match="schedule-free: the weights are averages"):
        told = str(audit(tmp_path))
    assert "step_1.pt, step_3.pt: train_mode False (schedule-free: the weights are averages" in told
    assert "step_2.pt, step_4.pt: train_mode True (schedule-free: the weights are those that are trained" in told


def test_adapters_alone_are_no_model(tmp_path: Path) -> None:
    peft = pytest.importorskip("peft", reason="peft is not installed")
    adapted = peft.get_peft_model(llama(), peft.LoraConfig(target_modules=["q_proj"]))
    torch.save(peft.get_peft_model_state_dict(adapted), tmp_path / "step_1.pt")
    (finding,) = audit(tmp_path).findings
    assert "holds adapters or heads alone" in finding.message


ADAPTED: dict[str, tuple[type[Any], dict[str, Any]]] = {
    "square Conv1D and a linear layer": (GPT2LMHeadModel, {"target_modules": ["attn.c_proj", "lm_head"]}),
    "Conv1D": (GPT2LMHeadModel, {"target_modules": ["c_attn", "c_fc"]}),
    "linear layers": (LlamaForCausalLM, {"target_modules": "all-linear", "use_rslora": True}),
    "embedding": (LlamaForCausalLM, {"target_modules": ["q_proj"], "modules_to_save": ["embed_tokens"]}),
    "embedding of GPT-2": (GPT2LMHeadModel, {"target_modules": ["c_attn"], "modules_to_save": ["wte"]}),
    "unembedding": (LlamaForCausalLM, {"target_modules": ["q_proj"], "modules_to_save": ["lm_head"]}),
    "changed unembedding": (LlamaForCausalLM, {"target_modules": ["q_proj", "lm_head"]}),
}


@pytest.mark.each_value
@pytest.mark.parametrize("kind", ADAPTED)
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.filterwarnings("ignore")
def test_a_merged_adapter_predicts_what_the_adapted_model_does(kind: str, tied: bool, tmp_path: Path) -> None:
    peft = pytest.importorskip("peft", reason="peft is not installed")
    make, settings = ADAPTED[kind]
    sizes = {"n_embd": 32, "n_layer": 1, "n_head": 2, "n_positions": 16}
    config = GPT2Config(vocab_size=16, **sizes) if make is GPT2LMHeadModel else copy.deepcopy(CONFIG)
    config.tie_word_embeddings = tied
    torch.manual_seed(0)
    base = make(config).eval()
    base.save_pretrained(tmp_path / "base")
    adapted = peft.get_peft_model(base, peft.LoraConfig(r=2, lora_alpha=6, **settings))
    with torch.no_grad():
        for weight in filter(lambda each: each.requires_grad, adapted.parameters()):
            weight.add_(0.1 * torch.randn_like(weight))
    adapted.save_pretrained(tmp_path / "run" / "checkpoint-1")
    tokens = torch.arange(12)[None]
    expected = adapted.eval()(tokens).logits.log_softmax(-1).detach()
    measured = open_series(tmp_path / "run", base=tmp_path / "base").model(1)(tokens).log_softmax(-1).detach()
    torch.testing.assert_close(measured, expected, atol=1e-5, rtol=0)


def _zarr(model: nn.Module, folder: Path) -> None:
    group = pytest.importorskip("zarr", reason="zarr is not installed").open_group(folder, mode="w")
    for name, weight in model.state_dict().items():
        group.create_array(name, data=weight.numpy())


def _tensordict(model: nn.Module, folder: Path) -> None:
    library = pytest.importorskip("tensordict", reason="tensordict is not installed")
    library.TensorDict.from_module(model).data.clone().memmap_(folder)


def _torchsnapshot(model: nn.Module, folder: Path) -> None:
    library = pytest.importorskip("torchsnapshot", reason="torchsnapshot is not installed")
    library.Snapshot.take(str(folder), {"model": model})


@pytest.mark.parametrize("write", [_zarr, _tensordict, _torchsnapshot])
@pytest.mark.filterwarnings("ignore")
def test_folders_of_other_tools_are_called_by_their_names(write: Any, tmp_path: Path) -> None:
    write(llama(), tmp_path / "step_10")
    (finding,) = audit(tmp_path).findings
    assert f"holds weights of {write.__name__[1:]}" in finding.message
