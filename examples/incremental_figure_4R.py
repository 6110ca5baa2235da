"""Figure 4R of arXiv:2602.19143: without a hierarchy there are no stages.

m = 1 is learnt at once; the larger m, the later the stages end.

python examples/incremental_figure_4R.py [FOLDER] [--setting paper] [--seeds N]
"""

from stagewise.experiments.incremental.command import script

if __name__ == "__main__":
    script("4R")
