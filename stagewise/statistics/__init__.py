"""Curves as arrays in, estimates with intervals out: transitions, turning points, crossings, noise.

The names are in `__init__.pyi`, and imported when they are first used; README.md shows what each is for.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
