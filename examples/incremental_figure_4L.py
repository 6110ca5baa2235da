"""Figure 4L of arXiv:2602.19143: the initial scale decides how long the heads stay together.

Smaller differences take longer to grow; heads that start alike never part, and stay on the first plateau.

python examples/incremental_figure_4L.py [FOLDER] [--setting paper] [--seeds N]
"""

from stagewise.experiments.incremental.command import script

if __name__ == "__main__":
    script("4L")
