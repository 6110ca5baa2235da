"""Figure 7 of arXiv:2602.19143: the attention maps of the run on fresh data.

From no group to a head a group; the run is that of Figure 6 and is not trained again.

python examples/incremental_figure_7.py [FOLDER] [--setting paper] [--seeds N]
"""

from stagewise.experiments.incremental.command import script

if __name__ == "__main__":
    script("7")
