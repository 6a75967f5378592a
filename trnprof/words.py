"""Numbers and names as people read them: the one form that browser, terminal, report and command line share.

A number and its unit stand apart by a narrow no-break space, thousands by a thin one; minus is U+2212.
Derived figures carry three significant digits. Capacities are binary (KiB), rates decimal (GB/s).
What cannot be computed reads `n/a`.
"""

from __future__ import annotations

import math
import unicodedata

NARROW = "\u202f"
THIN = "\u2009"
MINUS = "\u2212"
NOT_AVAILABLE = "n/a"
NO_VERDICT = "No verdict"

WORKING = "working"
"""Time in which an engine does work of the kernel; what AWS calls active counts control beside it."""
WORKING_NOTE = (
    "Working: instructions of the kernel's own work. AWS's engine_active_time, in trnprof summary, counts activation "
    "tables, drains and branches too."
)

BOUND_WORDS = {
    "compute": "Compute",
    "memory_bandwidth": "Memory bandwidth",
    "memory_capacity": "Memory capacity",
    "network": "Network",
    "latency": "Latency",
}

ENGINE_WORDS = ("TensorE", "VectorE", "ScalarE", "GpSimdE", "SyncE", "DMA", "Collectives", "Other")
"""By `sim.trace.Engine`."""

ENGINE_CODES = ("TE", "VE", "SE", "GP", "SY", "DM", "CC", "OT")

_TIME = (("ps", 1), ("ns", 1e3), ("µs", 1e6), ("ms", 1e9), ("s", 1e12))
_BYTES = (("B", 1), ("KiB", 2**10), ("MiB", 2**20), ("GiB", 2**30), ("TiB", 2**40))
_DECIMAL = (("", 1), ("K", 1e3), ("M", 1e6), ("G", 1e9), ("T", 1e12), ("P", 1e15), ("E", 1e18))


def digits(value: float | None, significant: int = 3) -> str:
    """A plain number to three significant digits, whole from 1 000 on: `0.0417`, `5.80`, `1 206`."""
    if value is None or not math.isfinite(value):
        return NOT_AVAILABLE
    if value == 0:
        return "0"
    places = significant - 1 - math.floor(math.log10(_round(abs(value), significant)))
    return _sign(value) + f"{abs(value):,.{max(0, places)}f}".replace(",", THIN)


def count(value: int | None) -> str:
    """A whole number: `1 206`."""
    return NOT_AVAILABLE if value is None else _sign(value) + f"{abs(int(value)):,}".replace(",", THIN)


def time(ps: float | None) -> str:
    """A length of time in the unit that fits: `23.1 µs`, `686 ns`."""
    if ps is not None and ps == 0:
        return f"0{NARROW}ns"
    return _scaled(ps, _TIME, 1000)


def exact(ps: int | None) -> str:
    """The time of one instruction in whole nanoseconds: `1 206 ns`."""
    return NOT_AVAILABLE if ps is None else f"{count(_nearest(ps, 1_000))}{NARROW}ns"


def moment(ps: int | None) -> str:
    """A point in time, µs with three decimals: `26.059 µs`."""
    if ps is None:
        return NOT_AVAILABLE
    ns = _nearest(abs(ps), 1_000)
    return f"{_sign(ps)}{ns // 1000:,}.{ns % 1000:03d}".replace(",", THIN) + f"{NARROW}µs"


def of(part_ps: float, whole_ps: float) -> str:
    """A part of a time in the unit of the whole: `13.2 of 23.1 µs`."""
    unit, size = _unit(_round(abs(whole_ps), 3), _TIME)
    return f"{digits(part_ps / size)} of {digits(whole_ps / size)}{NARROW}{unit}"


def size(n: float | None) -> str:
    """Bytes of memory or of a transfer: `512 B`, `1.06 MiB`; whole where it is whole."""
    if n is None or not math.isfinite(n):
        return NOT_AVAILABLE
    unit, scale = _unit(abs(n), _BYTES, 1024)
    value = n / scale
    text = count(int(value)) if float(value).is_integer() else digits(value)
    return f"{text}{NARROW}{unit}"


def rate(bytes_per_s: float | None) -> str:
    """Bandwidth: `358 GB/s`, `1.23 TB/s`."""
    return _scaled(bytes_per_s, _units("B/s"), 1000)


def flops(flop_per_s: float | None) -> str:
    """Performance: `5.80 TFLOP/s`."""
    return _scaled(flop_per_s, _units("FLOP/s"), 1000)


def work(flop: float | None) -> str:
    """Floating-point operations: `134 MFLOP`."""
    return _scaled(flop, _units("FLOP"), 1000)


def elements(per_s: float | None) -> str:
    """The rate of an engine that works element by element: `123 Gelem/s`."""
    return _scaled(per_s, _units("elem/s"), 1000)


def intensity(flop_per_byte: float | None) -> str:
    """Arithmetic intensity: `55.0 FLOP/B`."""
    text = digits(flop_per_byte)
    return text if text == NOT_AVAILABLE else f"{text}{NARROW}FLOP/B"


