"""Searches over any decoder that has the verbs of `regard.models.contract.Decoder`."""

from regard.config.search import Search
from regard.decoding.aligned import AlignedPair
from regard.decoding.bayes_risk import mbr_search, minimum_bayes_risk
from regard.decoding.beam import beam_search
from regard.decoding.free_run import Feed, Stop, Trajectory, free_run
from regard.decoding.front_door import search
from regard.decoding.greedy import greedy_search
from regard.decoding.penalty import AbstractPenalty, AveragePenalty, Candidates, GnmtPenalty, NoPenalty, penalty_of
from regard.decoding.processor import NoRepeat, Processor, SearchSource, SearchState
from regard.decoding.rerank import rerank, reverse
from regard.decoding.rescore import force_align, rescore
from regard.decoding.result import Hypothesis, Prediction, chosen_heads, main_alignment
from regard.decoding.sampling import sample
from regard.decoding.simple import SimpleDecoder
from regard.decoding.utility import utilities
from regard.decoding.words import WordAlignment, hard_links, merge_words, symmetrise

__all__ = [
    "AbstractPenalty",
    "AlignedPair",
    "AveragePenalty",
    "Candidates",
    "Feed",
    "GnmtPenalty",
    "Hypothesis",
    "NoPenalty",
    "NoRepeat",
    "Prediction",
    "Processor",
    "Search",
    "SearchSource",
    "SearchState",
    "SimpleDecoder",
    "Stop",
    "Trajectory",
    "WordAlignment",
    "beam_search",
    "chosen_heads",
    "force_align",
    "free_run",
    "greedy_search",
    "hard_links",
    "main_alignment",
    "mbr_search",
    "merge_words",
    "minimum_bayes_risk",
    "penalty_of",
    "rerank",
    "rescore",
    "reverse",
    "sample",
    "search",
    "symmetrise",
    "utilities",
]
