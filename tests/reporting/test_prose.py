"""What the report says in words and tables."""

import pandas as pd

from stagewise.reporting.prose import html_table, run_in_words, title
from stagewise.words.grammar import interval


def test_the_title_has_words_in_place_of_a_folders_name() -> None:
    run = {"recipe": {"task": {"type": "AssociativeRecall"}}}
    assert title(run, "recall-n_pairs=12-n_tokens=64-n_copies=1.0-seed=0-budget=7400") == "Associative recall"
    assert title(run, "seed-3") == "Associative recall: seed-3"
    assert title({"recipe": {}}, "a run") == "a run"
    assert len(title(run, "x" * 90)) < 50


def test_long_cells_wrap_numbers_do_not_and_every_cell_knows_its_column() -> None:
    text = html_table(["what <b>", "t50"], [["a & b " * 9, 12]])
    assert '<td class="long" data-column="what &lt;b&gt;">a &amp; b ' in text
    assert '<td data-column="t50">12</td>' in text
    assert '<td class="word" data-column="p">5e-06</td>' in html_table(["p"], [["5e-06"]])
    assert "stacked" not in text
    assert "stacked" in html_table(["a", "b", "c", "d"], [[1, 2, 3, 4]])


def test_the_run_is_described_whatever_its_record_holds(table: pd.DataFrame) -> None:
    words = run_in_words(
        {"recipe": {"plan": {"steps": 9, "batch_size": 4, "optimiser": "sgd", "learning_rate": 0.1}}},
        table,
    )
    assert words.startswith("It was trained for 9 steps of 4 sequences with SGD, learning rate 0.1")
    assert f"fixed batch of {table['n'].max()} sequences; " in words
    measured = run_in_words({}, table, {"positions": 48})
    assert f"fixed batch of {table['n'].max()} sequences of 48 positions; " in measured
    unfinished = {"recipe": {"plan": {"steps": 601, "batch_size": 4, "optimiser": "sgd", "learning_rate": 0.1}}}
    assert run_in_words(unfinished, table).startswith("It was seen up to step 600 of 601 steps of 4 sequences with SGD")
    plan = {"steps": 9, "batch_size": 4, "optimiser": "adamw", "learning_rate": 0.1, "warmup": 3, "cooldown": 2}
    warmed = run_in_words({"recipe": {"plan": plan}}, table)
    assert "learning rate 0.1, warm-up over 3 steps, cool-down over 2 steps, weight decay 0." in warmed
    architecture = {"config": {"n_layers": 1, "n_heads": 2, "d_model": 8}, "init": {"type": "a.b:PostNorms"}}
    added = "The model is a transformer of 1 layer with 2 heads (width 8, with what PostNorms of a.b adds)."
    assert run_in_words({"recipe": {"architecture": architecture}}, table).startswith(added)
    plain = {**architecture, "init": {"type": "GaussianInit"}}
    assert "heads (width 8)." in run_in_words({"recipe": {"architecture": plain}}, table)
    assert run_in_words({}, table).startswith("31 checkpoints, from step 0 to step 600")
    assert interval(5, 5, 5) == "5"
