"""How strongly a head reads the output of an earlier head, by their weights."""

import dataclasses

import torch
from jaxtyping import Float
from torch import Tensor

from stagewise.attention import Circuits
from stagewise.probe import AbstractCircuitProbe, Labels, Quantity, Reading
from stagewise.table import head_label


@dataclasses.dataclass(frozen=True)
class Composition(AbstractCircuitProbe):
    """Q-, K- and V-composition of each head with every head of the layers below it, in [0, 1].

        Q: |OV' QK| / (|OV'| |QK|),   K: |OV' QK^T| / (|OV'| |QK|),   V: |OV' OV| / (|OV'| |OV|)     (Frobenius norms)

    OV' is the earlier head, the `source`. Two random matrices do not score 0: compare with the first checkpoint. Scores
    below .001 have errors up to 1e-4. Normalisation is left out. A head whose weights are zero has 0.

    Raises:
        ValueError: a model of one layer.

    Source: Elhage et al. (2021), A Mathematical Framework for Transformer Circuits, footnote on the composition
    scores. Deviation: the scores of random weights are not subtracted.

    A head that writes (1, 0), and one in the next layer that reads this direction with its queries, not with its keys,
    and with 3/5 of its values:

    >>> from stagewise import models
    >>> from stagewise.architecture import Architecture
    >>> sizes = {"n_layers": 2, "d_model": 2, "d_head": 1, "n_heads": 1, "n_ctx": 2, "d_vocab": 2, "attn_only": True}
    >>> model = models.build(Architecture(sizes))
    >>> lower, upper = model.blocks[0].attn, model.blocks[1].attn
    >>> lower.W_O.data[0] = torch.tensor([[1.0, 0.0]])
    >>> for weight, reads in ((upper.W_Q, (1.0, 0.0)), (upper.W_K, (0.0, 1.0)), (upper.W_V, (0.6, 0.8))):
    ...     weight.data[0, :, 0] = torch.tensor(reads)
    >>> [reading] = Composition().read_circuits(models.circuits(model))
    >>> reading.labels["composition"], reading.values.flatten()
    (['Q', 'K', 'V'], tensor([1.0000, 0.0000, 0.6000]))
    """

    quantities = {"score": Quantity("composition", range=(0, 1))}

    def read_circuits(self, circuits: Circuits) -> list[Reading]:
        """Return `score` by layer, head, source ("L0H1") and composition (Q, K, V)."""
        layers, heads = circuits.OV.A.shape[:2]
        if layers < 2:
            raise ValueError("composition is of a head with heads of earlier layers: this model has one layer")
        query, key = circuits.QK.A, circuits.QK.B.mT
        pairs = ((query, key), (key, query), (circuits.OV.A, circuits.OV.B.mT))
        read = torch.stack([left @ _norm_of(right).mT for left, right in pairs], 2)
        scores = _ratios((_norm_of(circuits.OV.A) @ circuits.OV.B).flatten(0, 1), read)
        found = []
        for layer in range(1, layers):
            sources = [head_label(below, head) for below in range(layer) for head in range(heads)]
            labels = Labels({"layer": [layer], "source": sources, "composition": ["Q", "K", "V"]})
            found.append(Reading("layer head source composition", scores[[layer], :, : layer * heads], "score", labels))
        return found


def _norm_of(matrix: Float[Tensor, "*axes model d_head"]) -> Float[Tensor, "*axes rank d_head"]:
    """Return R of the matrix's QR decomposition: |matrix x| = |R x| for every x, and R is smaller."""
    triangle: Tensor = torch.linalg.qr(matrix, mode="r").R
    return triangle


def _ratios(
    written: Float[Tensor, "source rank model"], read: Float[Tensor, "layer head kind model rank"]
) -> Float[Tensor, "layer head source kind"]:
    """Return |W R| / (|W| |R|) of earlier sources: |W R|^2 = <W^T W, R R^T>, of which rows from the diagonal on do."""
    size = read.norm(dim=(-2, -1))[..., None] * written.norm(dim=(-2, -1))
    squares, heads, some = torch.zeros_like(size), read.shape[1], 32
    for first in range(0, read.shape[-2], some):
        below = (written[..., first : first + some].mT @ written[..., first:]).flatten(1)
        above = read[..., first : first + some, :] @ read[..., first:, :].mT
        above[..., some:] *= 2
        for layer in range(1, len(read)):
            squares[layer, ..., : layer * heads] += above[layer].flatten(-2) @ below[: layer * heads].mT
    return torch.where(size > 0, squares.clamp(min=0).sqrt() / size, 0.0).mT
