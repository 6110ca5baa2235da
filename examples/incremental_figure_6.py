"""Figure 6 of arXiv:2602.19143: fresh data at every step pass the same stages.

Stages are no matter of a fixed training set: without one they come at the same steps.

python examples/incremental_figure_6.py [FOLDER] [--setting paper] [--seeds N]
"""

from stagewise.experiments.incremental.command import script

if __name__ == "__main__":
    script("6")
