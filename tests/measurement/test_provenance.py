"""What decided a measurement is in its record."""

import dataclasses
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch

from stagewise import probes
from stagewise.analysis import measure_run
from stagewise.checkpoints._table_file import PROVENANCE, TableFile
from stagewise.checkpoints.run_folder import TABLE
from stagewise.checkpoints.series import CheckpointSeries
from stagewise.measurement._earlier import PASSES
from stagewise.measurement._measuring import _SLOWER
from stagewise.measurement._provenance import PROBES, in_words, made_anew, provenance, recorded_probes
from stagewise.measurement.engine import measure
from stagewise.probe import AbstractProbe
from stagewise.probes import AttentionTo, HeadAblation, Loss, RestrictedContextKL, ValueAlignment
from stagewise.recipe import Recipe
from stagewise.task import Batch


def test_another_batch_has_another_hash() -> None:
    batch = Batch.from_tokens(torch.tensor([[1, 2, 3], [3, 2, 1]]))
    record = provenance(batch, "cuda")
    assert (record["sequences"], record["positions"], record["device"]) == (2, 2, "cuda")
    assert record["batch"] == provenance(dataclasses.replace(batch))["batch"] != provenance(batch[:1])["batch"]


def test_a_table_on_disk_says_where_it_comes_from(small_run: CheckpointSeries, tmp_path: Path) -> None:
    batch = Batch.from_tokens(torch.tensor([[1, 2, 3], [3, 2, 1]]))
    measure(small_run, [Loss()], batch, save=tmp_path / "table.parquet", progress=False)
    metadata = pq.read_schema(tmp_path / "table.parquet").metadata
    assert json.loads(metadata[PROVENANCE]) == {**provenance(batch), PROBES: {"Loss": "Loss()"}}


@pytest.mark.hooked_only("native bridges have no ALiBi")
def test_what_is_measured_with_hooks_says_so(
    series_of: Callable[..., CheckpointSeries], batch: Batch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, slopes = tmp_path / "table.parquet", {"positional_embedding_type": "alibi"}
    probes = [HeadAblation(kinds=("mean",))]
    for ways, series in (("lean", [series_of()]), ("with hooks", [series_of(**slopes)])):
        measure(series, probes, batch, save=path)
        assert TableFile(path).provenance[PASSES] == ways
        assert (_SLOWER in capsys.readouterr().err) == (ways == "with hooks")
    both = [series_of(), series_of((0,), "other", **slopes)]
    measure(both, probes, batch, save=path, folder=tmp_path, progress=False)
    measure(both, probes, batch, save=path, folder=tmp_path, progress=False)
    assert TableFile(path).provenance[PASSES] == "lean at 3 of 4 checkpoints, with hooks at 1 of 4 checkpoints"


CATALOGUE: list[Any] = [cls for cls in vars(probes).values() if isinstance(cls, type)]
BY_DEFAULT = [
    cls for cls in CATALOGUE if all(each.default is not dataclasses.MISSING for each in dataclasses.fields(cls))
]
OTHERS = [HeadAblation(heads=((0, 1),), kinds=("mean",)), RestrictedContextKL((1, 3)), AttentionTo(("I(1)",))]


@pytest.fixture
def run(small_folder: Path, small_recipe: Recipe, few_sequences: None, tmp_path: Path) -> Path:
    """A run that was measured twice."""
    folder = Path(shutil.copytree(small_folder, tmp_path / "run"))
    for chosen in ([Loss(), AttentionTo()], [Loss(), AttentionTo(("I(1)",))]):
        measure_run(small_recipe, folder, probes=chosen, progress=False)
    return folder


@pytest.mark.parametrize("probe", [*(cls() for cls in BY_DEFAULT), *OTHERS], ids=repr)
def test_a_probe_of_the_catalogue_is_made_anew_with_its_parameters(probe: AbstractProbe) -> None:
    (again,) = made_anew(in_words([probe]))
    assert (type(again), vars(again)) == (type(probe), vars(probe))


def test_a_probe_that_holds_what_no_words_say_is_one_that_there_is_already_or_is_asked_for() -> None:
    probe = ValueAlignment({"copy": torch.eye(3)})
    assert made_anew(in_words([probe]), [Loss(), probe])[0] is probe
    with pytest.raises(
        ValueError, match=r"cannot be read from these words.* by --probe module:ValueAlignment, or leave"
    ):
        made_anew(in_words([probe]), [Loss()])


def test_a_table_records_its_own_probes_not_those_of_the_measurements_beside_it(run: Path) -> None:
    assert recorded_probes(run) == in_words([Loss(), AttentionTo(("I(1)",))])
    assert recorded_probes(run / "elsewhere") == {}


def test_a_table_that_does_not_say_its_probes_is_measured_anew(run: Path) -> None:
    table = pq.read_table(run / TABLE)
    metadata = {**table.schema.metadata, PROVENANCE: json.dumps({"device": "cpu"})}
    pq.write_table(table.replace_schema_metadata(metadata), run / TABLE)
    with pytest.raises(ValueError, match=r"does not say which probes .* `stagewise measure .*run`"):
        recorded_probes(run)


def test_a_probe_of_ones_own_is_asked_for_by_its_name() -> None:
    with pytest.raises(ValueError, match=r"a probe of one's own: give --probe mine:Loss, or .* with --without Loss"):
        made_anew({"mine:Loss": "Loss()"}, [Loss()])
    with pytest.raises(ValueError, match=r"a probe of one's own: give --probe module:Mine, or"):
        made_anew({"Mine": "Mine(3)"})
