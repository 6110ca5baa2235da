"""The head-count sweep of arXiv:2602.19143: two, three and four heads for three groups.

Two heads stop on the second plateau; a fourth shares a group.

python examples/incremental_head_count.py [FOLDER] [--setting paper] [--seeds N]
"""

from stagewise.experiments.incremental.command import script

if __name__ == "__main__":
    script("heads")
