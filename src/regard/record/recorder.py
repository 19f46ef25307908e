"""`record_attention`: a context manager that records the attention of a model that runs in it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from threading import Lock
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from regard.attention import AbstractAttention
from regard.errors import ConfigError, UnsupportedError
from regard.layers import recorders
from regard.record.names import Names
from regard.record.seen import Seen
from regard.record.weights import WEIGH, Keep


@contextmanager
def record_attention(
    model: Any,
    *,
    names: str | Sequence[str] | None = None,
    layers: int | Sequence[int] | None = None,
    heads: int | Sequence[int] | None = None,
    max_calls: int | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
) -> Iterator[Seen]:
    """Records the weights of every attention of a model, within a `with`; outputs and gradients stay as they are.

    Recorded are calls of `nn.MultiheadAttention`, `nn.Transformer` and its layers,
    `torch.nn.functional.scaled_dot_product_attention`, and the mechanisms of this library: in single passes, step by
    step in a search, in training and in inference. The model takes the same path as without a recorder, so that outputs
    are equal to the bit; weights that a path does not keep are computed separately. Weights are those before dropout.
    The model gets no hooks, wrappers or attributes. Only calls in the thread that enters are recorded.

    Not recorded is attention by other functions: a model's own products and softmax (`attn_implementation="eager"` of
    transformers), `flex_attention`, kernels of other packages.

    Args:
        model: a module, or an object that has one as `module`, such as what `regard.load` returns.
        names: patterns of names that are recorded, such as `"decoder.*"`; all if None.
        layers: numbers of layers that are recorded, negative ones from the last. The number of a layer is the first
            number of a name.
        heads: numbers of the heads that are kept, negative ones from the last.
        max_calls: how many calls of each attention are recorded, the first ones; all if None.
        dtype: of the kept weights, such as `torch.float16` to save memory. If None, that of the model, and at least
            float32 for weights that are computed separately.
        device: of the kept weights, such as `"cpu"` for a model on a GPU; that of the model if None.

    Yields:
        A mapping from names to weights (B, H, T, S), which remains valid after the `with`.

    Raises:
        UnsupportedError: for a model with a part that was compiled by `torch.compile` or `torch.jit`, whose kernels
            keep no weights. Record the module from which it was made.
        ConfigError: for an invalid option.

    Warns:
        UserWarning: if nothing was recorded.

    >>> import torch
    >>> encoder = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2).eval()
    >>> with record_attention(encoder) as seen, torch.inference_mode():
    ...     _ = encoder(torch.randn(1, 5, 8))
    >>> {name: tuple(weights.shape) for name, weights in seen.items()}
    {'layers.0.self_attn': (1, 2, 5, 5), 'layers.1.self_attn': (1, 2, 5, 5)}
    """
    module = _module(model)
    if max_calls is not None and max_calls < 1:
        raise ConfigError(f"max_calls={max_calls} must be at least 1, or None to record all calls.")
    if dtype is not None and not (isinstance(dtype, torch.dtype) and dtype.is_floating_point):
        raise ConfigError(f"dtype={dtype!r} must be a floating-point type, such as torch.float16.")
    keep = Keep(_numbers(heads), dtype, None if device is None else torch.device(device))
    patterns = (names,) if isinstance(names, str) else None if names is None else tuple(names)
    seen = Seen()
    recorder = _Recorder(seen, Names(module), keep, patterns, _numbers(layers), max_calls)
    with recorders.activated(*recorders.active(), recorder), _fused_paths(), _Mode(recorder):
        yield seen
    recorder.check()


@dataclass(eq=False)
class _Recorder(recorders.AbstractRecorder):
    """Adds weights to `seen`.

    Args:
        patterns, layers, max_calls: as in `record_attention`.
        skipped: names whose weights were not wanted.
        has_compiled, has_mapped: whether there were calls in compiled functions, or in torch.vmap.
    """

    seen: Seen
    names: Names
    keep: Keep
    patterns: tuple[str, ...] | None
    layers: tuple[int, ...] | None
    max_calls: int | None
    skipped: dict[str, None] = field(default_factory=dict)
    has_compiled: bool = False
    has_mapped: bool = False

    def wants(self, attention: nn.Module) -> bool:
        """Whether an attention of the library belongs to the model and its weights are wanted."""
        name = self.names.name(attention)
        return name is not None and self.admits(name, ())

    def holds(self, module: nn.Module) -> bool:
        """Whether a module is an attention of the model, or a part of one."""
        return self.names.holds(module)

    def take(self, attention: nn.Module, weights: Tensor) -> None:
        """Adds a copy of the weights of an attention of the library."""
        name = cast(str, self.names.name(attention))
        if (own := self._unwrapped(weights)) is not None:
            self.seen.add(name, (), self.keep.copy(own))

    def admits(self, name: str, site: Any) -> bool:
        """Whether weights are wanted of the attention of this name that is called from this site."""
        if not self._matches(name, site):
            self.skipped[name] = None
            return False
        return self.max_calls is None or self.seen.count(name, site) < self.max_calls

    def _matches(self, name: str, site: Any) -> bool:
        if self.layers is not None:
            layer = self.names.layer(name)
            if layer is None or not {layer[0], layer[0] - layer[1]} & set(self.layers):
                return False
        if self.patterns is None:
            return True
        candidates = (name, f"{name}.{self.seen.number(name, site)}")
        return any(fnmatchcase(candidate, pattern) for candidate in candidates for pattern in self.patterns)

    def see(self, weigh: Callable[..., Tensor], args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        """Computes and adds the weights of a call of a function of torch."""
        called = self.names.caller()
        if called == "compiled":
            self.has_compiled = True
        if called is None or isinstance(called, str):
            return
        module, site = called
        if isinstance(module, AbstractAttention):  # reports its weights itself
            return
        if isinstance(module, nn.TransformerEncoderLayer):  # the fused path, which does not call its attention
            module, site = module.self_attn, ()
        if isinstance(module, nn.MultiheadAttention):  # has one attention, by one path or another
            site = ()
        name = self.names.name(module)
        if name is not None and self.admits(name, site):
            if any(self._unwrapped(x) is None for x in (*args, *kwargs.values()) if isinstance(x, Tensor)):
                return
            device = next(x.device.type for x in (*args, *kwargs.values()) if isinstance(x, Tensor))
            with torch.no_grad(), torch.autocast(device, enabled=False):
                own = self._unwrapped(weigh(self.keep, *args, **kwargs))
            if own is not None:
                self.seen.add(name, site, own.detach())

    def _unwrapped(self, x: Tensor) -> Tensor | None:
        """A tensor without the wrappers of torch.func.grad; None within torch.vmap."""
        functorch = torch._C._functorch
        while functorch.is_functorch_wrapped_tensor(x):
            if functorch.is_batchedtensor(x):
                self.has_mapped = True
                return None
            x = functorch.get_unwrapped(x)
        return x

    def check(self) -> None:
        """Warns of calls that could not be recorded, or if there were none."""
        missed = {
            "functions that torch.compile compiled: their kernels keep no weights": self.has_compiled,
            "torch.vmap: its calls have no batch of their own": self.has_mapped,
        }
        for place, is_missed in missed.items():
            if is_missed:
                warnings.warn(f"Attention was not recorded in {place}.", UserWarning, stacklevel=4)
        if self.seen or any(missed.values()):
            return
        if self.skipped:
            reason = f"Neither names nor layers matched any of: {', '.join(self.skipped)}."
        else:
            reason = (
                "The model was not called within the `with` in this thread, or its attention uses neither torch's "
                "functions nor mechanisms of regard. Models of transformers need attn_implementation='sdpa', your own "
                "ones torch.nn.functional.scaled_dot_product_attention in place of products and a softmax."
            )
        warnings.warn(f"record_attention recorded nothing. {reason}", UserWarning, stacklevel=4)


class _Mode(TorchFunctionMode):
    """Makes the calls of torch's functions in this thread unchanged, and records those of attention."""

    def __init__(self, recorder: _Recorder) -> None:
        super().__init__()
        self.recorder = recorder

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if torch.compiler.is_compiling():  # a compiled function
            self.recorder.has_compiled = True
            return result
        weigh = WEIGH.get(func)
        if weigh is not None and not recorders.recomputes():
            self.recorder.see(weigh, args, kwargs)
        return result


