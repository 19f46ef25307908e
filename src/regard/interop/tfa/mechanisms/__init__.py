"""Attention mechanisms that keep their memory, and their functions."""

from regard.interop.tfa.mechanisms.bahdanau import BahdanauAttention, BahdanauMonotonicAttention
from regard.interop.tfa.mechanisms.contract import AttentionMechanism
from regard.interop.tfa.mechanisms.functions import hardmax, monotonic_attention, safe_cumprod
from regard.interop.tfa.mechanisms.luong import LuongAttention, LuongMonotonicAttention

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
