"""Searches over any decoder with the methods of `regard.models.contract.Decoder`."""

from regard.config.search import Search
from regard.decoding.bayes_risk import minimum_bayes_risk
from regard.decoding.constraint import Constraints, ExcludedPhrases, ForcedPrefix
from regard.decoding.free_run import Feed, Stop, Trajectory, free_run, stop_at_logit, stop_at_silence
from regard.decoding.penalty import (
    AbstractPenalty,
    AveragePenalty,
    Candidates,
    CoveragePenalty,
    GnmtPenalty,
    NoPenalty,
    penalty_of,
)
from regard.decoding.processor import (
    AttentionStop,
    EosThreshold,
    NoRepeat,
    Processor,
    RepetitionPenalty,
    SearchSource,
    SearchState,
    UnknownPenalty,
)
from regard.decoding.rescore import force_align, join_directions, rerank, rescore, reverse
from regard.decoding.result import Hypothesis, Prediction, chosen_heads, main_alignment
from regard.decoding.search import search
from regard.decoding.search_tree import SearchNode, SearchTree
from regard.decoding.simple import SimpleDecoder
from regard.decoding.stream import Increment, stream
from regard.decoding.tree_recorder import search_tree
from regard.decoding.utility import utilities
from regard.decoding.words import AlignedPair, WordAlignment, hard_links, merge_words, symmetrise

__all__ = [
    "AbstractPenalty",
    "AlignedPair",
    "AttentionStop",
    "AveragePenalty",
    "Candidates",
    "Constraints",
    "CoveragePenalty",
    "EosThreshold",
    "ExcludedPhrases",
    "Feed",
    "ForcedPrefix",
    "GnmtPenalty",
    "Hypothesis",
    "Increment",
    "NoPenalty",
    "NoRepeat",
    "Prediction",
    "Processor",
    "RepetitionPenalty",
    "Search",
    "SearchNode",
    "SearchSource",
    "SearchState",
    "SearchTree",
    "SimpleDecoder",
    "Stop",
    "Trajectory",
    "UnknownPenalty",
    "WordAlignment",
    "chosen_heads",
    "force_align",
    "free_run",
    "hard_links",
    "join_directions",
    "main_alignment",
    "merge_words",
    "minimum_bayes_risk",
    "penalty_of",
    "rerank",
    "rescore",
    "reverse",
    "search",
    "search_tree",
    "stop_at_logit",
    "stop_at_silence",
    "stream",
    "symmetrise",
    "utilities",
]
