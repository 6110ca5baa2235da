"""Figure 17 of arXiv:2602.19143: the attention maps of four heads on overlapping groups.

The run is one of Figure 15's and is not trained again.

python examples/incremental_figure_17.py [FOLDER] [--setting paper] [--seeds N]
"""

from stagewise.experiments.incremental.command import script

if __name__ == "__main__":
    script("17")
