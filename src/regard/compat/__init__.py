"""The calls of frozen toolkits, by their old names and with their numbers, computed by the parts of this library.

    from regard.compat import tfa     # tensorflow-addons' `tfa.seq2seq` and `tf.contrib.seq2seq`, on tensors of torch
    from regard.compat import legacy_seq2seq     # the part of `tf.contrib.legacy_seq2seq` with attention
    from regard.compat import ibm     # IBM's pytorch-seq2seq

A module here is thin: what it computes comes from mechanisms, cells, searches and penalties that everything else in the
package uses too. Where an original is wrong, the module is right, and its documentation says so.
"""

from regard.compat import ibm, legacy_seq2seq, tfa

__all__ = ["ibm", "legacy_seq2seq", "tfa"]
