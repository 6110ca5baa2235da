"""Figure 10 of arXiv:2602.19143: stages of the gradient flow itself.

No training: an ordinary differential equation, with its plateaus and each head's masses.

python examples/incremental_figure_10.py [FOLDER] [--setting paper] [--seeds N]
"""

from stagewise.experiments.incremental.command import script

if __name__ == "__main__":
    script("10")
