"""All that knows TransformerLens or Hugging Face: build a model, load weights, run it clean or edited."""

from stagewise.models._bridge_loading import is_bridge as is_bridge
from stagewise.models._building import build as build
from stagewise.models._building import described as described
from stagewise.models._building import has_hooked_transformer as has_hooked_transformer
from stagewise.models._building import hook_point as hook_point
from stagewise.models._building import hooked_module as hooked_module
from stagewise.models._building import unloaded as unloaded
from stagewise.models._config_fields import named_config as named_config
from stagewise.models._held_attention import HELD_KEYS as HELD_KEYS
from stagewise.models._model import Model as Model
from stagewise.models._native import is_native as is_native
from stagewise.models._readout import activations_alone as activations_alone
from stagewise.models._readout import circuits as circuits
from stagewise.models._readout import clean_pass as clean_pass
from stagewise.models._readout import edited_pass as edited_pass
from stagewise.models._readout import hooks_for as hooks_for
from stagewise.models._trial import check_edits as check_edits
from stagewise.models._trial import check_scores as check_scores
from stagewise.models._weights import CONSTANTS as CONSTANTS
from stagewise.models._weights import average_over_heads as average_over_heads
from stagewise.models._weights import is_finite as is_finite
from stagewise.models._weights import keep_heads_alike as keep_heads_alike
from stagewise.models._weights import load as load
from stagewise.models._weights import parameters as parameters
from stagewise.models._weights import weights as weights
from stagewise.models._weights import without_constants as without_constants
