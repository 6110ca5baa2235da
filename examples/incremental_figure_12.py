"""Figure 12 of arXiv:2602.19143: two layers of a full transformer.

The first stage is short: residual connections hand on the current token.

python examples/incremental_figure_12.py [FOLDER] [--setting paper] [--seeds N]
"""

from stagewise.experiments.incremental.command import script

if __name__ == "__main__":
    script("12")
