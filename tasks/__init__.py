"""The catalogue of tasks: one task a file."""

from stagewise.tasks.markov_chain import MarkovChain as MarkovChain
from stagewise.tasks.markov_regression import MarkovRegression as MarkovRegression
from stagewise.tasks.windows import Windows as Windows
