"""Where weights on disk come from and go to: run folders, series of checkpoints, their audit."""

from stagewise.checkpoints._digest import short_digest as short_digest
