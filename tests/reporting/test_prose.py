"""What the report says in words and tables."""

from stagewise.reporting.prose import html_table, title


def test_the_title_has_words_in_place_of_a_folders_name() -> None:
    run = {"recipe": {"task": {"type": "AssociativeRecall"}}}
    assert title(run, "recall-n_pairs=12-n_tokens=64-n_copies=1.0-seed=0-budget=7400") == "Associative recall"
    assert title(run, "seed-3") == "Associative recall: seed-3"
    assert title({"recipe": {}}, "a run") == "a run"
    assert len(title(run, "x" * 90)) < 50


def test_long_cells_wrap_and_every_cell_knows_its_column() -> None:
    text = html_table(["what <b>", "t50"], [["a & b " * 9, 12]])
    assert '<td class="long" data-column="what &lt;b&gt;">a &amp; b ' in text
    assert '<td data-column="t50">12</td>' in text
    assert "stacked" not in text
    assert "stacked" in html_table(["a", "b", "c", "d"], [[1, 2, 3, 4]])
