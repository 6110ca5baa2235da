"""The sessions of docs/api.md print what stands there."""

import doctest
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[1] / "docs" / "api.md"


class Checker(doctest.OutputChecker):
    """Without the line that TransformerLens 3.9 prints as it makes a model."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        return super().check_output(want, got.replace("Moving model to device:  cpu\n", ""), optionflags)


@pytest.mark.docs
@pytest.mark.usefixtures("undrawn")
def test_the_sessions_of_the_reference_print_what_stands_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = "\n".join(re.findall(r"^```pycon\n(.*?)^```", PAGE.read_text(encoding="utf8"), re.DOTALL | re.MULTILINE))
    session = doctest.DocTestParser().get_doctest(text, {}, PAGE.name, str(PAGE), 0)
    assert len(session.examples) > 40
    printed: list[str] = []
    results = doctest.DocTestRunner(Checker(), optionflags=doctest.NORMALIZE_WHITESPACE).run(
        session, out=printed.append
    )
    assert results.failed == 0, "".join(printed)
