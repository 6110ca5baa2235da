"""Figures of a measured table: table in, matplotlib figure out.

Most functions take the tidy table of one run, and refuse that of several; `over_seeds` takes that of
several. A function with an argument `ax` draws on these axes, or on new ones without it, and returns them. The others
return the figure that they make. Those with an argument `stages` shade them. A table without the rows that a figure
shows is a ValueError, which names what it has; so are the rows of several runs where a figure shows one. pyplot knows
none of the new figures: `ax.figure.savefig(...)` saves one. `quantity` draws any quantity of any probe, including one's
own.

The names are in `__init__.pyi`, and imported when they are first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
