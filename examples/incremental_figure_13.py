"""Figure 13 of arXiv:2602.19143: weights that differ inside a group.

alpha = 0.7 for the recent token of every pair and 0.3 for the other.

python examples/incremental_figure_13.py [FOLDER] [--setting paper] [--seeds N]
"""

from stagewise.experiments.incremental.command import script

if __name__ == "__main__":
    script("13")
