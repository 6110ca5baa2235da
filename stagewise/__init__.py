"""stagewise: in which stages did a model's attention heads learn what they do?

    train(recipe, folder) -> CheckpointSeries      open_series(folder) -> CheckpointSeries
    measure(series, probes, batch) -> table        find_stages(table) -> Stages
    plot.*(table) -> Axes                          report(folder) -> report.html
    analyse(series) -> all of it, for any series of checkpoints

Names are imported when they are first used: `import stagewise` costs no torch.
"""

import re
from importlib import import_module
from pathlib import Path

_PUBLIC = Path(__file__).with_suffix(".pyi").read_text(encoding="utf8")
_HOME = {name: module for module, name in re.findall(r"^from (\S+) import (\w+) as \2$", _PUBLIC, re.MULTILINE)}
"""Public name -> the module that it is imported from, by the one list that type checkers read too: `__init__.pyi`."""

__all__ = list(_HOME)


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'stagewise' has no attribute {name!r}")
    if _HOME[name] == __name__:
        return import_module(f"{__name__}.{name}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
