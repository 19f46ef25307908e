"""Tiles of matrix products, of vector instructions, which read both factors in place.

    out[r, u] = Σ_k x[r, k] w[u, k],    r < R, u < U

A tile has R·U vectors of sums in registers. Each step loads a vector of every row of x and of w, so that a number of w
is multiplied by R rows. Compilers produce such loops from plain ones only sometimes, and slower ones for R > 1.

Of bytes (`_byte_tile`) x is unsigned, w signed, and the sums are integers of 32 bits, which are exact: 64 products are
one instruction on processors with AVX-512 VNNI, with the same result on others.

Factors are addresses, as the weights of a model are many arrays; strides count numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm  # type: ignore[import-untyped]
from llvmlite import ir
from numba import types
from numba.core import cgutils as untyped

from regard.ops.kernels.compiled import called, intrinsic

cgutils: Any = untyped
I8, I32, I64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)
_FEATURES = llvm.get_host_cpu_features()
VECTOR = 64 if _FEATURES.get("avx512f") else 32
"""Bytes of a vector; processors without such registers use two."""
HAS_DOT_OF_BYTES = bool(_FEATURES.get("avx512vnni"))
ROWS, OUTPUTS = 4, 4
"""R and U of a full tile."""
AHEAD = 8192
"""The distance of prefetched bytes of w."""
FUSED = ("contract", "reassoc", "nsz")


def _at(builder: Any, address: Any, kind: Any, *offsets: Any) -> Any:
    """A pointer to an element of an array, at `offsets` in elements from its address."""
    pointer = builder.inttoptr(address, kind.as_pointer())
    return builder.gep(pointer, [_sum(builder, offsets)])


def _sum(builder: Any, numbers: Any) -> Any:
    first, *others = numbers
    for number in others:
        first = builder.add(first, number)
    return first


def _vector(builder: Any, pointer: Any, kind: Any, lanes: int) -> Any:
    """A vector of `lanes` elements, which need not be aligned."""
    wide = builder.bitcast(pointer, ir.VectorType(kind, lanes).as_pointer())
    return builder.load(wide, align=kind.width // 8 if isinstance(kind, ir.IntType) else _size(kind))


def _size(kind: Any) -> int:
    return 4 if isinstance(kind, ir.FloatType) else 8


def _reduced(builder: Any, vector: Any) -> Any:
    """The sum of a vector's elements."""
    kind, lanes = vector.type.element, vector.type.count
    if isinstance(kind, ir.IntType):
        name, operands = f"llvm.vector.reduce.add.v{lanes}i32", [vector]
    else:
        name = f"llvm.vector.reduce.fadd.v{lanes}f{8 * _size(kind)}"
        operands = [ir.Constant(kind, -0.0), vector]
    function = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(kind, [value.type for value in operands]), name
    )
    return builder.call(function, operands, fastmath=() if isinstance(kind, ir.IntType) else FUSED)


def _splat(builder: Any, number: Any, lanes: int) -> Any:
    """A vector of equal elements."""
    vector = builder.insert_element(ir.Constant(ir.VectorType(number.type, lanes), ir.Undefined), number, I32(0))
    return builder.shuffle_vector(vector, vector, ir.Constant(ir.VectorType(I32, lanes), [0] * lanes))


def _prefetch(builder: Any, pointer: Any) -> None:
    """Prefetches the cache line `AHEAD` bytes after a pointer."""
    here = builder.bitcast(pointer, I8.as_pointer())
    kinds = [I8.as_pointer(), I32, I32, I32]
    function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(ir.VoidType(), kinds), "llvm.prefetch.p0")
    # to be read, to the first cache, data
    builder.call(function, [builder.gep(here, [I64(AHEAD)]), I32(0), I32(3), I32(1)])


