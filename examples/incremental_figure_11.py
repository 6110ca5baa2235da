"""Figure 11 of arXiv:2602.19143: two minimal layers.

The stages remain where a second layer reads what the first one writes.

python examples/incremental_figure_11.py [FOLDER] [--setting paper] [--seeds N]
"""

from stagewise.experiments.incremental.command import script

if __name__ == "__main__":
    script("11")
