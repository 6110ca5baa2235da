"""Figure 15 of arXiv:2602.19143: groups that overlap, with three and with four heads.

Groups of four lags, two apart.

python examples/incremental_figure_15.py [FOLDER] [--setting paper] [--seeds N]
"""

from stagewise.experiments.incremental.command import script

if __name__ == "__main__":
    script("15")
