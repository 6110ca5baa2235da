"""Tools that write weights in a form of their own."""

import os
from pathlib import Path

import torch
from _small import CONFIG, SERIES, model, step

AUDIT = "audit run;measure run --sequences 8 --only Loss --quiet"


def _two(write):
    """Write the model twice, once trained a little."""
    network = model()
    optimiser = torch.optim.AdamW(network.parameters(), lr=0.01)
    Path("run").mkdir()
    for now in (10, 20):
        write(network, now)
        step(network, optimiser)
    return AUDIT


def _quantised(config):
    from transformers import AutoModelForCausalLM

    def write(network, now):
        network.save_pretrained("plain")
        AutoModelForCausalLM.from_pretrained("plain", quantization_config=config).save_pretrained(
            f"run/checkpoint-{now}"
        )

    return _two(write)


def torchao_int8():
    """torchao==0.18.0"""
    from torchao.quantization import Int8WeightOnlyConfig
    from transformers import TorchAoConfig

    return _quantised(TorchAoConfig(Int8WeightOnlyConfig()))


def torchao_state_dict():
    """torchao==0.18.0"""
    from torchao.quantization import Int8WeightOnlyConfig, quantize_

    def write(network, now):
        import copy

        own = copy.deepcopy(network)
        quantize_(own, Int8WeightOnlyConfig())
        torch.save(own.state_dict(), f"run/step_{now}.pt")

    return _two(write)


def bitsandbytes_8bit():
    """bitsandbytes==0.50.2"""
    from transformers import BitsAndBytesConfig

    return _quantised(BitsAndBytesConfig(load_in_8bit=True))


def bitsandbytes_4bit():
    """bitsandbytes==0.50.2"""
    from transformers import BitsAndBytesConfig

    return _quantised(BitsAndBytesConfig(load_in_4bit=True))


def _compressed(**arguments):
    from compressed_tensors.compressors import ModelCompressor
    from compressed_tensors.quantization import (
        QuantizationArgs,
        QuantizationConfig,
        QuantizationScheme,
        apply_quantization_config,
    )

    def write(network, now):
        import copy

        own = copy.deepcopy(network)
        scheme = QuantizationScheme(targets=["Linear"], weights=QuantizationArgs(symmetric=True, **arguments))
        apply_quantization_config(own, QuantizationConfig(config_groups={"all": scheme}, ignore=["lm_head"]))
        most = 448 if arguments["type"] == "float" else 2 ** (arguments["num_bits"] - 1) - 1
        for each in own.modules():
            if hasattr(each, "weight_scale"):
                groups = each.weight.data.unflatten(1, (-1, arguments.get("group_size") or each.weight.shape[1]))
                each.weight_scale.data.copy_(groups.abs().amax(-1).div(most).reshape(each.weight_scale.shape))
        compressor = ModelCompressor.from_pretrained_model(own, quantization_format=None)
        compressor.compress_model(own)
        own.save_pretrained(f"run/checkpoint-{now}")
        compressor.update_config(f"run/checkpoint-{now}")

    return _two(write)


def compressed_tensors_int8():
    """compressed-tensors==0.20.1"""
    return _compressed(num_bits=8, type="int", strategy="channel")


def compressed_tensors_fp8():
    """compressed-tensors==0.20.1"""
    return _compressed(num_bits=8, type="float", strategy="channel")


def compressed_tensors_int4():
    """compressed-tensors==0.20.1"""
    return _compressed(num_bits=4, type="int", strategy="group", group_size=32)


def tensorizer():
    """tensorizer==2.12.1"""
    from tensorizer import TensorSerializer

    def write(network, now):
        writer = TensorSerializer(f"run/step_{now}.tensors")
        writer.write_module(network)
        writer.close()

    return _two(write)


def torchsnapshot():
    """torchsnapshot==0.1.0"""
    import torchsnapshot as library

    return _two(
        lambda network, now: library.Snapshot.take(
            f"run/step_{now}", {"model": network, "progress": library.StateDict(step=now)}
        )
    )


def tensordict_memmap():
    """tensordict==0.15.3"""
    from tensordict import TensorDict

    return _two(lambda network, now: TensorDict.from_module(network).data.clone().memmap_(f"run/step_{now}"))


def zarr_group():
    """zarr==3.1.6"""
    import zarr

    def write(network, now):
        group = zarr.open_group(f"run/step_{now}.zarr", mode="w")
        for name, weight in network.state_dict().items():
            group.create_array(name, data=weight.numpy())

    return _two(write)


