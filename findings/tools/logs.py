"""Trackers without a server, each given the same curve."""

import os
from pathlib import Path

from _small import losses


def trackio():
    """trackio==0.43.0"""
    os.environ["TRACKIO_DIR"] = os.path.abspath("trackio")
    import trackio as library

    library.init(project="project", name="a")
    for value in losses():
        library.log({"loss": value})
    library.finish()
    return "stages trackio;stages trackio/project.db"


def dvclive():
    """dvclive==3.49.1"""
    from dvclive import Live

    with Live(save_dvc_exp=False, dvcyaml=None) as live:
        for value in losses():
            live.log_metric("train/loss", value)
            live.next_step()
    return "stages dvclive;stages dvclive/plots/metrics/train/loss.tsv"


def aim():
    """aim==3.29.1"""
    from aim import Repo, Run

    run = Run(repo=Repo(os.path.abspath("."), init=True), system_tracking_interval=None, log_system_params=False)
    for value in losses():
        run.track(value, name="loss")
    run.close()
    return "stages .aim"


def clearml():
    """clearml==2.1.12"""
    os.environ["CLEARML_CACHE_DIR"] = os.path.abspath("cache")
    from clearml import Task

    Task.set_offline(True)
    task = Task.init(
        "project", "run", auto_connect_frameworks=False, auto_connect_arg_parser=False, auto_resource_monitoring=False
    )
    for number, value in enumerate(losses()):
        task.get_logger().report_scalar("loss", "train", value, number)
    task.get_logger().report_single_value("final", 0.5)
    folder = Path(task.get_offline_mode_folder())
    task.close()
    return f"stages {folder / 'metrics.jsonl'}"


def comet():
    """comet-ml==3.58.8"""
    os.environ["COMET_LOGGING_CONSOLE"] = "ERROR"
    import zipfile

    import comet_ml

    experiment = comet_ml.OfflineExperiment(
        project_name="project", offline_directory="archive", log_code=False, log_graph=False, log_env_details=False,
        auto_param_logging=False, auto_metric_logging=False, parse_args=False, display_summary_level=0,
    )  # fmt: skip
    for number, value in enumerate(losses()):
        experiment.log_metric("loss", value, step=number)
    experiment.end()
    (archive,) = Path("archive").glob("*.zip")
    zipfile.ZipFile(archive).extractall("unpacked")
    return f"stages {archive};stages unpacked/messages.json"


def neptune():
    """neptune-scale==0.30.0"""
    from neptune_scale import Run

    run = Run(project="w/p", run_id="a", mode="offline", enable_console_log_capture=False, log_directory="neptune")
    for number, value in enumerate(losses()):
        run.log_metrics({"loss": value}, step=number)
    run.close()
    (file,) = Path("neptune").rglob("*.sqlite3")
    return f"stages neptune;stages {file}"


def swanlab():
    """swanlab==0.10.3"""
    import swanlab as library

    library.init(project="project", mode="offline", logdir="swanlog")
    for value in losses():
        library.log({"loss": value})
    library.finish()
    (file,) = Path("swanlog").rglob("*.swanlab")
    return f"stages swanlog;stages {file}"


def sacred():
    """sacred==0.8.7 setuptools<81"""
    from sacred import Experiment
    from sacred.observers import FileStorageObserver

    experiment = Experiment("run", interactive=True)
    experiment.observers.append(FileStorageObserver("runs"))

    @experiment.main
    def main(_run):
        for value in losses():
            _run.log_scalar("loss", value)

    experiment.run()
    return "stages runs/1;stages runs/1/metrics.json"


def mlflow():
    """mlflow-skinny==3.17.2 sqlalchemy alembic"""
    import mlflow as library

    with library.start_run():
        for number, value in enumerate(losses()):
            library.log_metric("loss", value, step=number)
    return "stages mlruns;stages mlflow.db"


def wandb_offline():
    """wandb==0.31.0"""
    import wandb

    run = wandb.init(project="project", mode="offline", dir=".")
    for value in losses():
        run.log({"loss": value})
    run.finish()
    (file,) = Path("wandb").rglob("*.wandb")
    return f"stages wandb;stages {file}"


def tensorboardx():
    """tensorboardX==2.6.4"""
    from tensorboardX import SummaryWriter

    writer = SummaryWriter("events")
    for number, value in enumerate(losses()):
        writer.add_scalar("loss", value, number)
    writer.export_scalars_to_json("scalars.json")
    writer.close()
    return "stages events;stages scalars.json"


def verl_console():
    """verl==0.9.1 (without its dependencies)"""
    import contextlib
    import importlib.util

    place = Path(importlib.util.find_spec("verl").submodule_search_locations[0], "utils/logger/aggregate_logger.py")
    spec = importlib.util.spec_from_file_location("aggregate_logger", place)  # the package itself asks for ray
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    logger = module.LocalLogger()
    with open("train.log", "w") as file, contextlib.redirect_stdout(file):
        for number, value in enumerate(losses()):
            logger.log({"actor/pg_loss": -value / 10, "critic/score/mean": 3 - value}, step=number)
    print(Path("train.log").read_text().splitlines()[0])
    return "stages train.log"


def lm_eval():
    """lm-eval==0.4.13"""
    import json

    from _small import CONFIG, model
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    os.environ["HF_HUB_OFFLINE"] = "1"
    import lm_eval as library
    import torch
    from lm_eval.models.huggingface import HFLM
    from lm_eval.tasks import TaskManager

    words = {word: number for number, word in enumerate(["<pad>", "<s>", "</s>", *(f"w{n}" for n in range(3, 32))])}
    plain = Tokenizer(models.WordLevel(words, unk_token="<pad>"))
    plain.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=plain, pad_token="<pad>", bos_token="<s>", eos_token="</s>")
    documents = [{"q": f"w{n}", "choices": [f"w{n + 1}", f"w{n + 3}"], "gold": 0} for n in range(3, 20)]
    Path("data.jsonl").write_text("\n".join(map(json.dumps, documents)))
    settings = {
        "task": "count", "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": os.path.abspath("data.jsonl")}},
        "test_split": "test", "output_type": "multiple_choice", "doc_to_text": "{{q}}", "doc_to_choice": "{{choices}}",
        "doc_to_target": "gold", "metric_list": [{"metric": "acc"}],
    }  # fmt: skip
    from lm_eval.loggers import EvaluationTracker

    for now in (10, 20, 30, 40):
        network = model()
        torch.manual_seed(now)
        tracker = EvaluationTracker(output_path="results")
        adapter = HFLM(pretrained=network, tokenizer=tokenizer, device="cpu")
        found = library.simple_evaluate(
            adapter, tasks=[settings], task_manager=TaskManager(), evaluation_tracker=tracker, bootstrap_iters=0
        )
        tracker.general_config_tracker.model_name_sanitized = f"run__checkpoint-{now}"
        tracker.general_config_tracker.model_name = f"run/checkpoint-{now}"
        tracker.save_results_aggregated(results=found, samples=None)
    assert CONFIG.vocab_size == 32
    return "stages results"
