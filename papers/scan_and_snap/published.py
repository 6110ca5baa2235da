"""Numbers of Scan and Snap's released logs and pictures, to stand beside ours.

Source: the code, logs and notebooks released with Tian et al. (2023), arXiv:2305.16380.
"""

ENTROPIES = {
    2: {
        0.5: ("1.971 +- .028", "2.007 +- .032", "2.066 +- .017", "2.092 +- .016"),
        1.0: ("1.871 +- .052", "1.937 +- .052", "2.022 +- .036", "2.053 +- .030"),
        2.0: ("1.699 +- .101", "1.810 +- .099", "1.934 +- .068", "1.900 +- .200"),
        3.0: ("1.551 +- .155", "1.708 +- .152", "1.786 +- .170", "1.825 +- .331"),
    },
    10: {
        0.5: ("2.026 +- .005", "1.994 +- .007", "2.020 +- .007", "2.055 +- .006"),
        1.0: ("1.995 +- .007", "1.931 +- .011", "1.971 +- .010", "2.014 +- .009"),
        2.0: ("1.906 +- .012", "1.816 +- .022", "1.884 +- .020", "1.926 +- .025"),
        3.0: ("1.817 +- .021", "1.718 +- .032", "1.802 +- .033", "1.831 +- .050"),
    },
}
"""Figure 6: mean and standard deviation over ten seeds, nats, by number of classes K, eta_Z and ratio 1, 2, 5, 10."""

PROBE_MAPS = {0: ("2.540", "0.18"), 500: ("0.836", "0.68"), 1000: ("0.337", "0.85"), 1500: ("0.012", "0.996")}
"""Figure 7, top: row entropy (nats) and largest weight of the maps, read back from the picture, by minibatch."""

BLOCK_LOSS = {0: "10.58 to 10.67", 100: "7.27 to 7.39", 500: "6.59 to 6.81", 1000: "6.35 to 6.52", 1500: "6.23 to 6.35"}
"""The notebook's loss on the first 101 blocks, nats, by minibatch."""

BASELINE = ("5.834", "1.650")
"""Validation loss and probe entropy (nats) of one layer after 1000 minibatches by Adam, the means of seeds 1 to 3."""

BASELINE_START = {1: ("10.622020", "2.495230"), 2: ("10.662874", "2.494934"), 3: ("10.654023", "2.541739")}
"""The same before the first update, by seed."""

DECODER = {100: 0.8838, 200: 0.3030, 400: 0.0848}
"""Error of a decoder simulated before, K = 10, M = 1000, eta_Y = 0.5, by step: the paper prints the formula alone."""
