"""All that knows TransformerLens or Hugging Face: build a model, load weights, run it clean or edited."""

from stagewise.models.building import build as build
from stagewise.models.building import described as described
from stagewise.models.building import has_hooked_transformer as has_hooked_transformer
from stagewise.models.building import hook_point as hook_point
from stagewise.models.building import hooked_module as hooked_module
from stagewise.models.held_attention import HELD_KEYS as HELD_KEYS
from stagewise.models.model import Model as Model
from stagewise.models.native import is_native as is_native
from stagewise.models.passes import circuits as circuits
from stagewise.models.passes import clean_pass as clean_pass
from stagewise.models.passes import edited_pass as edited_pass
from stagewise.models.passes import hooks_for as hooks_for
from stagewise.models.published_configs import named_config as named_config
from stagewise.models.trial import check_edits as check_edits
from stagewise.models.uninitialised import unloaded as unloaded
from stagewise.models.weights import CONSTANTS as CONSTANTS
from stagewise.models.weights import average_over_heads as average_over_heads
from stagewise.models.weights import keep_heads_alike as keep_heads_alike
from stagewise.models.weights import load as load
from stagewise.models.weights import parameters as parameters
from stagewise.models.weights import weights as weights
from stagewise.models.weights import without_constants as without_constants
from stagewise.models.wrapping import is_bridge as is_bridge