def _products(
    builder: Any, kind: Any, starts_x: list[Any], starts_w: list[Any], size: Any, out: Any, do: Any, *, prefetch: bool
) -> None:
    """out[r, u] = Σ_k x_r[k] w_u[k] of rows that begin at these pointers."""
    lanes, outputs = VECTOR // _size(kind), len(starts_w)
    nothing = ir.Constant(ir.VectorType(kind, lanes), [0.0] * lanes)
    sums = [cgutils.alloca_once_value(builder, nothing) for _ in range(len(starts_x) * outputs)]
    ends = [cgutils.alloca_once(builder, kind) for _ in sums]
    for total in sums:
        builder.store(nothing, total)
    whole = builder.and_(size, I64(-lanes))

    def add(k: Any, load: Callable[[Any], Any], totals: Any, *, prefetch: bool) -> None:
        xs = [load(builder.gep(start, [k])) for start in starts_x]
        for u, start in enumerate(starts_w):
            if prefetch:
                _prefetch(builder, builder.gep(start, [k]))
            weight = load(builder.gep(start, [k]))
            for r, factor in enumerate(xs):
                total = totals[r * outputs + u]
                product = builder.fmul(factor, weight, flags=FUSED)
                builder.store(builder.fadd(builder.load(total), product, flags=FUSED), total)

    # whole vectors, then the rest, number by number
    with cgutils.for_range_slice(builder, I64(0), whole, I64(lanes)) as (k, __):
        add(k, lambda pointer: _vector(builder, pointer, kind, lanes), sums, prefetch=prefetch)
    for total, end in zip(sums, ends, strict=True):
        builder.store(_reduced(builder, builder.load(total)), end)
    with cgutils.for_range_slice(builder, whole, size, I64(1)) as (k, __):
        add(k, builder.load, ends, prefetch=False)
    for index, end in enumerate(ends):
        r, u = divmod(index, outputs)
        builder.store(builder.load(end), _at(builder, out, kind, builder.mul(I64(r), do), I64(u)))


def _tile(rows: int, outputs: int) -> Any:
    """Writes out (rows, outputs). Arguments: x, stride, w, stride, K, out, stride, and an array of their type."""

    def make(context: Any, x: Any, dx: Any, w: Any, dw: Any, size: Any, out: Any, do: Any, like: Any) -> Any:
        kind = ir.FloatType() if like.dtype == types.float32 else ir.DoubleType()

        def build(target: Any, builder: Any, _: Any, arguments: Any) -> Any:
            x, dx, w, dw, size, out, do, _like = arguments
            starts_x = [_at(builder, x, kind, builder.mul(I64(r), dx)) for r in range(rows)]
            starts_w = [_at(builder, w, kind, builder.mul(I64(u), dw)) for u in range(outputs)]
            _products(builder, kind, starts_x, starts_w, size, out, do, prefetch=True)
            return target.get_dummy_value()

        return types.void(*[types.intp] * 7, like), build

    return intrinsic(make)


def _byte_tile(rows: int, outputs: int) -> Any:
    """As `_tile`, of unsigned bytes x and bytes w, with sums of 32 bits."""

    def make(context: Any, x: Any, dx: Any, w: Any, dw: Any, size: Any, out: Any, do: Any) -> Any:
        lanes = 64 if HAS_DOT_OF_BYTES else 16
        wide = ir.VectorType(I32, 16)

        def products(builder: Any, total: Any, unsigned: Any, signed: Any) -> Any:
            if HAS_DOT_OF_BYTES:
                signature = ir.FunctionType(wide, [wide] * 3)
                dot = cgutils.get_or_insert_function(builder.module, signature, "llvm.x86.avx512.vpdpbusd.512")
                return builder.call(dot, [total, *(builder.bitcast(part, wide) for part in (unsigned, signed))])
            return builder.add(total, builder.mul(builder.zext(unsigned, wide), builder.sext(signed, wide)))

        def build(target: Any, builder: Any, _: Any, arguments: Any) -> Any:
            x, dx, w, dw, size, out, do = arguments
            nothing = ir.Constant(wide, [0] * 16)
            sums = [cgutils.alloca_once_value(builder, nothing) for _ in range(rows * outputs)]
            ends = [cgutils.alloca_once(builder, I32) for _ in sums]
            for total in sums:
                builder.store(nothing, total)
            starts_x = [_at(builder, x, I8, builder.mul(I64(r), dx)) for r in range(rows)]
            starts_w = [_at(builder, w, I8, builder.mul(I64(u), dw)) for u in range(outputs)]
            whole = builder.and_(size, I64(-lanes))
            with cgutils.for_range_slice(builder, I64(0), whole, I64(lanes)) as (k, __):
                xs = [_vector(builder, builder.gep(start, [k]), I8, lanes) for start in starts_x]
                for u, start in enumerate(starts_w):
                    _prefetch(builder, builder.gep(start, [k]))
                    weight = _vector(builder, builder.gep(start, [k]), I8, lanes)
                    for r, factor in enumerate(xs):
                        total = sums[r * outputs + u]
                        builder.store(products(builder, builder.load(total), factor, weight), total)
            for total, end in zip(sums, ends, strict=True):
                builder.store(_reduced(builder, builder.load(total)), end)
            with cgutils.for_range_slice(builder, whole, size, I64(1)) as (k, __):
                xs = [builder.zext(builder.load(builder.gep(start, [k])), I32) for start in starts_x]
                for u, start in enumerate(starts_w):
                    weight = builder.sext(builder.load(builder.gep(start, [k])), I32)
                    for r, factor in enumerate(xs):
                        end = ends[r * outputs + u]
                        builder.store(builder.add(builder.load(end), builder.mul(factor, weight)), end)
            for r in range(rows):
                for u in range(outputs):
                    place = _at(builder, out, I32, builder.mul(I64(r), do), I64(u))
                    builder.store(builder.load(ends[r * outputs + u]), place)
            return target.get_dummy_value()

        return types.void(*[types.intp] * 7), build

    return intrinsic(make)


