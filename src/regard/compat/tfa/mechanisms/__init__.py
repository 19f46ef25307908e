"""Attention mechanisms that keep their memory, and their functions."""

from regard.compat.tfa.mechanisms.bahdanau import BahdanauAttention, BahdanauMonotonicAttention
from regard.compat.tfa.mechanisms.contract import AttentionMechanism
from regard.compat.tfa.mechanisms.functions import hardmax, monotonic_attention, safe_cumprod
from regard.compat.tfa.mechanisms.luong import LuongAttention, LuongMonotonicAttention

__all__ = [
    "AttentionMechanism",
    "BahdanauAttention",
    "BahdanauMonotonicAttention",
    "LuongAttention",
    "LuongMonotonicAttention",
    "hardmax",
    "monotonic_attention",
    "safe_cumprod",
]
