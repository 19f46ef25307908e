"""Other programs, a file or folder for each: their calls, their models as folders of this library, and exports.

    from regard.interop import tfa     # tensorflow-addons' `tfa.seq2seq` and `tf.contrib.seq2seq`, on tensors of torch
    from regard.interop import legacy_seq2seq     # the part of `tf.contrib.legacy_seq2seq` with attention
    from regard.interop import ibm     # IBM's pytorch-seq2seq
    from regard.interop import convert     # models of other programs; every weight is checked
    from regard.interop import coqui, variants     # other programs' variants of mechanisms and models (`like=`)
    from regard.interop.export import export_model     # models as ONNX, for CTranslate2, and by `torch.export`

Old calls have their names and results, and are thin: they use the mechanisms, cells, searches and penalties of the
rest of the package. Where an original is wrong, ours is right, and its documentation says so.
"""

from typing import TYPE_CHECKING

from regard.lazy import on_demand

if TYPE_CHECKING:
    from regard.interop.contract import AbstractKind, Converted, Origin
    from regard.interop.conversion import KINDS, convert

__getattr__ = on_demand(
    __name__, {"contract": ["AbstractKind", "Converted", "Origin"], "conversion": ["KINDS", "convert"]}
)

__all__ = ["KINDS", "AbstractKind", "Converted", "Origin", "convert"]
