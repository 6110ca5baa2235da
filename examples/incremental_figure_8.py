"""Figure 8 of arXiv:2602.19143: the order is that of importance, not of distance.

With the farthest group as the most important one, all heads look there first.

python examples/incremental_figure_8.py [FOLDER] [--setting paper] [--seeds N]
"""

from stagewise.experiments.incremental.command import script

if __name__ == "__main__":
    script("8")