_HAS_TORCH_FUNCTION = torch.overrides.has_torch_function
_LOCK = Lock()
_recording = 0


@contextmanager
def _fused_paths() -> Iterator[None]:
    """Lets `nn.TransformerEncoder` and `nn.MultiheadAttention` take their fused paths in inference.

    They take them only if `torch.overrides.has_torch_function` finds no active mode. Within this context it ignores
    those of recorders.
    """
    global _recording
    with _LOCK:
        _recording += 1
        torch.overrides.has_torch_function = _has_torch_function
    try:
        yield
    finally:
        with _LOCK:
            _recording -= 1
            if not _recording:
                torch.overrides.has_torch_function = _HAS_TORCH_FUNCTION


def _has_torch_function(args: Iterable[Any]) -> bool:
    with ExitStack() as without:
        while isinstance((torch.overrides._get_current_function_mode_stack() or [None])[-1], _Mode):
            without.enter_context(torch.overrides._pop_mode_temporarily())
        return _HAS_TORCH_FUNCTION(args)


def _module(model: Any) -> nn.Module:
    """The module of a model, which must have no compiled part."""
    module = model if isinstance(model, nn.Module) else getattr(model, "module", None)
    if not isinstance(module, nn.Module):
        raise UnsupportedError(
            f"record_attention takes an nn.Module, or a model that has one; got {type(model).__name__}."
        )
    for name, part in module.named_modules():
        shown = f"its module {name}" if name else "it"
        if isinstance(part, torch._dynamo.OptimizedModule):
            raise UnsupportedError(
                f"The model cannot be recorded: {shown} is compiled by torch.compile, and its kernels keep no weights. "
                "Record the module that was compiled, which has the same weights: `compiled._orig_mod`."
            )
        if part._compiled_call_impl is not None:
            raise UnsupportedError(
                f"The model cannot be recorded: {shown} was compiled in place by `module.compile()`, and its kernels "
                "keep no weights. Record a copy that is not compiled."
            )
        if isinstance(part, torch.jit.ScriptModule):
            raise UnsupportedError(
                f"The model cannot be recorded: {shown} is a program of torch.jit, which calls no Python. Record the "
                "module from which it was made."
            )
    return module


def _numbers(values: int | Sequence[int] | None) -> tuple[int, ...] | None:
    return (values,) if isinstance(values, int) else None if values is None else tuple(values)
