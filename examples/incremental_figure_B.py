"""Figure B of arXiv:2602.19143: what each head attends to and writes, negative offsets too.

While one head takes up a feature, others hold a negative part of it that cancels cross terms.

python examples/incremental_figure_B.py [FOLDER] [--setting paper] [--seeds N]
"""

from stagewise.experiments.incremental.command import script

if __name__ == "__main__":
    script("B")
