"""The catalogue of tasks: one task a file."""

from stagewise.tasks.markov_chain import MarkovChain as MarkovChain
from stagewise.tasks.repeated_tokens import RepeatedTokens as RepeatedTokens
from stagewise.tasks.windows import Windows as Windows
