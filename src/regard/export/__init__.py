"""Trained models as programs for other runtimes: ONNX, CTranslate2 and `torch.export`."""
