"""Whatever is given, it works or raises a documented error in a line: nothing but what a message can explain.

The default suite tries few examples, always the same ones; `make slow` tries more.
"""

import json
import math
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from stagewise.checkpoints.audit import audit
from stagewise.checkpoints.run_folder import RUN, TABLE
from stagewise.checkpoints.series import find, open_series
from stagewise.cli._recipes import changed, read_settings
from stagewise.cli.app import app
from stagewise.findings.stages import find_stages
from stagewise.plan import TrainPlan
from stagewise.recipe import Recipe, describe, rebuild
from stagewise.schedules import linear, logarithmic
from stagewise.tasks import MarkovChain

REFUSED = (ValueError, OSError)
"""What the public functions document, besides a TypeError for an argument of another type."""

QUIET = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large]


PHASES = (Phase.explicit, Phase.generate)
"""A case that fails is not made smaller: what takes long would take long many times."""


def few(examples: int) -> settings:
    return settings(
        max_examples=examples,
        derandomize=True,
        database=None,
        suppress_health_check=QUIET,
        phases=PHASES,
    )


ODD_NUMBERS = st.sampled_from(
    [0, -1, 1, 2, 3, 2**31, 2**63, 10**30, -(10**30), 1.5, -0.0, 1e-320, 1e308, math.nan, math.inf]
)
ODD_TEXTS = st.sampled_from(["", "abc", "inf", "\n", "é\u0000", "../..", "a" * 300, "[1", "null", "%s{}"])
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), ODD_NUMBERS, st.text(max_size=6), ODD_TEXTS)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.one_of(st.text(max_size=6), ODD_TEXTS), inner, max_size=4)
    ),
    max_leaves=8,
)


def one_line(reason: BaseException) -> None:
    assert str(reason).strip(), f"{type(reason).__name__} says nothing"
    assert len(str(reason).splitlines()) <= 2, str(reason)


def paths_of(described: Any, path: str = "") -> list[str]:
    """Every path that --set reaches, and every inner node."""
    inner = described.items() if isinstance(described, dict) else ()
    return [path] * bool(path) + [p for name, each in inner for p in paths_of(each, f"{path}.{name}".strip("."))]


@pytest.mark.parametrize("examples", [8, pytest.param(1500, marks=pytest.mark.slow)])
def test_settings_make_a_recipe_or_are_refused(examples: int, small_recipe: Recipe) -> None:
    paths = [*paths_of(describe(small_recipe)), "", ".", "plan..steps", "task.type.type", "plan.nothing", "é"]

    @few(examples)
    @given(st.dictionaries(st.sampled_from(paths), JSON, min_size=1, max_size=2))
    def law(values: dict[str, Any]) -> None:
        try:
            recipe = changed(small_recipe, read_settings([f"{key}={json.dumps(v)}" for key, v in values.items()]))
        except ValueError as reason:
            one_line(reason)
            return
        assert rebuild(json.loads(json.dumps(describe(recipe))), [MarkovChain]) == recipe

    law()


@pytest.mark.parametrize("examples", [25, pytest.param(2000, marks=pytest.mark.slow)])
def test_a_text_after_set_is_read_or_refused(examples: int) -> None:
    @few(examples)
    @given(st.one_of(st.text(), ODD_TEXTS, st.integers(1, 5).map(lambda n: "a=" + "[" * 10**n)))
    def law(text: str) -> None:
        try:
            assert len(read_settings([text])) == 1
        except ValueError as reason:
            one_line(reason)

    law()


@pytest.mark.parametrize("examples", [25, pytest.param(1500, marks=pytest.mark.slow)])
def test_a_run_json_opens_or_is_refused(examples: int, small_recipe: Recipe, tmp_path: Path) -> None:
    whole = {"format": 2, "recipe": describe(small_recipe), "run": "x"}
    paths = paths_of(whole)

    @few(examples)
    @given(st.one_of(JSON, st.tuples(st.sampled_from(paths), JSON)))
    def law(content: Any) -> None:
        value = content
        if isinstance(content, tuple):
            value = json.loads(json.dumps(whole))
            *stem, last = content[0].split(".")
            node = value
            for name in stem:
                node = node[name]
            node[last] = content[1]
        (tmp_path / RUN).write_text(json.dumps(value), encoding="utf8")
        for look in (lambda: open_series(tmp_path), lambda: audit(find(tmp_path))):
            try:
                look()
            except REFUSED as reason:
                one_line(reason)

    law()


