"""What stands where in the tables of the event loop, and the figures that it tells apart."""

NONE = 0xFFFFFFFF
"""No instruction."""

FAR = 1 << 62

# Columns of `times`, [n * columns]. Until an instruction issues they say where it stands; what shares a column is the
# remainder and the quotient by 1 << UPPER.
START = 0
"""Until it issues the complement, which is negative, of (edge after the one to ask next, queue)."""
FREED = 1
"""End of its occupancy; until it issues the latest release so far."""
DONE = 2
"""Until it is known the complement of (who waits for it, place in its queue); who waits is 0 or one more than the
instruction that came last."""
WAIT = 3
"""Until it issues (who else waits for what it waits for, twice its form or one more than twice the row of a DMA among
the transfers)."""
LINK = 4
"""(What bound its start or NONE, sim.trace.Wait); until it issues (the predecessor that released it last, edge to it).
"""
TIMES = 5

UPPER = 32
LOWER = (1 << UPPER) - 1

# Columns of the queue table, [queues * columns].
Q_DUE = 0
"""When it can issue next; FAR when nothing of it is known to become ready."""
Q_FREE = 1
Q_IDLE = 2
"""Since when the engine shows no activity."""
Q_LAST = 3
"""The instruction before, -1 for none."""
Q_AFTER = 4
"""What one waits for that only waits for the instruction before: sim.trace.Wait."""
Q_READY = 5
"""How many places are ready."""
Q_LOW = 6
"""Word of the summary before which no place is ready."""
Q_LATER = 7
"""How many places will be ready at a known time."""
Q_HEAD = 8
"""Oldest place not issued."""
Q_FRONT = 9
"""First place beyond the window."""
Q_WINDOW = 10
Q_LENGTH = 11
Q_CORE = 12
Q_BASE = 13
"""Where its places begin in `places`."""
Q_HEAP = 14
"""Where its heap begins in `heaps`."""
Q_WORDS = 15
"""Where its set begins in `marks`."""
Q_SUMMARY = 16
"""Where the summary of that begins there."""
Q_COLUMNS = 17

# Columns of the form table, [forms * columns].
F_OCCUPANCY = 0
F_LATENCY = 1
F_WEIGHTS = 2
"""Time that loading the weights of a matmul takes."""
F_TAIL = 3
"""The end of its occupancy, during which the next weights may be loaded."""
F_COLD = 4
"""From here on these four at a cold clock."""
F_TABLE = 8
F_PORT = 9
F_CLOCKED = 10
F_DMA = 11
F_DISPATCH = 12
F_NOTIFY = 13
F_SERVICE = 14
F_HBM = 15
F_ENGINES = 16
F_STREAM = 17
"""The engine that runs or triggers it."""
F_SIDE = 18
"""The operand of a DMA that lies on chip, -1 for none."""
F_COLUMNS = 19

# Columns of the core table: what the engines of a core share.
C_TABLE = 0
"""Activation tables loaded, -1 for none yet."""
C_PORT = 1
"""Until when each of the two ports is held."""
C_HOLDER = 3
"""By which instruction."""
C_WINDOW_END = 5
C_BUSY = 6
"""Busy time of TensorE in this window."""
C_WARM = 7
C_HBM = 8
"""Until when the core's share of HBM bandwidth is used up."""
C_WEIGHTS = 9
"""Since when TensorE can load weights behind those that it works with."""
C_DMA = 10
"""Until when each DMA engine is busy; as many columns as engines."""
PORTS = 2

# Columns of the transfer table, [t * columns].
T_INSTRUCTION = 0
"""The trigger."""
T_CORE = 1
T_ENGINE = 2
"""First of its DMA engines."""
T_TURN = 3
"""How many reached the DMA engines before it."""
T_ARRIVAL = 4
T_START = 5
"""Until it arrives its form."""
T_END = 6
T_WAIT = 7
T_CAUSE = 8
T_COLUMNS = 9

# Columns of the log.
L_KIND = 0
"""LOAD or CLOCK."""
L_SUBJECT = 1
"""The instruction that needed the load; the core."""
L_TIME = 2
"""-1 for the first load, which is hidden."""
L_WAIT = 3
"""Wait of the load; whether the clock is warm from then on."""
L_CAUSE = 4
L_BIND = 5
L_COLUMNS = 6
LOAD = 0
CLOCK = 1

# Entries of `shared`: figures in ps, then what is counted on the way.
SEM_WAKE = 0
"""What each gate of an edge costs stands at its number."""
SEM_SAME = 1
AT_ISSUE = 2
TABLE_LOAD = 3
CLOCK_WINDOW = 4
"""0 for a device without clock windows."""
CLOCK_UP = 5
CLOCK_DOWN = 6
DMA_ENGINES = 7
ARRIVALS_BASE = 8
ARRIVALS = 9
ARRIVED = 10
ISSUED = 11
LOGGED = 12
ORDERED = 13
"""Whether something may wait for the issue of a DMA."""
SHARED = 14

# Gates and kinds of an edge, and where in its code they are.
GATE = 2
KIND = (1 << GATE) - 1
GATE_ISSUE = 2
KIND_FLOW = 0
KIND_ORDER = 3

# sim.trace.Wait
WAIT_NONE = 0
WAIT_ENGINE = 1
WAIT_OPERAND = 2
WAIT_DMA = 3
WAIT_BUFFER = 4
WAIT_PORT = 5
WAIT_TABLE = 6
WAIT_QUEUE = 7
WAIT_BANDWIDTH = 8
WAIT_ISSUE = 9
