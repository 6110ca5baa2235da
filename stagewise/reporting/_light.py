"""A light copy of a report, to send by mail: its sentences, tables and drawings, packed, without what fills a page."""

import html
import re
from pathlib import Path

from stagewise.reporting._html import Page, packaged, packed_script, write_text

LEFT_OUT = "checkpoints", "last-checkpoint"
"""Sections that hold every map."""

ROWS = re.compile(r'<a href="[^"]*" download="[^"]*" data-csv="[^"]*">[^<]*</a>')
"""Links that hold the rows of a figure."""


def light_copy(page: Path) -> Page:
    """Write a packed `report-light.html` without maps and rows of figures; the answer shows without scripts too."""
    text = page.read_text(encoding="utf8")
    head, _, rest = text.partition("<main>")
    main, _, foot = rest.rpartition("</main>")
    data, _, script = foot.rpartition("<script>")
    script, _, end = script.rpartition("</script>")
    for section in LEFT_OUT:
        main = re.sub(rf'<(section|details)[^>]* id="{section}">.*?</\1>\n', "", main, flags=re.DOTALL)
        head = re.sub(rf'<a href="#{section}">[^<]*</a>', "", head)
    whole = html.escape(page.name)
    note = f'<noscript><p>What follows is packed: allow scripts, or open <a href="{whole}">{whole}</a>.</p></noscript>'
    parts = packed_script("packed-main", ROWS.sub("", main)) + packed_script("packed-script", script)
    light = f"{head}<main>{note}</main>{data}{parts}<script>{packaged('unpack.js')}</script>{end}"
    return Page(write_text(page.with_name(f"{page.stem}-light.html"), light))
