"""Models in memory that another library has wrapped: what `open_series([(step, model), ...])` makes of them."""

import torch
from _small import model, tokens


def _opened(wrapped, shown):
    """Print the loss that stagewise measures of the object, and the object's own."""
    import stagewise
    from stagewise.measurement.engine import measure
    from stagewise.probes import Loss
    from stagewise.task import Batch

    try:
        series = stagewise.open_series([(0, wrapped)])
        table = measure(series, [Loss()], Batch.from_tokens(tokens()), progress=False)
    except Exception as error:
        print(f"{type(error).__name__}: {str(error)[:300]}")
        return ""
    print(table[["quantity", "value"]].to_string(), "\nits own loss", shown())
    return ""


def _loss(logits):
    return torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), tokens()[:, 1:].flatten()).item()


def saelens_attached():
    """sae-lens==6.54.12"""
    from sae_lens import HookedSAETransformer, StandardSAE, StandardSAEConfig
    from transformer_lens import HookedTransformerConfig

    own = HookedSAETransformer(
        HookedTransformerConfig(
            n_layers=1, d_model=16, n_ctx=16, d_head=8, n_heads=2, d_vocab=32, act_fn="gelu", device="cpu", seed=0
        )
    )  # fmt: skip
    sae = StandardSAE(StandardSAEConfig(d_in=16, d_sae=32, device="cpu", dtype="float32"))
    sae.cfg.metadata.hook_name = "blocks.0.hook_resid_post"
    own.add_sae(sae)
    return _opened(own, lambda: _loss(own(tokens())))


def nnsight_envoy():
    """nnsight==0.8.1"""
    from nnsight import NNsight

    own = model().eval()
    wrapped = NNsight(own)
    return _opened(wrapped, lambda: _loss(own(tokens()).logits))


def nnsight_module():
    """nnsight==0.8.1"""
    from nnsight import NNsight

    own = model().eval()
    NNsight(own)
    return _opened(own, lambda: _loss(own(tokens()).logits))


def pyvene_wrapped():
    """pyvene==0.1.8"""
    import pyvene

    own = model().eval()
    plan = pyvene.IntervenableConfig(
        representations=[{"layer": 0, "component": "block_output"}], intervention_types=pyvene.VanillaIntervention
    )
    wrapped = pyvene.IntervenableModel(plan, model=own)
    return _opened(wrapped, lambda: _loss(own(tokens()).logits))


def torchao_quantised():
    """torchao==0.18.0"""
    from torchao.quantization import Int8WeightOnlyConfig, quantize_

    own = model().eval()
    quantize_(own, Int8WeightOnlyConfig())
    return _opened(own, lambda: _loss(own(tokens()).logits))


def averaged_model():
    """torch==2.13.0"""
    from torch.optim.swa_utils import AveragedModel

    own = AveragedModel(model().eval())
    return _opened(own, lambda: _loss(own(tokens()).logits))


def ema_object():
    """ema-pytorch==0.8.3"""
    from ema_pytorch import EMA

    own = EMA(model().eval())
    return _opened(own, lambda: _loss(own.ema_model(tokens()).logits))


def peft_unmerged():
    """peft==0.21.2"""
    import peft

    own = peft.get_peft_model(model().eval(), peft.LoraConfig(target_modules=["q_proj"], init_lora_weights=False))
    return _opened(own, lambda: _loss(own(tokens()).logits))
