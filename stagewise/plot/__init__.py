"""Figures of a measured table: table in, matplotlib figure out.

Most functions take the tidy table of one run, and refuse that of several; `over_seeds` and `compared` take that of
several, and some the result that they draw, such as a `Lineage` or a `Forecast`. A function with an argument `ax`
draws on these axes, or on new ones without it, and returns them. The others return the figure that they make, except
`head_curves` (a dictionary of axes) and `attention_film` (the path of its file). Those with an argument `stages`
shade them. A table without the rows that a figure shows is a ValueError, which names what it has; so are the rows of
several runs where a figure shows one. pyplot knows none of the new figures:
`ax.figure.savefig(...)` saves one. `quantity` draws any quantity of any probe, including one's own.
"""

from stagewise.plot._curves import kl_curves as kl_curves
from stagewise.plot._curves import loss_curve as loss_curve
from stagewise.plot._curves import restricted_context as restricted_context
from stagewise.plot._curves import scalars as scalars
from stagewise.plot._curves import training_loss as training_loss
from stagewise.plot._degeneracy import learning_coefficients as learning_coefficients
from stagewise.plot._early_warning import early_warning as early_warning
from stagewise.plot._interventions import delays as delays
from stagewise.plot._interventions import interventions as interventions
from stagewise.plot._lineage import river as river
from stagewise.plot._profiles import loss_by_position as loss_by_position
from stagewise.plot._profiles import offset_profiles as offset_profiles
from stagewise.plot._strips import ablation_matrix as ablation_matrix
from stagewise.plot._strips import ablation_with_control as ablation_with_control
from stagewise.plot._strips import centroids as centroids
from stagewise.plot._strips import clusters as clusters
from stagewise.plot._strips import heads_over_training as heads_over_training
from stagewise.plot._trajectory import trajectory as trajectory
from stagewise.plot.generic import quantity as quantity
from stagewise.plot.heads import entropy as entropy
from stagewise.plot.heads import head_curves as head_curves
from stagewise.plot.heads import head_masses as head_masses
from stagewise.plot.heads import head_scores as head_scores
from stagewise.plot.heads import specialisation as specialisation
from stagewise.plot.heads import value_alignment as value_alignment
from stagewise.plot.maps import attention_film as attention_film
from stagewise.plot.maps import attention_map as attention_map
from stagewise.plot.n_grams import n_gram_curves as n_gram_curves
from stagewise.plot.onsets import onset_curves as onset_curves
from stagewise.plot.over_seeds import compared as compared
from stagewise.plot.over_seeds import over_seeds as over_seeds
from stagewise.plot.power_law import collapse as collapse