def _arrays(network):
    return {name: weight.numpy().copy() for name, weight in network.state_dict().items()}


def orbax_manager():
    """orbax-checkpoint==0.12.8"""
    import orbax.checkpoint as ocp

    manager = ocp.CheckpointManager(os.path.abspath("run"), options=ocp.CheckpointManagerOptions(max_to_keep=5))

    def write(network, now):
        print(now, manager.save(now, args=ocp.args.StandardSave(_arrays(network))))
        manager.wait_until_finished()

    try:
        return _two(write)
    except FileExistsError:
        network = model()
        for now in (10, 20):
            write(network, now)
        return AUDIT


def flax_msgpack():
    """flax==0.12.8"""
    from flax import serialization

    return _two(
        lambda network, now: Path(f"run/step_{now}.msgpack").write_bytes(serialization.to_bytes(_arrays(network)))
    )


def safetensors_flax():
    """flax==0.12.8"""
    import jax.numpy as jnp
    from safetensors.flax import save_file

    def write(network, now):
        save_file({name: jnp.asarray(value) for name, value in _arrays(network).items()}, f"run/step_{now}.safetensors")
        CONFIG.save_pretrained("run")

    return _two(write)


def equinox():
    """equinox==0.13.8"""
    import equinox as library
    import jax.numpy as jnp

    return _two(
        lambda network, now: library.tree_serialise_leaves(
            f"run/step_{now}.eqx", {name: jnp.asarray(value) for name, value in _arrays(network).items()}
        )
    )


def numpy_npz():
    """numpy==2.4.6"""
    import numpy as np

    return _two(lambda network, now: np.savez(f"run/step_{now}.npz", **_arrays(network)))


def keras_weights():
    """keras==3.15.1"""
    os.environ["KERAS_BACKEND"] = "torch"
    import keras

    Path("run").mkdir()
    network = keras.Sequential([keras.Input((4,)), keras.layers.Dense(4)])
    for now in (10, 20):
        network.save_weights(f"run/step_{now}.weights.h5")
    return "audit run"


def ignite():
    """pytorch-ignite==0.5.5"""
    from ignite.engine import Engine, Events
    from ignite.handlers import Checkpoint, DiskSaver

    network = model()
    optimiser = torch.optim.AdamW(network.parameters(), lr=0.01)
    engine = Engine(lambda _, batch: step(network, optimiser))
    saver = Checkpoint(
        {"model": network, "optimizer": optimiser}, DiskSaver("run", create_dir=True), n_saved=None,
        global_step_transform=lambda trainer, _: trainer.state.iteration,
    )  # fmt: skip
    engine.add_event_handler(Events.ITERATION_COMPLETED(every=2), saver)
    engine.run(range(3), max_epochs=2)
    CONFIG.save_pretrained("run")
    return SERIES


def accelerate_state():
    """accelerate==1.15.0"""
    from accelerate import Accelerator
    from accelerate.utils import ProjectConfiguration

    place = ProjectConfiguration(project_dir=".", automatic_checkpoint_naming=True)
    accelerator = Accelerator(cpu=True, project_config=place)
    network = model()
    network, optimiser = accelerator.prepare(network, torch.optim.AdamW(network.parameters(), lr=0.01))
    for now in range(1, 7):
        step(network, optimiser)
        if now % 3 == 0:
            accelerator.save_state()
    CONFIG.save_pretrained("checkpoints")
    return SERIES.replace("run", "checkpoints")


def saelens_sae():
    """sae-lens==6.54.12"""
    from sae_lens import StandardSAE, StandardSAEConfig

    for now in (1000, 2000):
        sae = StandardSAE(StandardSAEConfig(d_in=16, d_sae=32, device="cpu", dtype="float32"))
        sae.cfg.metadata.hook_name = "blocks.0.hook_resid_post"
        sae.save_model(f"run/{now}")
    return AUDIT


def pyvene_model():
    """pyvene==0.1.8"""
    import pyvene

    def write(network, now):
        plan = pyvene.IntervenableConfig(
            representations=[{"layer": 0, "component": "block_output", "low_rank_dimension": 4}],
            intervention_types=pyvene.LowRankRotatedSpaceIntervention,
        )
        wrapped = pyvene.IntervenableModel(plan, model=network)
        torch.save(wrapped.state_dict(), f"run/step_{now}.pt")
        network.requires_grad_(True)
        CONFIG.save_pretrained("run")

    return _two(write)
