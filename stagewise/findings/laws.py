"""Laws over a sweep's frame of runs: what `statistics` fits to columns, with frames in and out."""

from collections.abc import Sequence

import pandas as pd

from stagewise import statistics
from stagewise.statistics import LawScore


class MixedLaw(statistics.MixedLaw):
    """`statistics.MixedLaw`, which predicts frames."""

    def predict(self, runs: pd.DataFrame) -> pd.DataFrame:
        """Return the time of one run of each setting that was not fitted, with its 95 % interval: time, lo, hi."""
        return pd.DataFrame(self.times(runs)._asdict(), index=runs.index)


def fit_mixed(runs: pd.DataFrame, law: str, settings: str, time: str = "time") -> MixedLaw:
    """Fit a power law with a random effect of the setting, by restricted maximum likelihood (REML).

    Args:
        runs: a row a run: the law's columns, the setting and the time.
        law: terms separated by commas, each an expression over the columns.
        settings: column that is the same in the seeds of one setting, and differs between settings.
        time: the column of times, all known: of `find_emergence_times` the geometric mean of `lo` and `hi`, say.

    Raises:
        ValueError: what `statistics.fit_mixed` refuses.
    """
    return MixedLaw(**vars(statistics.fit_mixed(runs, law, settings, time)))


def compare_laws(runs: pd.DataFrame, laws: Sequence[str], settings: str, time: str = "time") -> pd.DataFrame:
    """Compare laws by how well each predicts the settings that it was not fitted to, one left out at a time.

    Returns a row a law, the best one first, with the fields of `statistics.LawScore`: `law`, `density`, `behind`,
    `behind_error`, `verdict`.

    Raises:
        ValueError: what `statistics.compare_laws` refuses.
    """
    return pd.DataFrame(statistics.compare_laws(runs, laws, settings, time), columns=list(LawScore._fields))
