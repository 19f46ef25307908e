"""Trained models as programs for other runtimes: ONNX, CTranslate2 and `torch.export`."""

from regard.interop.export.folder import export_model

__all__ = ["export_model"]
