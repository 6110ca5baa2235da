"""Numbers of the figures of incremental learning, read off at the paper's size to about 0.03 nats and 10 steps.

Source: Yüksel et al. (2026), arXiv:2602.19143, Figures 1 to 19, and Figure B of its discussion with reviewers.
"""

PUBLISHED: dict[str, dict[tuple[str, str], str]] = {
    "1": {("base", "end_1"): "330", ("base", "end_2"): "575", ("base", "final_kl"): "0.09 (step 1100)"},
    "2": {("full", "end_1"): "65", ("full", "end_2"): "450", ("full", "final_kl"): "0.19"},
    "3": {("full", "end_1"): "65", ("full", "end_2"): "450", ("full", "final_kl"): "0.19"},
    "4L": {
        ("scale=xavier", "end_1"): "110",
        ("scale=0.001", "end_1"): "210",
        ("scale=1e-06", "end_1"): "320",
        ("scale=0.0", "end_1"): "never",
        ("scale=0.0", "best_excess"): "0.86",
    },
    "4R": {
        ("m=1.0", "end_2"): "one drop, over by 200",
        ("m=1.3", "end_2"): "over by 270",
        ("m=1.5", "end_2"): "over by 370",
    },
    "5": {
        ("n=600", "best_excess"): "1.33",
        ("n=2000", "best_excess"): "0.81",
        ("n=9000", "best_excess"): "0.09",
        ("n=fresh", "best_excess"): "0.02",
        ("n=600", "completed"): "1",
        ("n=2000", "completed"): "2",
        ("n=9000", "completed"): "3",
        ("n=600", "best_step"): "about 70",
        ("n=2000", "best_step"): "about 260",
        ("n=9000", "best_step"): "about 760",
    },
    "6": {("fresh", "end_1"): "330", ("fresh", "end_2"): "580", ("fresh", "final_kl"): "0.02"},
    "8": {("reversed", "end_1"): "90", ("reversed", "end_2"): "410", ("reversed", "final_kl"): "0.27"},
    "11": {("layers=2", "end_1"): "180", ("layers=2", "end_2"): "370", ("layers=2", "final_kl"): "0.07"},
    "12": {
        ("full-layers=2", "end_1"): "70",
        ("full-layers=2", "end_2"): "200",
        ("full-layers=2", "final_kl"): "0.15",
    },
    "13": {
        ("alpha=0.7,0.3", "end_1"): "130",
        ("alpha=0.7,0.3", "end_2"): "280",
        ("alpha=0.7,0.3", "final_kl"): "0.09",
    },
    "15": {
        ("overlap-heads=4", "end_1"): "150",
        ("overlap-heads=4", "end_2"): "700",
        ("overlap-heads=4", "final_kl"): "0.15",
    },
    "18": {("full-sgd", "end_1"): "600", ("full-sgd", "end_2"): "4000", ("full-sgd", "final_kl"): "0.17 (step 7000)"},
}
"""By figure, variant and quantity of the summary. Figures 7, 9, 14, 16, 17 and 19 are maps of the runs before them."""

LEVELS = {
    "1": ("1.08, 0.85, 0.87", "1.7 to 1.8, 0.31, 0.34", "2.78, 0.70, 0.09 (step 1100)"),
    "3": ("1.46, -, 0.95", "2.0 to 2.2, 0.43, 0.45", "3.05, -, 0.19"),
    "6": ("-, -, 0.86", "-, -, 0.30", "-, -, 0.02"),
    "8": ("1.16, -, 0.72", "-", "-, -, 0.27"),
}
"""KL to A*_1, A*_1:2, A*_1:3, nats, in each stage by figure; a dash where the figure cannot be read."""

HEADS = {
    "1": ("all on I(1)", "one on I(2)", "a head a group"),
    "2": ("all on I(1), one with some I(2)", "one on I(2), two on I(1)", "a head a group"),
    "7": ("all on I(1)", "one on I(2)", "a head a group"),
    "9": ("all on the farthest group", "one on the middle group", "a head a group"),
    "14": ("all on I(1)", "one on I(2)", "a head a group"),
    "16": ("-", "-", "overlapping bands, less canonical order"),
    "17": ("-", "-", "heads cover the overlapping bands"),
    "19": ("all on I(1)", "one on I(2)", "a head a group"),
    "B": ("identical heads", "one on I(2)", "about .69, .75, .9"),
}
"""Where the heads look in each stage, by figure."""

LOOKED_AT = {"2": (60, 300, 1000)}
"""Steps at which a figure shows the heads, beside the ends of stages: those of the figure itself."""

CONTEXTS = "4, 8 from about 80, 12 from about 490"
"""Figure 3: the closest restricted-context model over training."""
