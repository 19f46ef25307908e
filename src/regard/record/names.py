"""The names of attentions: the dotted path of the module in whose method attention was computed.

The module is found on the stack of calls: it is the first argument of the nearest function that has a module of the
model there. So no module is wrapped, and none has a hook.
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
"""From where in a module's method attention was called: the code and the instruction of each function in between."""
_PASSED = (__file__.removesuffix("names.py"), torch.overrides.__file__)
"""Frames of these files are no part of a site: how many there are depends on who else records."""
_LIBRARY = __file__.removesuffix("record/names.py".replace("/", os.sep))


class Names:
    """The modules of a model by what they share with their copies.

    A search may step a copy of a decoder (`models.pointer`), which has the same dicts of parameters.

    Args:
        model: whose modules are named.
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
        """The dotted path of a module, the name of its type for the model itself; None for modules of others."""
        return self._names.get(id(module._parameters))

    def holds(self, module: nn.Module) -> bool:
        """Whether a module is one of the library's attentions, or a part of one."""
        return id(module._parameters) in self._parts

    def caller(self) -> tuple[nn.Module, Site] | Literal["compiled"] | None:
        """The module of the model in whose method this is called, and from where there.

        "compiled" in the graph of a function that torch.compile compiled, in which places are those of the graph. None
        outside of the model, and in a module of this library, which reports its weights (`layers.recorders`).
        """
        frame: FrameType | None = sys._getframe(1)
        site: list[tuple[CodeType, int]] = []
        while frame is not None:
            if not frame.f_code.co_filename.startswith(_PASSED):
                site.append((frame.f_code, frame.f_lasti))
                first = _first_argument(frame)
                if isinstance(first, nn.Module) and id(first._parameters) in self._names:
                    # the library's own code reports what its kernels compute
                    return None if frame.f_code.co_filename.startswith(_LIBRARY) else (first, tuple(site))
                if isinstance(first, torch.fx.GraphModule):
                    return "compiled"
            frame = frame.f_back
        return None

    def layer(self, name: str) -> tuple[int, int] | None:
        """The number of the layer that a name is of, and how many layers there are; None if it has no number.

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
