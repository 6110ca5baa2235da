"""What to look for in each figure of the report, in HTML."""

STAGE_TABLE = (
    "<p>In brackets: 95&nbsp;% intervals of a boundary. t10, t50 and t90 are the steps at which 10, 50 "
    "and 90&nbsp;% of the stage's fall in KL to the complete reference had happened.</p>"
)
ONSET_STAGES = (
    "<p>Nobody wrote down partial solutions for this run, so a stage starts with the onsets of scores that no other "
    "onset surely precedes. In brackets: 95&nbsp;% intervals. t10, t50 and t90 are the medians, over these onsets, of "
    "the steps at which 10, 50 and 90&nbsp;% of the way from before to after were made.</p>"
)
NO_STAGES = (
    "<p>Stages are found in the KL to nested partial solutions, or in the onsets of scores, over at least four "
    "checkpoints. This run does not have them: nothing is said here about its stages.</p>"
)
ONSETS = (
    "The scores that were followed; those with an onset in colour, the others grey. Look for a level that was left "
    "within a threefold of steps, and for the order in which that happened. Bars: the 95&nbsp;% interval of t50, with "
    "an arrow where the last checkpoint does not show the end of the rise. Ribbons: 95&nbsp;% intervals over the batch."
)
ONSETS_TESTED = (
    "<p>An onset is the largest rise (of a loss, fall) of a score: at least 0.1 and five times its noise, half of it "
    "within a threefold of steps, standing out of what the score does before and after; and the score speeds up, which "
    "a constant, a drift, a power law or an exponential approach with noise would show in 5&nbsp;% of all tables only "
    "(false discovery rate over all scores; p is that of the single one).</p>"
)
REFERENCES = "Each reference is a partial solution, the last one the complete one. "
OTHER_REFERENCES = "Each reference is a law to compare the model with; the excess loss is that over the last one's. "
SEVERAL_STAGES = (
    "Look for curves that fall, then <em>turn up</em>: there the model goes beyond that partial solution,"
    " and a stage ends. Shaded: the stages; hatched: the 95&nbsp;% interval of each boundary. "
)
ONE_STAGE = "Look for a plateau before a curve turns up: there is none that counts, hence one stage only. "
RIBBONS = "Ribbons: 95&nbsp;% intervals over the probe batch."
EVIDENCE = (
    "<p>A boundary needs a reference that was approached, a rise that noise on a curve which only falls "
    "would rarely show (p), and a model that came close or paused there (slowdown: 0 where learning "
    "stopped for a while, 1 where it was no slower than around). Other curves that turn up nearby bear "
    "witness: a boundary is the median of their turning points, and its interval holds all of theirs. "
    "KL, fall and rise are in nats.</p>"
)
HEAD_MASSES = (
    "Attention mass of each head on each relation, averaged over the scored queries. Look for heads that "
    "rise on the same relation together (they compete), and then part (they share the relations out). "
)
SPECIALISATION = (
    "Competition is 1 when all heads are on one and the same relation; coverage is 1 when every relation "
    "has a head of its own. Look for competition rising first and giving way to coverage."
)
EVENTS = (
    "<h3>When heads changed</h3><p>A head has a relation's name while at least half of its share is "
    "there, and is diffuse otherwise. A change happened between two checkpoints.</p>"
)
MAPS = (
    "Mean attention of all heads in one map, each head in its colour, at the start, at each boundary and "
    "at the end. Look for colours that part from the common diagonal. "
)
OUTLINES = "Outlined: where each relation lies. "
CIRCUITSVIS = "<p>Mean attention, by position, as circuitsvis shows it. Click on a head to enlarge it.</p>"
RESTRICTED = (
    "KL from the model to itself with attention cut to the last c positions. Look for the step at which a"
    " curve is lowest and from which it rises for good: from there on the model uses more than c."
)
TRAINED = (
    "KL to models that were trained on windows of c positions only. Look at which curve is lowest: the "
    "model is closest to the one that knows as much context as it does."
)
ABLATION = (
    "KL from the model to itself when one head's output is replaced ({kind} ablation). Look for cells "
    "that are darker than the control below: there this very head matters, not any head of its layer."
)
CLUSTERS = (
    "Above: the cluster of each head at each step, heads of all checkpoints clustered together; look for "
    "heads that leave a common cluster. Below: the mean attention of each cluster."
)
VALUES = {
    "cosine": "1 where the head writes this feature and nothing else",
    "projection": "how much of the feature the head writes; below zero it cancels what other heads write",
}
ENTROPY = (
    "Entropy of each head's attention, averaged over the scored queries; exp(entropy) keys would hold it "
    "if they had equal shares. Look for heads that narrow down, and when. "
)
TRAINING = "Loss on each training batch, before its update: look for the same plateaus, without any probe."
LOSS_BY_POSITION = (
    "Loss at every position, at five checkpoints from the first to the last. Look for later positions that become "
    "better than early ones: that is what is learnt from the context. On repeated tokens, look for the fall where the "
    "repeated stretch begins."
)
OFFSETS = (
    "Attention at each offset (0 is the query itself), averaged over the scored queries, of the heads whose profile "
    "changed most, at five checkpoints. Look for a peak at offset 1, a previous-token head; an induction head has "
    "none, since what it looks for lies another way back in every sequence."
)
OV_COPYING = (
    "The eigenvalues of each head's map from tokens to logits, their sum over the sum of their sizes; the heads in "
    "which it changed most. Look for heads that rise to 1: they write the token that they read. Weights alone, without "
    "normalisation."
)
QK_OFFSET = (
    "The share of positions for which the head's highest positional score is at the position before; the heads in "
    "which it changed most. Look for heads that rise to 1: by their positions they are previous-token heads, whatever "
    "they do with tokens. Weights alone, without normalisation."
)
COMPOSITION = (
    "How much a head's queries, keys or values (Q, K, V) read what an earlier head writes; the pairs in which it "
    "changed most. Look for K-composition with a previous-token head: an induction head is made of it. Random weights "
    "do not have 0: compare with the first checkpoint."
)
