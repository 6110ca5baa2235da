"""A light copy of a report: what is in it, what is packed, what is left out."""

from pathlib import Path

import pandas as pd

from stagewise.reporting._figure import _csv_link
from stagewise.reporting._light import light_copy
from stagewise.reporting.page import Part, page_html
from stagewise.table import tidy
from tests.fixtures.packed import packed_in


def test_the_answer_is_readable_and_the_rest_is_packed_without_maps_and_rows(tmp_path: Path) -> None:
    rows = tidy([pd.DataFrame({"run": "r", "step": [1], "probe": "Loss", "quantity": "excess", "value": [0.5]})])
    parts = [
        Part("stages", "The stages", f"<p>They are these.</p>{_csv_link('stages', rows)}"),
        Part("last-checkpoint", "Views", '<details class="circuitsvis"><div id="circuitsvis"></div></details>'),
        Part("checkpoints", "Every checkpoint", "<p>maps</p>", folded=True),
        Part("settings", "Settings", "<p>a = 1</p>", folded=True),
    ]
    whole = page_html(name="mine", headline="One", finding="One transition was found.", words="", parts=parts)
    (tmp_path / "report.html").write_text(whole, encoding="utf8")
    copy = light_copy(tmp_path / "report.html")
    light = copy.read_text(encoding="utf8")
    main = packed_in(light, "packed-main")
    assert copy == tmp_path / "report-light.html"
    assert "One transition was found." in light
    assert "They are these." in main
    assert "a = 1" in main
    assert 'href="#last-checkpoint"' not in light
    assert not [word for word in ("circuitsvis", "maps", "data-csv") if word in main]
    assert packed_in(light, "packed-script").startswith("// The report's own script")
