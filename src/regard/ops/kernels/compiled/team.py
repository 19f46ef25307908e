"""Kernels that are run by torch's own threads, without the interpreter in between.

Between operations torch's threads spin for some milliseconds and occupy their cores, so that the threads of a pool on
as many cores would wait for them.

torch's threads are OpenMP's, and OpenMP calls one function of one pointer in each of them. That function (`_member`) is
built here from instructions. Its pointer is that of a struct that all threads share:

    arguments, count, parts, next part, failures, entry of the kernel

Each thread takes the next part and calls the kernel for its range, until no part is left.
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

from regard.ops.kernels.compiled import compiled, intrinsic

cgutils: Any = untyped
kind_of: Any = numba.typeof
I8P, I32, I64 = ir.IntType(8).as_pointer(), ir.IntType(32), ir.IntType(64)
NEXT, FAILURES, ENTRY = 3, 4, 5
"""Indices of members of the struct."""


@cache
def openmp() -> int:
    """The address of the OpenMP function GOMP_parallel(function, data, threads, flags) that torch calls, or 0."""
    if not sys.platform.startswith("linux"):
        return 0
    try:
        library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
        return ctypes.cast(library.GOMP_parallel, ctypes.c_void_p).value or 0
    except (OSError, AttributeError):
        return 0


def together(kernel: Any, arguments: tuple[Any, ...], count: int, pieces: int, threads: int) -> None:
    """kernel(*arguments, start, stop) for `pieces` parts of range(count), which the threads take one by one.

    Args:
        kernel: a compiled one that returns None.
        threads: as many as torch has, also for few parts, as OpenMP would end the others and start them again later.

    Raises:
        MemoryError: if a part failed, the only reason for which kernels fail.
    """
    key = kernel, compute_fingerprint(arguments)
    if key not in _entries:
        _entries[key] = _entry(kernel, arguments)
    if _share(openmp(), _entries[key], threads, pieces, count, arguments):
        raise MemoryError(f"{kernel.__name__} ran out of memory")


_entries: dict[tuple[Any, bytes], int] = {}
"""Addresses of kernels, by kernel, whose code they keep alive, and types of arguments."""


def _entry(kernel: Any, arguments: tuple[Any, ...]) -> int:
    # arguments, start and stop
    kinds = (*(kind_of(value) for value in arguments), types.intp, types.intp)
    kernel.compile(kinds)
    code = kernel.overloads[kinds]
    return int(code.library.get_pointer_to_function(code.fndesc.llvm_func_name))


@intrinsic
def _parallel(context: Any, openmp: Any, entry: Any, threads: Any, pieces: Any, count: Any, arguments: Any) -> Any:
    """Runs the parts in OpenMP's threads; returns the number that failed."""
    kernel_types = (*arguments.types, types.intp, types.intp)

    def build(context: Any, builder: Any, _: Any, values: Any) -> Any:
        openmp, entry, threads, pieces, count, packed = values
        kernel = context.call_conv.get_function_type(types.none, kernel_types).as_pointer()
        # the struct is on this stack, as GOMP_parallel returns after all threads
        contents = [packed, count, pieces, I64(0), I64(0), entry]
        shared = cgutils.alloca_once(builder, ir.LiteralStructType([value.type for value in contents]))
        for index, value in enumerate(contents):
            builder.store(value, cgutils.gep_inbounds(builder, shared, 0, index))
        member = _member(context, builder.module, shared.type, kernel, kernel_types)
        # GOMP_parallel(member, struct, threads, no flags), by its address, as void (*)(void (*)(void *), void *, …)
        call = builder.inttoptr(openmp, ir.FunctionType(ir.VoidType(), [I8P, I8P, I32, I32]).as_pointer())
        pointers = [builder.bitcast(pointer, I8P) for pointer in (member, shared)]
        builder.call(call, [*pointers, builder.trunc(threads, I32), I32(0)])
        return builder.load(cgutils.gep_inbounds(builder, shared, 0, FAILURES))

    return types.intp(openmp, entry, threads, pieces, count, arguments), build


def _member(context: Any, module: Any, shared: Any, kernel: Any, kernel_types: tuple[Any, ...]) -> Any:
    """The function of each thread: takes the next part until there is none."""
    member = ir.Function(module, ir.FunctionType(ir.VoidType(), [I8P]), module.get_unique_name("member"))
    member.linkage = "internal"
    blocks = begin, take, work, end = [member.append_basic_block(name) for name in ("begin", "take", "work", "end")]
    # begin: reads what all parts share
    builder = ir.IRBuilder(begin)
    data = builder.bitcast(member.args[0], shared)
    members = [cgutils.gep_inbounds(builder, data, 0, index) for index in range(len(shared.pointee.elements))]
    packed, count, pieces = (builder.load(pointer) for pointer in members[:NEXT])
    function = builder.inttoptr(builder.load(members[ENTRY]), kernel)
    builder.branch(take)
    # take: part = next++, atomic, without ordering other memory
    builder.position_at_end(blocks[1])
    part = builder.atomic_rmw("add", members[NEXT], I64(1), "monotonic")
    builder.cbranch(builder.icmp_signed("<", part, pieces), work, end)
    # work: the kernel from count · part / pieces to count · (part + 1) / pieces; numba's kernels return a status
    builder.position_at_end(work)
    ends = (builder.sdiv(builder.mul(count, number), pieces) for number in (part, builder.add(part, I64(1))))
    arguments = [*cgutils.unpack_tuple(builder, packed, len(kernel_types) - 2), *ends]
    status, _ = context.call_conv.call_function(builder, function, types.none, kernel_types, arguments)
    builder.atomic_rmw("add", members[FAILURES], builder.zext(status.is_error, I64), "monotonic")
    builder.branch(take)
    builder.position_at_end(end)
    builder.ret_void()
    return member


# addresses are arguments, as they differ from process to process and this code is cached on disk
@compiled
def _share(openmp: int, entry: int, threads: int, pieces: int, count: int, arguments: Any) -> int:
    return _parallel(openmp, entry, threads, pieces, count, arguments)
