"""The papers' own tasks, which the entry points `stagewise.tasks` add to the catalogue."""

from stagewise.papers.tasks.associative_recall import AssociativeRecall as AssociativeRecall
from stagewise.papers.tasks.markov_regression import MarkovRegression as MarkovRegression
from stagewise.papers.tasks.sequence_classes import SequenceClasses as SequenceClasses
from stagewise.papers.tasks.sequence_classes import syn_medium as syn_medium
from stagewise.papers.tasks.sequence_classes import syn_small as syn_small
from stagewise.papers.tasks.sparse_regression import SparseRegression as SparseRegression
from stagewise.papers.tasks.wiki_text import WikiText as WikiText
