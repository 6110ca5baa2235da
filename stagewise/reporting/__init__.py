"""The report: one HTML page from a folder's tables; `section` makes a section of one's own."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
