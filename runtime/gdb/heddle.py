"""gdb commands for heddle's threads: `heddle threads`, `heddle bt SLOT`, `heddle all-bt`.

Load it with `source heddle.py`. A parked thread's stack pointer, resume address, frame pointer and
base register lie at the head of its control block; the script puts them into the registers, asks
gdb for a backtrace, and puts the old values back. So it needs a live process (or one under a
debugger that can write registers), not a core file.

Offsets are those of `runtime/src/arch/mod.rs` (Context) and `runtime/src/control.rs` (Control),
and of `record/include/heddle/record.h`.
"""

import gdb

CONTROL_BYTES = 128
RECORD_BYTES = 64
STATES = ["free", "new", "ready", "running", "parked", "EV_WAIT", "finished"]
KINDS = ["free", "light", "full", "kernel thread", "worker"]
USER_LEVEL = (1, 2)
REGISTERS = {
    "x86": ["$rsp", "$rip", "$rbp", "$rbx"],
    "aarch64": ["$sp", "$pc", "$x29", "$x19"],
}


def word(address, bytes=8):
    """The unsigned integer of `bytes` bytes at `address`."""
    return int.from_bytes(gdb.selected_inferior().read_memory(address, bytes), "little")


def static(name):
    """Address of one of the runtime's statics."""
    symbol = gdb.lookup_static_symbol(name) or gdb.lookup_global_symbol(name)
    if symbol is None:
        raise gdb.GdbError("no symbol %s: is this a program with heddle's debug info?" % name)
    return int(symbol.value().address)


def slots():
    """(slot, control block, record) of every slot that was made."""
    slab = word(static("heddle::control::SLAB"))
    table = word(static("heddle::table::BASE"))
    made = word(static("heddle::stack::pool::SLOTS_MADE"), 4)
    for slot in range(made):
        yield slot, slab + slot * CONTROL_BYTES, table + slot * RECORD_BYTES


def registers():
    """Names of the four registers that a context keeps."""
    name = gdb.selected_frame().architecture().name()
    return REGISTERS["aarch64" if name.startswith("aarch64") else "x86"]


def backtrace(control):
    """Prints the backtrace of the thread whose control block is at `control`."""
    names = registers()
    old = [int(gdb.selected_frame().read_register(name[1:])) for name in names]
    new = [word(control + 8 * index) for index in range(4)]
    frame = gdb.selected_frame()
    try:
        set_registers(names, new)
        gdb.execute("backtrace")
    finally:
        set_registers(names, old)
        frame.select()


def set_registers(names, values):
    """Stack pointer first: gdb rebuilds its frames at each write."""
    for name, value in zip(names, values):
        gdb.execute("set var %s = %d" % (name, value), to_string=True)


class Heddle(gdb.Command):
    """heddle's threads: see `help heddle threads`, `help heddle bt`, `help heddle all-bt`."""

    def __init__(self):
        super().__init__("heddle", gdb.COMMAND_STACK, gdb.COMPLETE_NONE, True)


class Threads(gdb.Command):
    """heddle threads: slot, generation, kind, state, worker of every thread."""

    def __init__(self):
        super().__init__("heddle threads", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        print("%8s %4s %-14s %-9s %6s" % ("slot", "gen", "kind", "state", "worker"))
        for slot, _control, record in slots():
            kind = word(record + 15, 1)
            if kind == 0:
                continue
            state = word(record + 14, 1)
            worker = word(record + 12, 2)
            print("%8d %4d %-14s %-9s %6s" % (
                slot, word(record + 4, 4), KINDS[kind], STATES[state],
                "-" if worker == 0xFFFF else worker))


class Backtrace(gdb.Command):
    """heddle bt SLOT: the backtrace of a parked or ready thread."""

    def __init__(self):
        super().__init__("heddle bt", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        wanted = gdb.string_to_argv(argument)
        if len(wanted) != 1:
            raise gdb.GdbError("usage: heddle bt SLOT")
        for slot, control, record in slots():
            if slot == int(wanted[0]):
                if word(record + 15, 1) not in USER_LEVEL:
                    raise gdb.GdbError("slot %d holds no user-level thread" % slot)
                return backtrace(control)
        raise gdb.GdbError("no slot %s" % wanted[0])


class AllBacktraces(gdb.Command):
    """heddle all-bt: the backtraces of all parked threads."""

    def __init__(self):
        super().__init__("heddle all-bt", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        for slot, control, record in slots():
            kind = word(record + 15, 1)
            state = word(record + 14, 1)
            if kind in USER_LEVEL and STATES[state] == "parked":
                print("thread %d.%d:" % (slot, word(record + 4, 4)))
                backtrace(control)


Heddle()
Threads()
Backtrace()
AllBacktraces()
