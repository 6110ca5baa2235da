"""What a table was measured with: read from it, or from what lies beside it, and made anew."""

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch

from stagewise import probes
from stagewise.analysis import measure_run
from stagewise.checkpoints._table_file import PROVENANCE
from stagewise.checkpoints.run_folder import TABLE
from stagewise.measurement._recorded import in_words, made_anew, recorded_probes
from stagewise.probe import AbstractProbe
from stagewise.probes import AttentionProgress, AttentionTo, HeadAblation, Loss, RestrictedContextKL, ValueAlignment
from stagewise.recipe import Recipe

CATALOGUE: list[Any] = [cls for cls in vars(probes).values() if isinstance(cls, type)]
BY_DEFAULT = [
    cls for cls in CATALOGUE if all(each.default is not dataclasses.MISSING for each in dataclasses.fields(cls))
]
OTHERS = [HeadAblation(heads=((0, 1),), kinds=("mean",), seed=3), RestrictedContextKL((1, 3)), AttentionTo(("I(1)",))]


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
    for unknown in (probe, AttentionProgress(relations=("I(1)",))):
        name = type(unknown).__name__
        with pytest.raises(ValueError, match=rf"cannot be read from these words.* by --probe module:{name}, or leave"):
            made_anew(in_words([unknown]), [Loss()])


def test_a_table_records_its_own_probes_not_those_of_the_measurements_beside_it(run: Path) -> None:
    assert recorded_probes(run) == in_words([Loss(), AttentionTo(("I(1)",))])
    assert recorded_probes(run / "elsewhere") == {}


def test_a_table_of_an_earlier_version_has_the_probes_of_the_newest_measurement_with_them(run: Path) -> None:
    table = pq.read_table(run / TABLE)
    metadata = {**table.schema.metadata, PROVENANCE: json.dumps({"device": "cpu"})}
    pq.write_table(table.replace_schema_metadata(metadata), run / TABLE)
    assert recorded_probes(run) == in_words([Loss(), AttentionTo(("I(1)",))])
    for path in (run / "tables" / "parts").glob("*/settings.json"):
        path.unlink()
    with pytest.raises(ValueError, match=r"does not say which probes .* `stagewise measure .*run`"):
        recorded_probes(run)


def test_a_probe_of_ones_own_is_asked_for_by_its_name() -> None:
    with pytest.raises(ValueError, match=r"a probe of one's own: give --probe mine:Loss, or .* with --without Loss"):
        made_anew({"mine:Loss": "Loss()"}, [Loss()])
    with pytest.raises(ValueError, match=r"a probe of one's own: give --probe module:Mine, or"):
        made_anew({"Mine": "Mine(3)"})
