"""Figure 1 of arXiv:2602.19143: three stages, and the maps at the end of each.

The minimal model learns the groups one after the other; the first two ends are where KL to a truncated truth turns up.

python examples/incremental_figure_1.py [FOLDER] [--setting paper] [--seeds N]
"""

from stagewise.experiments.incremental.command import script

if __name__ == "__main__":
    script("1")
