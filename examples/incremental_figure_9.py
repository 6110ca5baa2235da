"""Figure 9 of arXiv:2602.19143: the attention maps with reversed importance.

The run is that of Figure 8 and is not trained again.

python examples/incremental_figure_9.py [FOLDER] [--setting paper] [--seeds N]
"""

from stagewise.experiments.incremental.command import script

if __name__ == "__main__":
    script("9")
