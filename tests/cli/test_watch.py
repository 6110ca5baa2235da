"""`stagewise watch`: what is written during a training is measured and told, until it ends."""

import asyncio
import functools
import json
import re
import shutil
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tornado.websocket import websocket_connect
from typer.testing import CliRunner

from stagewise.checkpoints.run_folder import read_table
from stagewise.cli.app import app
from tests.fixtures.browser import CHROMIUM

pytestmark = pytest.mark.usefixtures("few_sequences", "undrawn", "unchecked")

REFRESH = '<meta http-equiv="refresh" content="7">'


def watch(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["watch", *arguments, "--quiet"])
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture
def between_looks(monkeypatch: pytest.MonkeyPatch) -> Callable[[Iterator[None]], None]:
    """What happens while the command sleeps: the next part of a generator, each time."""

    def take(events: Iterator[None]) -> None:
        monkeypatch.setattr("stagewise.cli._watch.sleep", lambda _: next(events))

    return take


def test_a_run_is_followed_from_before_its_first_checkpoint_to_its_last_one(
    small_folder: Path, tmp_path: Path, between_looks: Callable[[Iterator[None]], None]
) -> None:
    folder, refreshes = tmp_path / "run", []

    def trained() -> Iterator[None]:
        shutil.copytree(small_folder, folder)
        last = folder / "checkpoints" / "step-00000006.safetensors"
        whole = last.read_bytes()
        last.unlink()
        yield
        refreshes.append(REFRESH in (folder / "report.html").read_text(encoding="utf8"))
        last.write_bytes(whole[: len(whole) // 2])
        yield
        last.write_bytes(whole)
        yield

    between_looks(trained())
    printed = watch(str(folder), "--only", "Loss", "--every", "7")
    first, *_, final = [line for line in printed.splitlines() if line.startswith("step ")]
    assert f"waiting: there is no {folder} yet" in printed
    assert "is damaged" in printed
    assert (first[:8], final[:8]) == ("step 4: ", "step 6: ")
    assert refreshes == [True]
    assert REFRESH not in (folder / "report.html").read_text(encoding="utf8")
    assert set(read_table(folder)["step"]) == {0, 2, 4, 6}


def test_a_log_is_read_again_until_a_step(
    tmp_path: Path, between_looks: Callable[[Iterator[None]], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    steps = np.arange(0, 2000, 20)
    loss = 3 - 2 / (1 + np.exp(-(steps - 800) / 30)) + 0.01 * np.random.default_rng(0).standard_normal(len(steps))
    log = pd.DataFrame({"step": steps, "loss": loss})

    def logged() -> Iterator[None]:
        for rows in (60, 100):
            log.iloc[:rows].to_csv("log.csv", index=False)
            yield

    log.iloc[:30].to_csv("log.csv", index=False)
    between_looks(logged())
    printed = watch("log.csv", "--until", "1980")
    before, after = (next(line for line in printed.splitlines() if line.startswith(f"step {at}")) for at in (580, 1180))
    assert "No transition was found" in before
    assert "One transition was found. Half-way at step 8" in after


def test_what_a_log_leaves_out_is_noted_once_though_its_lines_grow_in_number(
    tmp_path: Path, between_looks: Callable[[Iterator[None]], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = [f"step {step} loss {1 + 1 / (1 + step):.3f}\n" for step in range(0, 300, 10)]

    def logged() -> Iterator[None]:
        for until in (20, 30):
            Path("train.log").write_text("".join(lines[:until]), encoding="utf8")
            yield

    Path("train.log").write_text("".join(lines[:10]), encoding="utf8")
    between_looks(logged())
    with pytest.warns(UserWarning, match="the step is 'step'") as noted:
        watch("train.log", "--until", "290")
    assert [str(each.message) for each in noted] == ["train.log: the step is 'step' (10 lines)"]


def test_once_refuses_what_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    result = CliRunner().invoke(app, ["watch", str(tmp_path / "empty"), "--once"])
    assert result.exit_code == 2
    assert "there is no run.json in it" in " ".join(result.output.split())


def test_an_unknown_probe_is_refused_before_any_look(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["watch", str(tmp_path / "later"), "--only", "Lss"])
    assert result.exit_code == 2
    assert "Loss" in result.output


TRAINER = """
import time

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments, set_seed

set_seed(0)
sizes = {"vocab_size": 8, "n_positions": 16, "n_embd": 16, "n_layer": 1, "n_head": 2}
model = GPT2LMHeadModel(GPT2Config(**sizes, bos_token_id=0, eos_token_id=0))
tokens = (torch.randint(8, (64, 1)) + torch.arange(16)) % 8
torch.save(tokens, "tokens.pt")
arguments = TrainingArguments(
    "trained", max_steps=24, per_device_train_batch_size=16, learning_rate=0.01, save_strategy="steps", save_steps=2,
    use_cpu=True, report_to=[], disable_tqdm=True,
)

class Slow(TrainerCallback):
    def on_step_end(self, *arguments, **more):
        time.sleep(1)

Trainer(
    model, arguments, train_dataset=[{"input_ids": row, "labels": row} for row in tokens], callbacks=[Slow()]
).train()
"""

LOOP = """
import time

with open("train.log", "w") as log:
    for step in range(0, 2001, 50):
        loss = 3.0 if step < 1000 else 1.0
        losses = loss + step % 100 / 5000, loss + step % 150 / 5000
        print(f"step {step}: train loss {losses[0]:.4f}, val loss {losses[1]:.4f}", file=log)
        log.flush()
        time.sleep(0.5)
"""

FOLLOWED = {
    "stagewise train": (
        ["-m", "stagewise", "train", "markov", "--folder", "trained", "--quiet"],
        ["trained", "--only", "Loss", "--sequences", "64"], "900",
    ),
    "Trainer": (["-c", TRAINER], ["trained", "--tokens", "tokens.pt", "--until", "24", "--only", "Loss"], "24"),
    "a loop that prints": (["-c", LOOP], ["train.log", "--until", "2000"], "2000"),
}  # fmt: skip
"""Training -> its arguments to Python, those of `watch`, and its last step."""

READ = "JSON.stringify([document.querySelector('meta[http-equiv=refresh]') !== null, document.body.innerText])"


async def _shown(page: Path, profile: Path, opened: Callable[[], None]) -> list[list[Any]]:
    """Open a page once in Chromium; return whether it loads itself again, with its text, each time it is another."""
    arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    arguments += ["--remote-debugging-port=0", f"--user-data-dir={profile}"]
    browser = subprocess.Popen([str(CHROMIUM), *arguments, page.as_uri()], stderr=subprocess.DEVNULL)
    try:
        while not (port := profile / "DevToolsActivePort").exists():
            await asyncio.sleep(0.1)
        number, shown = port.read_text(encoding="utf8").split()[0], list[list[Any]]()
        while not shown or shown[-1][0]:
            with urllib.request.urlopen(f"http://127.0.0.1:{number}/json") as answer:
                tabs = [each["webSocketDebuggerUrl"] for each in json.load(answer) if each["url"] == page.as_uri()]
            await asyncio.sleep(0.3)
            if not tabs:  # it is loading
                continue
            socket = await websocket_connect(tabs[0], max_message_size=2**26)
            await socket.write_message(
                json.dumps({"id": 1, "method": "Runtime.evaluate", "params": {"expression": READ}})
            )
            value = json.loads(await socket.read_message() or "")["result"]["result"].get("value")
            socket.close()
            seen = json.loads(value or '[true, ""]')
            if seen[1] and seen not in shown[-1:]:
                shown.append(seen)
                opened()
        return shown
    finally:
        browser.kill()
        browser.wait()


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
@pytest.mark.parametrize("training", FOLLOWED)
def test_in_a_browser_the_page_follows_a_training_to_its_end(training: str, tmp_path: Path) -> None:
    trains, watched, last = FOLLOWED[training]
    start = functools.partial(subprocess.Popen, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    with start([sys.executable, "-m", "stagewise", "watch", *watched, "--every", "1", "--quiet"]) as follows:
        with start([sys.executable, *trains]) as trained:
            assert follows.stdout is not None
            page = tmp_path / follows.stdout.readline().removeprefix("report: ").strip()
            trained.send_signal(signal.SIGSTOP)
            looking = _shown(page, tmp_path / "profile", lambda: trained.send_signal(signal.SIGCONT))
            shown = asyncio.run(asyncio.wait_for(looking, timeout=300))
        told = follows.stdout.read().splitlines()[-1]
    assert [again for again, _ in shown] == [True] * (len(shown) - 1) + [False]
    assert len(shown) > 1
    assert f"step {last}" in shown[-1][1]
    assert re.sub(r"^step \d+: ", "", told).split(". ")[0] in shown[-1][1]


@pytest.fixture
def webhook() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """An address on this machine, and what was posted to it."""
    posted = list[dict[str, Any]]()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            posted.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/alarm", posted
    server.shutdown()
    thread.join()
    server.server_close()


def logged(rows: int, loss: np.ndarray) -> None:
    pd.DataFrame({"step": np.arange(0, 2000, 20), "loss": loss}).iloc[:rows].to_csv("log.csv", index=False)


def test_an_alarm_ends_the_watch_with_its_status_a_line_and_a_post(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, webhook: tuple[str, list[dict[str, Any]]]
) -> None:
    monkeypatch.chdir(tmp_path)
    address, posted = webhook
    steps = np.arange(0, 2000, 20)
    loss = 1 + 3 * (1 + steps / 50.0) ** -0.7 + 0.01 * np.random.default_rng(0).standard_normal(len(steps))
    loss[steps >= 1200] = np.nan
    logged(50, loss)
    monkeypatch.setattr("stagewise.cli._watch.sleep", lambda _: logged(70, loss))
    result = CliRunner().invoke(app, ["watch", "log.csv", "--alarm", "--webhook", address, "--quiet"])
    assert result.exit_code == 3, result.output
    line = "loss is not finite from step 1200 on"
    assert result.output.splitlines()[-1] == f"alarm: {line}"
    assert posted == [{"source": "log.csv", "alarms": [line], "text": f"log.csv: {line}"}]
    assert CliRunner().invoke(app, ["watch", "log.csv", "--once", "--quiet"]).exit_code == 0


def test_an_event_that_does_not_come_and_a_training_that_stops_are_alarms(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    logged(100, 1 + 3 * (1 + np.arange(0, 2000, 20) / 50.0) ** -0.7)
    monkeypatch.setattr("stagewise.cli._watch.sleep", lambda _: None)
    clock = iter(range(0, 1000, 50))
    monkeypatch.setattr("stagewise.cli._watch.monotonic", lambda: next(clock))
    ask = functools.partial(CliRunner().invoke, app)
    result = ask(
        ["watch", "log.csv", "--alarm", "--expect", "induction=1500", "--quiet", "--webhook", "http://[::1]:9/"]
    )
    assert (result.exit_code, "alarm: no onset of induction by step 1500" in result.output) == (3, True)
    assert "http://[::1]:9/ did not take the alarm" in result.output
    result = ask(["watch", "log.csv", "--alarm", "--stall", "120", "--quiet"])
    assert (result.exit_code, result.output.splitlines()[-1]) == (
        3,
        "alarm: no new step for 120 seconds, the last one is 1980",
    )


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--stall", "3"], "are of --alarm: give it too"),
        (["--alarm", "--expect", "induction"], '--expect takes EVENT=STEP, as "induction=2000"'),
        (["--alarm", "--webhook", "file:///etc/passwd"], "--webhook is an address"),
    ],
)
def test_options_of_an_alarm_are_refused_before_the_first_look(options: list[str], reason: str) -> None:
    result = CliRunner().invoke(app, ["watch", "nowhere", *options])
    assert result.exit_code == 2
    assert reason in " ".join(result.output.split())
