"""Figures of a measured table: table in, matplotlib axes out.

Every function takes the tidy table of one run, optionally its `stages` to shade and the `ax` to draw on, and
returns the axes; without `ax` it makes a figure that no global state knows of (`ax.figure.savefig(...)`).
"""

from stagewise.plot.curves import all_head_masses as all_head_masses
from stagewise.plot.curves import entropy as entropy
from stagewise.plot.curves import head_masses as head_masses
from stagewise.plot.curves import kl_curves as kl_curves
from stagewise.plot.curves import loss_curve as loss_curve
from stagewise.plot.curves import restricted_context as restricted_context
from stagewise.plot.curves import specialisation as specialisation
from stagewise.plot.curves import training_loss as training_loss
from stagewise.plot.curves import value_alignment as value_alignment
from stagewise.plot.maps import ablation_matrix as ablation_matrix
from stagewise.plot.maps import ablation_with_control as ablation_with_control
from stagewise.plot.maps import attention_map as attention_map
from stagewise.plot.maps import centroids as centroids
from stagewise.plot.maps import clusters as clusters
