"""Figure 14 of arXiv:2602.19143: the attention maps with weights that differ inside a group.

The bands are checkered; the run is that of Figure 13 and is not trained again.

python examples/incremental_figure_14.py [FOLDER] [--setting paper] [--seeds N]
"""

from stagewise.experiments.incremental.command import script

if __name__ == "__main__":
    script("14")
