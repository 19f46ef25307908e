"""Log-probabilities from logits."""

from regard.ops.log_softmax.operation import LOG_SOFTMAX, log_softmax

__all__ = ["LOG_SOFTMAX", "log_softmax"]
