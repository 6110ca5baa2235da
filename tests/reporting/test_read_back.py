"""What a report says first is true of its table, and nothing below says otherwise."""

from pathlib import Path

import pandas as pd
import pytest

from stagewise.analysis import measure_run
from stagewise.checkpoints.run_folder import REPORT, RUN, TABLE, read_table
from stagewise.papers.tasks import AssociativeRecall, SequenceClasses, SparseRegression
from stagewise.presets import recipe_for
from stagewise.reporting.page import report
from stagewise.task import AbstractTask
from stagewise.tasks import MarkovChain, RepeatedTokens
from stagewise.training import train
from tests.fixtures.read_back import contradictions

pytestmark = pytest.mark.usefixtures("unchecked")


def page_of(folder: Path) -> str:
    report(folder)
    return (folder / REPORT).read_text(encoding="utf8")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory, table: pd.DataFrame) -> str:
    folder = tmp_path_factory.mktemp("run")
    (folder / TABLE).parent.mkdir()
    table.to_parquet(folder / TABLE)
    (folder / RUN).write_text('{"recipe": {"task": {"type": "Own"}}}')
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("stagewise.reporting._figure.svg", lambda figure, name: "<svg></svg>")
        return page_of(folder)


def test_first_sentences_are_those_of_the_table(page: str, table: pd.DataFrame) -> None:
    assert contradictions(page, table) == []


@pytest.mark.parametrize(
    ("claim", "instead", "why"),
    [
        ("One transition was found", "Two transitions were found", "tells 1 transitions"),
        ("accuracy from 0.10", "accuracy from 0.30", "no checkpoint of accuracy"),
        ("0.10 -&gt; 0.90", "0.10 -&gt; 0.50", "does not go from 0.10 to 0.50"),
        ("</main>", "<p>no separate stages</p></main>", "below"),
    ],
)
def test_a_sentence_that_is_not_is_found(page: str, table: pd.DataFrame, claim: str, instead: str, why: str) -> None:
    assert claim in page
    assert any(why in wrong for wrong in contradictions(page.replace(claim, instead), table))


@pytest.mark.slow
@pytest.mark.parametrize("kind", [AssociativeRecall, MarkovChain, RepeatedTokens, SequenceClasses, SparseRegression])
def test_reports_of_the_catalogue_contradict_neither_their_tables_nor_themselves(
    kind: type[AbstractTask], tmp_path: Path
) -> None:
    recipe = recipe_for(kind)
    train(recipe, tmp_path / "run", progress=False)
    measure_run(recipe, tmp_path / "run", progress=False)
    assert contradictions(page_of(tmp_path / "run"), read_table(tmp_path / "run")) == []
