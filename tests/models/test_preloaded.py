"""What the server of worker processes imports."""

import gc
import runpy

import pytest

from stagewise.models import _preloaded as preloaded
from stagewise.models import process as process


def test_it_imports_the_libraries_and_no_look_for_garbage_sees_them(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, bool] = {}
    monkeypatch.setattr("importlib.import_module", lambda name: asked.update({name: gc.isenabled()}))
    try:
        runpy.run_path(preloaded.__file__)
        assert asked == {"torch": False, "transformer_lens": False}
        assert gc.isenabled()
        assert gc.get_freeze_count() > 100_000
    finally:
        gc.unfreeze()


def test_after_a_failed_import_garbage_is_collected_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_LIBRARIES", ("nowhere",))
    before = gc.get_freeze_count()
    with pytest.raises(ModuleNotFoundError):
        process.import_libraries()
    assert (gc.isenabled(), gc.get_freeze_count()) == (True, before)
