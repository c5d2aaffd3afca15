"""How many bytes each large job needs, computed before anything is allocated."""

from __future__ import annotations

from infrec import machine

_RUNTIME = 40_000_000  # what JAX compiles and keeps for exchanging arrays between processes


def exact_fit(n: int, items: int, *, itemsize: int = 4, alphas: int = 3) -> int:
    """Bytes of an exact ridge fit: the kernel, the copy that is factorised, and `alphas` dual matrices."""
    return itemsize * n * (2 * n + alphas * items)


def nystrom_fit(
    centres: int, items: int, *, rows: int | None = None, itemsize: int = 4, alphas: int = 2, kept: int = 0
) -> int:
    """Bytes of a Nyström fit, the same however many rows pass by.

    Always: the centres' factor and the two sums in float64, the factor again in the fit's own precision. In
    the pass: a block's kernel and its product. In the solve: the system and two blocks of columns in float64,
    `alphas` dual matrices, and the `kept` kernel rows of validation users.
    """
    square, wide = centres * centres, centres * items
    block = min(nystrom_block(centres), rows or nystrom_block(centres))
    one_pass = itemsize * (square + block * centres)
    solve = 8 * (square + 2 * centres * min(items, 2048)) + itemsize * (alphas * wide + kept * centres)
    return 8 * (2 * square + wide) + itemsize * square + max(one_pass, solve)


def streamed_fit(
    centres: int,
    items: int,
    *,
    processes: int = 1,
    itemsize: int = 4,
    kept: int = 0,
    rows: int = 0,
    stored: int = 0,
) -> int:
    """Bytes of a fit from partitions in one of several processes, the same however many partitions there are.

    As `nystrom_fit`, with this process's share of the items; what is exchanged at a time; a partition of
    `rows` users and `stored` interactions as it is read; and `kept` kernel rows of this process's judges.
    """
    square, own = centres * centres, centres * (-(-items // processes))
    block = min(nystrom_block(centres), rows or nystrom_block(centres))
    several = processes > 1
    exchanged = 4 * itemsize * centres * min(items, 1024) if several else 0
    one_pass = itemsize * (square + block * centres) + exchanged + 40 * stored
    solve = 8 * ((1 + several) * square + 2 * min(own, 2048 * centres))
    solve += itemsize * ((2 if kept else 1) * own + kept * centres)
    last = itemsize * (own + centres * items) if several else 0
    runtime = _RUNTIME if several else 0
    return 8 * (2 * square + own) + itemsize * square + max(one_pass, solve, last) + runtime


def nystrom_block(centres: int) -> int:
    """How many rows a Nyström pass takes in at a time: 64 MB of their kernel in float32."""
    return min(16384, max(64, (1 << 24) // centres))


def distillation(users: int, items: int, *, batch: int, judges: int, regs: int = 8, modelled: int = 0) -> int:
    """Bytes of a distillation on the CPU beside the log.

    Twelve arrays of the summary's size (logits, their mean, Adam's two, gradients, X̂, α, …), α for every λ of
    a validation, a step's users and the validation users as bytes, and what JAX compiles. modelled: items of
    the model that targets come from: its products, factor and inverse, and the targets in half precision.
    """
    targets = 16 * modelled * modelled + (2 * batch * items if modelled else 0)
    return 4 * users * items * (12 + regs) + items * (3 * batch + min(judges, 20_000)) + 240_000_000 + targets


def exact_on_device(n: int, items: int, *, tile: int, columns: int, width: int = 2) -> int:
    """Bytes of an exact fit on an accelerator: the kernel once, its diagonal tiles, the rows (`width` bytes a
    value), and three blocks of right-hand sides."""
    padded = -(-n // tile) * tile
    return 4 * (padded * padded + padded * tile + 3 * padded * columns) + width * padded * items


def nystrom_on_device(centres: int, items: int, *, block: int) -> int:
    """Bytes of a Nyström fit on an accelerator. In the pass: the sums as pairs of float32 and a block's share
    of them, the whitening matrix, the centres' rows, and a block of rows with its kernel and features. In the
    solve: five squares in float64 (the system, its halves, both factors) and a block of columns."""
    square, wide = centres * centres, centres * items
    one_pass = 4 * (4 * square + 3 * wide + 4 * block * centres) + 2 * (wide + block * items)
    return max(one_pass, 8 * (5 * square + centres * min(items, 4096)))


def evaluation(users: int, items: int, held_out: int, *, batch: int = 64 << 20) -> int:
    """Bytes of an evaluation beside the data and the model.

    Always: 14 numbers for each user and the scores that the pooled AUC compares (50 negatives and the
    held-out items of each user). At the worst, either a batch of scores with its copies while the negatives
    of a block of users are drawn, or at the end the AUC's sorted copy, the scores' users and a chunk's ranks.
    """
    compared = held_out + 50 * users
    negatives = 8 * 50 * min(users, 1 << 18)
    drawing = 3 * max(batch, 4 * 16 * items) + 4 * negatives
    comparing = negatives + 8 * compared + 36 * min(compared, 1 << 22)
    return 14 * 8 * users + 4 * compared + max(drawing, comparing)


def users_that_fit(items: int, *, itemsize: int = 4, alphas: int = 3, free: int | None = None) -> int:
    """The largest n (rounded down to hundreds) whose exact fit the memory holds."""
    room = 0.9 * (machine.memory_available() if free is None else free) / itemsize
    width = alphas * items
    n = ((width * width + 8 * room) ** 0.5 - width) / 4  # the positive root of 2 n² + width n = room
    return max(100, int(n) // 100 * 100)
