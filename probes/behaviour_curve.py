"""Whether a model prefers the right answer to the wrong one: its logit difference, probability, rank and accuracy."""

import dataclasses

import torch
from jaxtyping import Float
from torch import Tensor

from stagewise.probe import AbstractProbe, Labels, Quantity, Reading, View
from stagewise.table import Role


@dataclasses.dataclass(frozen=True)
class BehaviourCurve(AbstractProbe):
    """The logit difference of right and wrong answers (nats), and the right answers' probability, rank and accuracy.

        difference = log P(right answers) - log P(wrong answers)

    With one answer each it is the difference of two logits. Where a batch compares whole answers, it is that of their
    summed log-probabilities. `accuracy` is the share of prompts with a difference above 0, where equal ones count half.
    `baseline` and `baseline_difference` are the accuracy and the difference of what knows less: chance, the answer that
    is right more often in all prompts, and the model itself on the corrupted prompts.

    Raises:
        ValueError: a batch without answers.

    Source: Wang et al. (2022), Interpretability in the Wild, arXiv:2211.00593, section 2; the curve over checkpoints is
    that of Tigges et al. (2024), arXiv:2407.10827; the summed log-probability that of BLiMP, Warstadt et al. (2020),
    arXiv:1912.00582.

    >>> from stagewise.probe import example_view
    >>> from stagewise.task import Batch
    >>> rows = [{"prompt": "0", "right": "1", "wrong": "2"}] * 4
    >>> prompts = Batch.from_pairs(rows, lambda text: [int(digit) for digit in text])
    >>> view = dataclasses.replace(example_view(probs=[[0.2, 0.6, 0.2]]), batch=prompts[:1])
    >>> [(each.quantity, round(each.values.item(), 2)) for each in BehaviourCurve().read(view)[:4]]
    [('difference', 1.1), ('accuracy', 1.0), ('probability', 0.6), ('rank', 1.0)]
    """

    quantities = {
        "difference": Quantity(
            "logit difference of right and wrong answer", "nats", progress="up", role=Role.BEHAVIOUR
        ),
        "accuracy": Quantity("accuracy of the pair", range=(0, 1), progress="up"),
        "probability": Quantity("probability of the right answer", range=(0, 1)),
        "rank": Quantity("rank of the right answer", range=(1, None)),
        "baseline": Quantity("accuracy of the pair, of what knows less", range=(0, 1)),
        "baseline_difference": Quantity("logit difference, of what knows less", "nats"),
    }
    reads_unscored = False

    def read(self, view: View) -> list[Reading]:
        """Return `difference`, `accuracy`, `probability`, `rank`, and both baselines by control."""
        prompts, difference = view.prompts, answered(view)
        if prompts.summed:
            probability = (-view.loss * prompts.scored.sum(1)).exp()
        else:
            probability = prompts.log_right(view.answer_log_probs).exp()
        readings = [
            Reading("batch", difference, "difference"),
            Reading("batch", _accuracy(difference), "accuracy"),
            Reading("batch", probability, "probability"),
        ]
        accuracies = {"chance": torch.full_like(difference, 0.5)}
        differences = {"chance": torch.zeros_like(difference)}
        if not prompts.summed:
            readings.append(Reading("batch", prompts.rank(view.answer_log_probs), "rank"))
            accuracies["more frequent answer"] = prompts.commonest
        for name in ("corrupted", "neutral"):
            if name in view.others:
                differences[f"{name} prompt"] = found = answered(view.others[name])
                accuracies[f"{name} prompt"] = _accuracy(found)
        return readings + [
            Reading("batch control", torch.stack([*each.values()], 1), quantity, Labels({"control": [*each]}))
            for quantity, each in (("baseline", accuracies), ("baseline_difference", differences))
        ]


def answered(view: View) -> Float[Tensor, " batch"]:
    """Return each prompt's logit difference, or the difference of summed log-probabilities; nats."""
    prompts = view.prompts
    if not prompts.summed:
        return prompts.difference(view.answer_log_probs)
    wrong = view.others["wrong"]
    return wrong.loss * wrong.batch.scored.sum(1) - view.loss * prompts.scored.sum(1)


def _accuracy(difference: Float[Tensor, " batch"]) -> Float[Tensor, " batch"]:
    return 0.5 + 0.5 * difference.sign()
