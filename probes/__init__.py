"""The catalogue of probes: one idea a file; installed packages add theirs by entry points `stagewise.probes`."""

from typing import TYPE_CHECKING

from stagewise.entry_points import loaded as _loaded
from stagewise.probes.accuracy import Accuracy as Accuracy
from stagewise.probes.attention_distance import AttentionDistance as AttentionDistance
from stagewise.probes.attention_entropy import AttentionEntropy as AttentionEntropy
from stagewise.probes.attention_to import AttentionTo as AttentionTo
from stagewise.probes.behaviour_curve import BehaviourCurve as BehaviourCurve
from stagewise.probes.behaviour_heads import BehaviourHeads as BehaviourHeads
from stagewise.probes.composition import Composition as Composition
from stagewise.probes.copying import Copying as Copying
from stagewise.probes.direct_logit_attribution import DirectLogitAttribution as DirectLogitAttribution
from stagewise.probes.edge_attribution import EdgeAttribution as EdgeAttribution
from stagewise.probes.effective_support import EffectiveSupport as EffectiveSupport
from stagewise.probes.head_ablation import HeadAblation as HeadAblation
from stagewise.probes.head_attribution import HeadAttribution as HeadAttribution
from stagewise.probes.head_specialisation import HeadSpecialisation as HeadSpecialisation
from stagewise.probes.in_context_learning import InContextLearning as InContextLearning
from stagewise.probes.kl_to_reference import KLToReference as KLToReference
from stagewise.probes.logit_lens import LogitLens as LogitLens
from stagewise.probes.loss import Loss as Loss
from stagewise.probes.loss_against_references import LossAgainstReferences as LossAgainstReferences
from stagewise.probes.loss_by_position import LossByPosition as LossByPosition
from stagewise.probes.loss_by_token import LossByToken as LossByToken
from stagewise.probes.mean_pattern import MeanPattern as MeanPattern
from stagewise.probes.mlp_ablation import MLPAblation as MLPAblation
from stagewise.probes.offset_profile import OffsetProfile as OffsetProfile
from stagewise.probes.ov_copying import OVCopying as OVCopying
from stagewise.probes.participation_ratio import ParticipationRatio as ParticipationRatio
from stagewise.probes.pattern_clusters import PatternClusters as PatternClusters
from stagewise.probes.qk_offset import QKOffset as QKOffset
from stagewise.probes.residual_stream import ResidualStream as ResidualStream
from stagewise.probes.restricted_context_kl import RestrictedContextKL as RestrictedContextKL
from stagewise.probes.value_alignment import ValueAlignment as ValueAlignment

if not TYPE_CHECKING:  # a checker knows the names above alone

    def __getattr__(name: str) -> type:
        """Return a probe that an installed package adds."""
        return _loaded("probes", name)
