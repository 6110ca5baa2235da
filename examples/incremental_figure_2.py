"""Figure 2 of arXiv:2602.19143: the heads of a full transformer, from one group to a group each.

Every head looks at I(1) first; then one leaves for I(2), another for I(3).

python examples/incremental_figure_2.py [FOLDER] [--setting paper] [--seeds N]
"""

from stagewise.experiments.incremental.command import script

if __name__ == "__main__":
    script("2")
