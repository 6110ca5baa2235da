"""Figure 18 of arXiv:2602.19143: the stages under SGD.

A full transformer with momentum in the place of Adam: slower, in the same order.

python examples/incremental_figure_18.py [FOLDER] [--setting paper] [--seeds N]
"""

from stagewise.experiments.incremental.command import script

if __name__ == "__main__":
    script("18")
