"""All that knows TransformerLens or Hugging Face: build a model, load weights, run it clean or edited."""

from stagewise.models.transformer_lens import CONSTANTS as CONSTANTS
from stagewise.models.transformer_lens import Model as Model
from stagewise.models.transformer_lens import build as build
from stagewise.models.transformer_lens import build_toy as build_toy
from stagewise.models.transformer_lens import circuits as circuits
from stagewise.models.transformer_lens import clean_pass as clean_pass
from stagewise.models.transformer_lens import described as described
from stagewise.models.transformer_lens import edited_pass as edited_pass
from stagewise.models.transformer_lens import has_hooked_transformer as has_hooked_transformer
from stagewise.models.transformer_lens import hooks_for as hooks_for
from stagewise.models.transformer_lens import is_bridge as is_bridge
from stagewise.models.transformer_lens import load as load
from stagewise.models.transformer_lens import parameters as parameters
from stagewise.models.transformer_lens import weights as weights
