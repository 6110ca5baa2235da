"""Figure 19 of arXiv:2602.19143: the attention maps under SGD.

The run is that of Figure 18 and is not trained again.

python examples/incremental_figure_19.py [FOLDER] [--setting paper] [--seeds N]
"""

from stagewise.experiments.incremental.command import script

if __name__ == "__main__":
    script("19")
