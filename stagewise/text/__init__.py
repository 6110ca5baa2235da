"""Text to token ids, and relations between the tokens of a sequence.

Other rooms take the names in `__init__.pyi`, each imported when it is first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
