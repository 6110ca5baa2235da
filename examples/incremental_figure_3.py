"""Figure 3 of arXiv:2602.19143: a full transformer against models that see less context.

The closest of the trained restricted-context models changes from the shortest to the longest.

python examples/incremental_figure_3.py [FOLDER] [--setting paper] [--seeds N]
"""

from stagewise.experiments.incremental.command import script

if __name__ == "__main__":
    script("3")
