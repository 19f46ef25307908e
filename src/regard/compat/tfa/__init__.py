"""`tfa.seq2seq` of tensorflow-addons 0.23, and `tf.contrib.seq2seq` and `tf.nn` of TensorFlow 1 as used with it, on
tensors of torch: the same names, the same arguments in the same order, the same numbers.

Names that TensorFlow 1 had and tensorflow-addons changed are aliases. The argument `name` is kept on the object and has
no effect.
"""

from regard.compat.tfa.functions import hardmax, monotonic_attention, safe_cumprod

__all__ = [
    "hardmax",
    "monotonic_attention",
    "safe_cumprod",
]
