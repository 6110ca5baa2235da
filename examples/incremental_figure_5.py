"""Figure 5 of arXiv:2602.19143: fewer data, fewer stages before the held-out loss is lowest.

Early stopping falls in an earlier stage; the closest restricted-context model there says in which.

python examples/incremental_figure_5.py [FOLDER] [--setting paper] [--seeds N]
"""

from stagewise.experiments.incremental.command import script

if __name__ == "__main__":
    script("5")
