"""Searches over any decoder that has the verbs of `regard.models.contract.Decoder`."""

from regard.config.search import Search
from regard.decoding.bayes_risk import mbr_search, minimum_bayes_risk
from regard.decoding.beam import beam_search
from regard.decoding.free_run import Feed, Stop, Trajectory, free_run
from regard.decoding.front_door import search
from regard.decoding.greedy import greedy_search
from regard.decoding.penalty import AbstractPenalty, AveragePenalty, Candidates, GnmtPenalty, NoPenalty, penalty_of
from regard.decoding.processor import NoRepeat, Processor, SearchSource, SearchState
from regard.decoding.rerank import rerank, reverse
from regard.decoding.rescore import force_align, rescore
from regard.decoding.result import Hypothesis, Prediction, main_alignment
from regard.decoding.sampling import sample
from regard.decoding.simple import SimpleDecoder
from regard.decoding.utility import utilities

__all__ = [
    "AbstractPenalty",
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
    "beam_search",
    "force_align",
    "free_run",
    "greedy_search",
    "main_alignment",
    "mbr_search",
    "minimum_bayes_risk",
    "penalty_of",
    "rerank",
    "rescore",
    "reverse",
    "sample",
    "search",
    "utilities",
]
