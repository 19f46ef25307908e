"""The weights of every attention in a model, recorded while it runs."""

from regard.record.recorder import record_attention
from regard.record.seen import Seen

__all__ = ["Seen", "record_attention"]