def _gathered(rows: int) -> Any:
    """As `_tile`, with the addresses of four rows of w in place of w and its stride."""

    def make(
        context: Any, x: Any, dx: Any, a: Any, b: Any, c: Any, d: Any, size: Any, out: Any, do: Any, like: Any
    ) -> Any:
        kind = ir.FloatType() if like.dtype == types.float32 else ir.DoubleType()

        def build(target: Any, builder: Any, _: Any, arguments: Any) -> Any:
            x, dx, *addresses, size, out, do, _like = arguments
            starts_w = [_at(builder, address, kind, I64(0)) for address in addresses]
            starts_x = [_at(builder, x, kind, builder.mul(I64(r), dx)) for r in range(rows)]
            _products(builder, kind, starts_x, starts_w, size, out, do, prefetch=False)
            return target.get_dummy_value()

        return types.void(*[types.intp] * 9, like), build

    return intrinsic(make)


def _mix(vectors: int, *, single: bool = False) -> Any:
    """out[d] = Σ_j α_j v[slot_j, d] for some vectors of d (of one number if `single`) and j from `begin` to `end`.

    Arguments: α, the slots (32 bits), begin, end, v, bytes from slot to slot, out, an array of their type.
    """

    def make(context: Any, alpha: Any, slots: Any, begin: Any, end: Any, v: Any, step: Any, out: Any, like: Any) -> Any:
        kind = ir.FloatType() if like.dtype == types.float32 else ir.DoubleType()
        lanes = 1 if single else VECTOR // _size(kind)

        def build(target: Any, builder: Any, _: Any, arguments: Any) -> Any:
            alpha, slots, begin, end, v, step, out, _like = arguments
            nothing = ir.Constant(ir.VectorType(kind, lanes), [0.0] * lanes)
            sums = [cgutils.alloca_once_value(builder, nothing) for _ in range(vectors)]
            for total in sums:
                builder.store(nothing, total)
            weights, numbers = _at(builder, alpha, kind, I64(0)), _at(builder, slots, I32, I64(0))
            with cgutils.for_range_slice(builder, begin, end, I64(1)) as (j, __):
                slot = builder.sext(builder.load(builder.gep(numbers, [j])), I64)
                here = builder.add(v, builder.mul(slot, step))
                weight = _splat(builder, builder.load(builder.gep(weights, [j])), lanes)
                for index, total in enumerate(sums):
                    value = _vector(builder, _at(builder, here, kind, I64(index * lanes)), kind, lanes)
                    product = builder.fmul(weight, value, flags=FUSED)
                    builder.store(builder.fadd(builder.load(total), product, flags=FUSED), total)
            for index, total in enumerate(sums):
                place = _at(builder, out, kind, I64(index * lanes))
                wide = builder.bitcast(place, nothing.type.as_pointer())
                builder.store(builder.load(total), wide, align=_size(kind))
            return target.get_dummy_value()

        return types.void(*[types.intp] * 7, like), build

    return intrinsic(make)


_g1, _g2, _g3, _g4 = (_gathered(rows) for rows in range(1, ROWS + 1))
_mix_four, _mix_one, _mix_number = _mix(4), _mix(1), _mix(1, single=True)
_1x4, _2x4, _3x4, _4x4 = (_tile(rows, OUTPUTS) for rows in range(1, ROWS + 1))
_1x1, _2x1, _3x1, _4x1 = (_tile(rows, 1) for rows in range(1, ROWS + 1))
_b1x4, _b2x4, _b3x4, _b4x4 = (_byte_tile(rows, OUTPUTS) for rows in range(1, ROWS + 1))
_b1x1, _b2x1, _b3x1, _b4x1 = (_byte_tile(rows, 1) for rows in range(1, ROWS + 1))


