"""Kernels that torch's own threads run together, without the interpreter in between.

Between its operations torch's threads watch for work for some milliseconds and leave their cores to nobody: a pool's
threads, on as many cores, would wait for them.
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numba
import torch
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba._dispatcher import compute_fingerprint
from numba.core import cgutils as untyped

from regard.ops.compiled import intrinsic

cgutils: Any = untyped
kind_of: Any = numba.typeof
I8P, I32, I64 = ir.IntType(8).as_pointer(), ir.IntType(32), ir.IntType(64)


@cache
def openmp() -> int:
    """Where OpenMP's GOMP_parallel(function, data, threads, flags) stands that torch calls; 0 where it has none."""
    if not sys.platform.startswith("linux"):
        return 0
    try:
        library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
        return ctypes.cast(library.GOMP_parallel, ctypes.c_void_p).value or 0
    except (OSError, AttributeError):
        return 0


def together(kernel: Any, given: tuple[Any, ...], count: int, pieces: int, threads: int) -> None:
    """kernel(*given, start, stop) for `pieces` parts of range(count), which so many threads take one by one.

    Args:
        kernel: a compiled one that returns nothing.
        threads: as many as torch has, even for few parts: OpenMP ends those that it is not asked for and starts them
            again later.

    Raises:
        MemoryError: where a part failed, which kernels do for nothing else.
    """
    key = kernel, compute_fingerprint(given)
    if key not in _entries:
        _entries[key] = _entry(kernel, given)
    if _share(openmp(), _entries[key], threads, pieces, count, given):
        raise MemoryError(f"{kernel.__name__} had no memory left")


_entries: dict[tuple[Any, bytes], int] = {}
"""Where kernels stand, for the types of what they are given."""


def _entry(kernel: Any, given: tuple[Any, ...]) -> int:
    kinds = (*(kind_of(value) for value in given), types.intp, types.intp)
    kernel.compile(kinds)
    found = kernel.overloads[kinds]
    return int(found.library.get_pointer_to_function(found.fndesc.llvm_func_name))


@intrinsic
def _parallel(context: Any, openmp: Any, entry: Any, threads: Any, pieces: Any, count: Any, given: Any) -> Any:
    """How many parts failed. What is told to all threads: given, count, pieces, the next part, failures, the entry."""
    asked = (*given.types, types.intp, types.intp)

    def make(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
        openmp, entry, threads, pieces, count, values = arguments
        kernel = context.call_conv.get_function_type(types.none, asked).as_pointer()
        contents = [values, count, pieces, I64(0), I64(0), entry]
        told = cgutils.alloca_once(builder, ir.LiteralStructType([value.type for value in contents]))
        for index, value in enumerate(contents):
            builder.store(value, cgutils.gep_inbounds(builder, told, 0, index))
        member = _member(context, builder.module, told.type, kernel, asked)
        call = builder.inttoptr(openmp, ir.FunctionType(ir.VoidType(), [I8P, I8P, I32, I32]).as_pointer())
        shown = [builder.bitcast(one, I8P) for one in (member, told)]
        builder.call(call, [*shown, builder.trunc(threads, I32), I32(0)])
        return builder.load(cgutils.gep_inbounds(builder, told, 0, 4))

    return types.intp(openmp, entry, threads, pieces, count, given), make


def _member(context: Any, module: Any, told: Any, kernel: Any, asked: tuple[Any, ...]) -> Any:
    """What each thread does: takes the next part until there is none."""
    member = ir.Function(module, ir.FunctionType(ir.VoidType(), [I8P]), module.get_unique_name("member"))
    member.linkage = "internal"
    blocks = begin, take, work, end = [member.append_basic_block(name) for name in ("begin", "take", "work", "end")]
    builder = ir.IRBuilder(begin)
    data = builder.bitcast(member.args[0], told)
    places = [cgutils.gep_inbounds(builder, data, 0, index) for index in range(len(told.pointee.elements))]
    values, count, pieces = (builder.load(place) for place in places[:3])
    function = builder.inttoptr(builder.load(places[5]), kernel)
    builder.branch(take)
    builder.position_at_end(blocks[1])
    part = builder.atomic_rmw("add", places[3], I64(1), "monotonic")
    builder.cbranch(builder.icmp_signed("<", part, pieces), work, end)
    builder.position_at_end(work)
    ends = (builder.sdiv(builder.mul(count, one), pieces) for one in (part, builder.add(part, I64(1))))
    given = [*cgutils.unpack_tuple(builder, values, len(asked) - 2), *ends]
    status, _ = context.call_conv.call_function(builder, function, types.none, asked, given)
    builder.atomic_rmw("add", places[4], builder.zext(status.is_error, I64), "monotonic")
    builder.branch(take)
    builder.position_at_end(end)
    builder.ret_void()
    return member


@numba.njit(cache=True, nogil=True)
def _share(openmp: int, entry: int, threads: int, pieces: int, count: int, given: Any) -> int:
    return _parallel(openmp, entry, threads, pieces, count, given)
