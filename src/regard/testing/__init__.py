"""The public conformance suite: prove that a mechanism or a decoder of your own keeps the contract."""

from regard.testing.mechanism import LAWS, check_mechanism

__all__ = ["LAWS", "check_mechanism"]
