"""All that knows TransformerLens or Hugging Face: build a model, load weights, run it clean or edited.

Other rooms take the names in `__init__.pyi`, each imported when it is first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
