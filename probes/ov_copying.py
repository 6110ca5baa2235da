"""Whether a head's weights copy: the eigenvalues of its map from tokens to logits."""

import dataclasses

import torch

from stagewise.attention import Circuits
from stagewise.probe import AbstractCircuitProbe, Quantity, Reading


@dataclasses.dataclass(frozen=True)
class OVCopying(AbstractCircuitProbe):
    """The sum of the eigenvalues of a head's token-to-logit map over the sum of their sizes, in [-1, 1].

        copying(l, h) = sum_i Re(lambda_i) / sum_i |lambda_i|,   lambda_i of W_E W_V W_O W_U

    1 where attending to any token makes that token more likely, -1 where less likely, about 0 for random weights. The
    non-zero eigenvalues are those of W_O (W_U W_E) W_V, a d_head x d_head matrix: no matrix has tokens x tokens
    entries. Normalisation is left out. A head whose map is zero has 0.

    Raises:
        ValueError: the model predicts other tokens than it reads.

    Source: Elhage et al. (2021), A Mathematical Framework for Transformer Circuits, "Summarizing OV/QK Matrices" and
    the copying statistic of its eigenvalues.

    A head that writes what it reads, and one that writes its negative:

    >>> from stagewise import architectures, models
    >>> model = models.build(architectures.minimal(d_vocab=3, n_ctx=2, n_heads=2))
    >>> model.blocks[0].attn.W_V.data[:, :3, :3] = torch.stack([torch.eye(3), -torch.eye(3)])
    >>> [reading] = OVCopying().read_circuits(models.circuits(model))
    >>> reading.values
    tensor([[ 1., -1.]])
    """

    quantities = {"copying": Quantity("copying by weights", range=(-1, 1), progress="up", weights=True, role="copying")}

    def read_circuits(self, circuits: Circuits) -> list[Reading]:
        """Return `copying` by layer and head."""
        if circuits.W_U.shape[1] != circuits.W_E.shape[0]:
            read, written = circuits.W_E.shape[0], circuits.W_U.shape[1]
            raise ValueError(
                f"OVCopying follows tokens to their own logits: this model reads {read} tokens and predicts {written} "
                "others. Leave it out"
            )
        through_vocabulary = circuits.W_U @ circuits.W_E
        eigenvalues = (circuits.OV @ through_vocabulary).eigenvalues
        size = eigenvalues.abs().sum(-1)
        copying = torch.where(size > 0, eigenvalues.real.sum(-1) / size, 0.0)
        return [Reading("layer head", copying, "copying")]