def share(value: float | None) -> str:
    """A fraction in whole per cent; `<1 %` for little, `0 %` only for nothing, `104 % !` where a roof is exceeded."""
    if value is None or not math.isfinite(value):
        return NOT_AVAILABLE
    if value < 0:
        return MINUS + share(-value)
    if 0 < value < 0.01:
        return f"<1{NARROW}%"
    percent = _nearest(value * 1e6, 10_000)
    return f"{percent}{NARROW}%" + (f"{NARROW}!" if percent > 100 else "")


def points(a: float, b: float) -> int:
    """The difference of two shares in percentage points, taken from the terms as shown."""
    return _nearest(a * 1e6, 10_000) - _nearest(b * 1e6, 10_000)


def delta(ps: float | None) -> str:
    """A change of time, always with its sign: `−9.15 µs`, `+34 ns`."""
    if ps is None:
        return NOT_AVAILABLE
    return ("+" if ps >= 0 else MINUS) + time(abs(ps))


def percent(change: float) -> str:
    """A relative change, always with its sign, to a tenth: `−13.8 %`."""
    return f"{MINUS if change < 0 else '+'}{abs(change) * 100:.1f}{NARROW}%"


def estimate(text: str, estimated: bool = True) -> str:
    """The mark of a figure that was not captured."""
    return f"~{text}" if estimated and text != NOT_AVAILABLE else text


def interval(low: str, high: str) -> str:
    """The spread of an estimate; the unit is said once: `18.1 to 19.6 µs`."""
    number, _, unit = low.rpartition(NARROW)
    return f"{number if number and high.endswith(NARROW + unit) else low} to {high}"


def within(estimate: str, low: float, high: float) -> str:
    """An estimated time with its interval in ps: `~38.3 µs (36.9 to 40.8 µs)`."""
    return f"{estimate} ({interval(time(low), time(high))})"


def quantity(value: float | None, unit: str) -> str:
    """A figure in the base unit that records carry: ps, ns, B, B/s, FLOP, FLOP/s, elem/s, FLOP/B, share or none."""
    write = _WRITERS.get(unit)
    if write is not None:
        return write(value)
    text = digits(value)
    return f"{text}{NARROW}{unit}" if unit and text != NOT_AVAILABLE else text


def bound(name: str | None) -> str:
    """The title of a bound: `Compute-bound`; of none, `No verdict`."""
    return f"{BOUND_WORDS.get(name, name)}-bound" if name else NO_VERDICT


def bound_name(name: str | None) -> str:
    """A bound as a cell of a table: `Compute`, `No verdict`."""
    return BOUND_WORDS.get(name, name) if name else NO_VERDICT


def ahead(points: int, rival: str) -> str:
    """By how much a verdict leads: `59 points ahead of latency`; `level with latency`."""
    if points <= 0:
        return f"level with {rival}"
    return f"{count(points)} point{'' if points == 1 else 's'} ahead of {rival}"


def plain(text: str, width: int | None = None) -> str:
    """A name from a file as it may be shown: no control or direction characters; the middle cut beyond `width`."""
    shown = "".join("\ufffd" if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") else c for c in text)
    if width is None or len(shown) <= width:
        return shown
    head = (width - 1) // 2
    return f"{shown[:head]}…{shown[len(shown) - (width - 1 - head) :]}"


def inert(value: object) -> object:
    """A text that a spreadsheet would run as a formula gets a quote in front."""
    return f"'{value}" if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r") else value


def listing(parts: list[str]) -> str:
    """Words in a row: `a, b and c`."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _units(base: str) -> tuple[tuple[str, float], ...]:
    return tuple((prefix + base, scale) for prefix, scale in _DECIMAL)


def _scaled(value: float | None, units: tuple[tuple[str, float], ...], step: int) -> str:
    if value is None or not math.isfinite(value):
        return NOT_AVAILABLE
    unit, scale = _unit(_round(abs(value), 3), units, step)
    return f"{digits(value / scale)}{NARROW}{unit}"


def _unit(value: float, units: tuple[tuple[str, float], ...], step: int = 1000) -> tuple[str, float]:
    fitting = [item for item in units if value >= item[1]]
    return fitting[-1] if fitting else units[0]


def _round(value: float, significant: int) -> float:
    """Rounded before the unit is chosen, so that 999.6 ns reads 1.00 µs."""
    return float(f"{value:.{significant - 1}e}")


def _nearest(value: float, step: int) -> int:
    """Half away from zero, as people round; exact for integers."""
    n = int(value) if isinstance(value, int) else math.floor(abs(value) + 1e-9) * (1 if value >= 0 else -1)
    return (abs(n) + step // 2) // step * (1 if n >= 0 else -1)


def _sign(value: float) -> str:
    return MINUS if value < 0 else ""


_WRITERS = {
    "ps": time,
    "ns": lambda ns: time(None if ns is None else ns * 1000),
    "B": size,
    "B/s": rate,
    "FLOP": work,
    "FLOP/s": flops,
    "elem/s": elements,
    "FLOP/B": intensity,
    "share": share,
}
