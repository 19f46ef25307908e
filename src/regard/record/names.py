"""The names of attentions: dotted paths of the modules in whose methods attention is computed.

The module is found on the call stack: it is the first argument of the innermost function whose first argument is a
module of the model. So modules need neither wrappers nor hooks.
"""

from __future__ import annotations

import os
import re
import sys
from types import CodeType, FrameType
from typing import Any, Literal

import torch
from torch import nn

from regard.attention import AbstractAttention

Site = tuple[tuple[CodeType, int], ...]
"""A call site in a module's method: code and instruction of each frame, innermost first."""
_PASSED = (__file__.removesuffix("names.py"), torch.overrides.__file__)
"""Frames of these files are left out of a site, as their number depends on other recorders."""
_LIBRARY = __file__.removesuffix("record/names.py".replace("/", os.sep))


class Names:
    """The names of a model's modules, by their dicts of parameters.

    Copies share these dicts: a search may step a copy of a decoder (`models.pointer`).
    """

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self._names: dict[int, str] = {}
        self._parts: set[int] = set()
        for name, module in model.named_modules():
            self._names.setdefault(id(module._parameters), name or type(module).__name__)
            if isinstance(module, AbstractAttention):
                self._parts |= {id(part._parameters) for part in (module, *module.children())}

    def name(self, module: nn.Module) -> str | None:
        """The dotted path of a module; for the model itself the name of its type; None for other modules."""
        return self._names.get(id(module._parameters))

    def holds(self, module: nn.Module) -> bool:
        """Whether a module is an attention of the library in the model, or a part of one."""
        return id(module._parameters) in self._parts

    def caller(self) -> tuple[nn.Module, Site] | Literal["compiled"] | None:
        """The innermost module of the model on the call stack, and the call site in its method.

        "compiled" within the graph of a function compiled by torch.compile, whose frames are those of the graph. None
        outside the model, and in modules of this library, which report their weights (`layers.recorders`).
        """
        frame: FrameType | None = sys._getframe(1)
        site: list[tuple[CodeType, int]] = []
        while frame is not None:
            if not frame.f_code.co_filename.startswith(_PASSED):
                site.append((frame.f_code, frame.f_lasti))
                first = _first_argument(frame)
                if isinstance(first, nn.Module) and id(first._parameters) in self._names:
                    return None if frame.f_code.co_filename.startswith(_LIBRARY) else (first, tuple(site))
                if isinstance(first, torch.fx.GraphModule):
                    return "compiled"
            frame = frame.f_back
        return None

    def layer(self, name: str) -> tuple[int, int] | None:
        """The number of a layer in a name and the number of layers in its stack; None if the name has no number.

        >>> Names(nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2), 3)).layer("layers.1.self_attn")
        (1, 3)
        """
        match = re.search(r"(?:^|\.)(\d+)(?=\.|$)", name)
        if match is None:
            return None
        stack = self.model.get_submodule(name[: match.start()])
        return int(match[1]), len(stack._modules)


def _first_argument(frame: FrameType) -> Any:
    code = frame.f_code
    return frame.f_locals.get(code.co_varnames[0]) if code.co_argcount else None