@pytest.mark.parametrize("examples", [50, pytest.param(3000, marks=pytest.mark.slow)])
def test_a_plan_saves_ascending_steps_from_the_first_to_the_last_or_is_refused(examples: int) -> None:
    number = st.one_of(st.integers(-3, 2000), st.sampled_from([2**31, 2**62, 2**64]))

    @few(examples)
    @given(number, st.one_of(st.none(), st.lists(number, max_size=5)), number, number)
    def law(steps: int, save: list[int] | None, warmup: int, cooldown: int) -> None:
        try:
            plan = TrainPlan(steps=steps, save=save, warmup=warmup, cooldown=cooldown)
        except ValueError as reason:
            one_line(reason)
            return
        assert (plan.saved_steps[0], plan.saved_steps[-1]) == (0, steps)
        assert list(plan.saved_steps) == sorted(set(plan.saved_steps))
        assert all(0 <= plan.rate_factor(step) <= 1 for step in (0, steps // 2, steps - 1))

    law()


@pytest.mark.parametrize("examples", [50, pytest.param(3000, marks=pytest.mark.slow)])
def test_schedules_lie_between_their_ends_or_are_refused(examples: int) -> None:
    @few(examples)
    @given(st.integers(-2, 40), st.integers(-5, 3000), st.integers(-3, 50))
    def law(every: int, stop: int, start: int) -> None:
        for schedule in (linear, logarithmic):
            try:
                steps = schedule(every, stop, start)
            except ValueError as reason:
                one_line(reason)
                continue
            assert all(start <= step < stop for step in steps)
            assert (start in steps) is (start < stop)

    law()


NAMES = st.sampled_from(
    [
        *("checkpoint-3", "checkpoint-0000003", "step7", "stage1-step9", "seed_1-step_2k", "epoch=1-step=4.ckpt"),
        *("model_3.pt", "model_3.safetensors", "x.pt", "12.bin", "checkpoint-99999999999999999999", "é-step5.pth"),
        *("config.json", "trainer_state.json", ".hidden", "checkpoint--1", "step1\n", "checkpoint-5.pt", "SHA256SUMS"),
    ]
)
CONTENTS = st.one_of(
    st.binary(max_size=40),
    JSON.map(lambda value: json.dumps(value).encode()),
    st.sampled_from([b"", b"PK\x03\x04", b"\x80\x04.", b"\x08\0\0\0\0\0\0\0{}      ", b"\xff" * 16, b"[" * 10**5]),
    st.just(None),  # a folder
)
INSIDE = ("model.safetensors", "config.json", "trainer_state.json", "model.safetensors.index.json", "pytorch_model.bin")


@pytest.mark.parametrize("examples", [25, pytest.param(1500, marks=pytest.mark.slow)])
def test_a_folder_of_anything_is_opened_and_audited_or_refused(examples: int) -> None:
    @few(examples)
    @given(st.dictionaries(NAMES, CONTENTS, min_size=1, max_size=4), st.sampled_from(INSIDE), CONTENTS)
    def law(files: dict[str, bytes | None], name: str, content: bytes | None) -> None:
        folder = Path(tempfile.mkdtemp())
        try:
            for path, each in files.items():
                if each is None:
                    (folder / path).mkdir()
                    (folder / path / name).write_bytes(content or b"")
                else:
                    (folder / path).write_bytes(each)
            for look in (lambda: str(audit(find(folder))), lambda: [*open_series(folder)]):
                try:
                    look()
                except REFUSED as reason:
                    one_line(reason)
        finally:
            shutil.rmtree(folder)

    law()


VALUES = st.one_of(st.floats(0, 3), st.floats(allow_nan=True), ODD_NUMBERS.map(float))
KEYS = ("reference", "nested", "layer", "head", "relation")
QUANTITIES: tuple[tuple[str, str, tuple[Any, ...]], ...] = (
    ("KLToReference", "kl", ("one", 1, None, None, None)),
    ("KLToReference", "kl", ("two", 2, None, None, None)),
    ("Loss", "loss", (None, None, None, None, None)),
    ("AttentionTo", "mass", (None, None, 0, 1, "previous token")),
    ("HeadSpecialisation", "group", (None, None, 0, 0, None)),
    ("Mine", "", (None, 7, -1, None, "")),
)


@st.composite
def tables(draw: st.DrawFn) -> pd.DataFrame:
    """Rows of quantities over some steps, of which some are gone, some twice and some not numbers."""
    steps = draw(
        st.one_of(st.just([*range(0, 60, 10)]), st.lists(st.sampled_from([-1, 0, 1, 2, 5, 2**40]), max_size=6))
    )
    rows = [
        {
            "step": step,
            "probe": probe,
            "quantity": quantity,
            **dict(zip(KEYS, axes, strict=True)),
            "value": draw(VALUES),
        }
        for probe, quantity, axes in draw(st.lists(st.sampled_from(QUANTITIES), unique=True))
        for step in steps
    ]
    table = pd.DataFrame(rows, columns=["step", "probe", "quantity", *KEYS, "value"]).assign(run="r")
    gone = draw(st.sets(st.sampled_from([*table.columns]), max_size=1))
    return table.drop(columns=[*gone]) if draw(st.booleans()) else table.sample(frac=1, random_state=0)


@pytest.mark.parametrize("examples", [2, pytest.param(250, marks=pytest.mark.slow)])
def test_stages_are_found_in_any_table_or_it_is_refused(examples: int, tmp_path: Path) -> None:
    path = tmp_path / TABLE
    path.parent.mkdir()

    @few(examples)
    @given(tables())
    def law(table: pd.DataFrame) -> None:
        with np.errstate(all="ignore"):
            try:
                str(find_stages(table))
            except ValueError as reason:
                one_line(reason)
        table.to_parquet(path, index=False)
        result = CliRunner().invoke(app, ["stages", str(tmp_path)])
        assert result.exit_code in (0, 2), (result.output, result.exception)

    law()


ARGUMENTS = st.lists(
    st.one_of(
        st.sampled_from(
            [
                *(
                    "--steps",
                    "--set",
                    "--preset",
                    "--seed",
                    "--heads",
                    "@config.json",
                    "--folder",
                    "--only",
                    "--without",
                ),
                *("--probe", "--memory", "--workers", "--json", "--quiet", "--text", "--tokenizer", "--task"),
                *("--architecture", "--contexts", "--device", "--dtype", "--figure", "--out", "-h", "--"),
                *("nonsense", "no:where", "os:system", "plan.steps=x", "=", "task=3", "3", "-1", "1e9", "cpu", "nan"),
            ]
        ),
        st.text(max_size=5),
    ),
    max_size=4,
)
COMMANDS = st.sampled_from(["train", "measure", "stages", "report", "audit", "series sweep", "run", "nonsense"])


@pytest.mark.parametrize("examples", [4, pytest.param(600, marks=pytest.mark.slow)])
def test_a_command_line_ends_with_a_status_and_never_a_traceback(
    examples: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    @few(examples)
    @given(COMMANDS, st.sampled_from(["nowhere", ".", "", "no:where", "a/b"]), ARGUMENTS)
    def law(command: str, source: str, arguments: list[str]) -> None:
        result = CliRunner().invoke(app, [*command.split(), source, *arguments])
        assert result.exception is None or isinstance(result.exception, SystemExit), (result.exc_info, arguments)
        assert result.exit_code in (0, 1, 2)

    law()