@called
def products(x: int, dx: int, rows: int, w: int, size: int, begin: int, end: int, out: int, do: int, like: Any) -> None:
    """out[r, n] = Σ_k x[r, k] w[n, k] for r < rows and begin ≤ n < end.

    Four rows of w stay in the first cache for all rows of x, so that w is read from memory once.

    Args:
        x, w, out: addresses of x (rows, ·) with `dx` numbers from row to row, w (·, size), out with `do` numbers.
        like: any array of their type.
    """
    each = like.itemsize
    n = begin
    while n < end:
        here, target = w + n * size * each, out + n * each
        full = n + 4 <= end
        row = 0
        while row < rows:
            from_x, to = x + row * dx * each, target + row * do * each
            left = rows - row
            if full:
                if left >= 4:
                    _4x4(from_x, dx, here, size, size, to, do, like)
                elif left == 3:
                    _3x4(from_x, dx, here, size, size, to, do, like)
                elif left == 2:
                    _2x4(from_x, dx, here, size, size, to, do, like)
                else:
                    _1x4(from_x, dx, here, size, size, to, do, like)
            else:
                if left >= 4:
                    _4x1(from_x, dx, here, size, size, to, do, like)
                elif left == 3:
                    _3x1(from_x, dx, here, size, size, to, do, like)
                elif left == 2:
                    _2x1(from_x, dx, here, size, size, to, do, like)
                else:
                    _1x1(from_x, dx, here, size, size, to, do, like)
            row += 4
        n += 4 if full else 1


@called
def byte_products(x: int, dx: int, rows: int, w: int, size: int, begin: int, end: int, out: int, do: int) -> None:
    """As `products`, of unsigned bytes x and bytes w, with sums of 32 bits."""
    n = begin
    while n < end:
        here, target = w + n * size, out + n * 4
        full = n + 4 <= end
        row = 0
        while row < rows:
            from_x, to = x + row * dx, target + row * do * 4
            left = rows - row
            if full:
                if left >= 4:
                    _b4x4(from_x, dx, here, size, size, to, do)
                elif left == 3:
                    _b3x4(from_x, dx, here, size, size, to, do)
                elif left == 2:
                    _b2x4(from_x, dx, here, size, size, to, do)
                else:
                    _b1x4(from_x, dx, here, size, size, to, do)
            else:
                if left >= 4:
                    _b4x1(from_x, dx, here, size, size, to, do)
                elif left == 3:
                    _b3x1(from_x, dx, here, size, size, to, do)
                elif left == 2:
                    _b2x1(from_x, dx, here, size, size, to, do)
                else:
                    _b1x1(from_x, dx, here, size, size, to, do)
            row += 4
        n += 4 if full else 1


@called
def gathered_products(
    x: int,
    dx: int,
    rows: int,
    slots: Any,
    begin: int,
    end: int,
    w: int,
    step: int,
    size: int,
    out: int,
    do: int,
    like: Any,
) -> None:
    """out[r, j] = Σ_k x[r, k] w[slots[j], k] for begin ≤ j < end.

    Args:
        slots: (T,) 32 bits.
        step: bytes from slot to slot of w.
    """
    each = like.itemsize
    row = 0
    while row < rows:
        from_x, to, left = x + row * dx * each, out + row * do * each, rows - row
        j = begin
        while j + 4 <= end:
            a, b = w + slots[j] * step, w + slots[j + 1] * step
            c, d = w + slots[j + 2] * step, w + slots[j + 3] * step
            if left >= 4:
                _g4(from_x, dx, a, b, c, d, size, to + j * each, do, like)
            elif left == 3:
                _g3(from_x, dx, a, b, c, d, size, to + j * each, do, like)
            elif left == 2:
                _g2(from_x, dx, a, b, c, d, size, to + j * each, do, like)
            else:
                _g1(from_x, dx, a, b, c, d, size, to + j * each, do, like)
            j += 4
        while j < end:
            a = w + slots[j] * step
            for r in range(min(left, 4)):
                _1x1(from_x + r * dx * each, dx, a, size, size, to + (r * do + j) * each, do, like)
            j += 1
        row += 4


@called
def gathered_sum(
    alpha: int, slots: Any, begin: int, end: int, v: int, step: int, size: int, out: int, like: Any
) -> None:
    """out[d] = Σ_j α_j v[slots[j], d] for begin ≤ j < end and d < size; arguments as of `gathered_products`."""
    each = like.itemsize
    lanes = VECTOR // each
    d = 0
    while d < size:
        from_v, to = v + d * each, out + d * each
        if d + 4 * lanes <= size:
            _mix_four(alpha, slots.ctypes.data, begin, end, from_v, step, to, like)
            d += 4 * lanes
        elif d + lanes <= size:
            _mix_one(alpha, slots.ctypes.data, begin, end, from_v, step, to, like)
            d += lanes
        else:
            _mix_number(alpha, slots.ctypes.data, begin, end, from_v, step, to, like)
            d += 1
