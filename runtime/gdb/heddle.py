"""gdb commands for heddle's threads, in a living process or in its core file.

    heddle threads      all threads: state, worker, name, role, what each waits for
    heddle bt SLOT      the backtrace of one thread
    heddle bt all       the backtraces of all threads
    heddle thread SLOT  selects that thread's innermost frame: `up`, `info locals`, `backtrace`,
                        whose first frames stay the kernel thread's. Without SLOT: back to it.
    heddle gcore FILE   a core file of the living process, as gdb's gcore, with all threads' stacks

Load it with `source heddle.py`, in a program that was written for heddle or one that `heddle run
--threads user` runs (attach to the program itself, not to heddle). Threads that run are kernel
threads to gdb as well (`info threads`).

gcore leaves out what lies behind a guard page that is a marker in the page table (Linux 6.13): it
gives up a mapping at the first page that cannot be read. `heddle gcore` puts the stacks in.

Invariant: the program is read and never written. A thread that does not run has four registers at
the head of its control block; an unwinder of gdb's hands them out as what the innermost frame of
the selected kernel thread had saved.

Where everything lies is said by the program: `heddle_debugger` (runtime/src/debugger.rs) and, for
programs that know nothing of heddle, `heddle_user_debugger` (user/src/threads/debugger.rs). Roles
are in the public table (record/include/heddle/record.h), which is shared memory: a core file lacks
it, and the start function is shown alone.
"""

import os
import re
import struct

import gdb
import gdb.unwinder

VERSION = 2
WORDS = [
    "version", "slab", "slots_made", "table", "chunks", "chunk_nodes", "node_bytes", "node_address",
    "above", "mask", "trampoline", "control_bytes", "control_worker", "control_stack",
    "control_flags", "control_kind", "control_class", "control_wait", "control_deadline",
    "control_references", "control_prev",
    "worker_current", "worker_tid", "worker_index", "colours", "line",
]
CLASSES = 6
KINDS = ["free", "light", "full", "kernel thread", "worker"]
LIGHT, FULL, KERNEL_THREAD = 1, 2, 3
OWN_TLS, CLASS_SHIFT, CLASS_MASK = 8, 4, 7
STATES = {1: "new", 2: "ready", 4: "parked", 5: "EV_WAIT", 6: "finished"}
JOIN, ADDRESS = 5, 7
WAITS = {
    1: "a lock, semaphore, condition or channel", 2: "sleep", 3: "park", 4: "I/O", 5: "join",
    6: "a lock, semaphore, condition or channel", 7: "an address (futex)",
}
REGISTERS = {"x86": ["rsp", "rip", "rbp", "rbx"], "aarch64": ["sp", "pc", "x29", "x19"]}
# Frames above this one are cut off.
FRAMES_MAX = 200
PAGE = 4096
# What is read of a stack in one go.
PIECE_BYTES = 16 * PAGE
# Below the stack pointer what a function without calls may use is the thread's, too.
RED_ZONE_BYTES = 128
PT_LOAD = 1


def read(address, count):
    """Bytes of the program; None where there is no memory, or a core file lacks it."""
    try:
        return bytes(gdb.selected_inferior().read_memory(address, count))
    except gdb.MemoryError:
        return None


def number(data):
    """The unsigned number that these bytes are; 0 for none."""
    return int.from_bytes(data or b"", "little")


def word(address, count=8):
    """The unsigned number at an address; 0 where nothing can be read."""
    return number(read(address, count))


def symbol(name):
    """Address of a symbol, which needs no debug information; None if there is none."""
    language = gdb.parameter("language")
    gdb.execute("set language c", to_string=True)
    try:
        return int(gdb.parse_and_eval("(unsigned long)&%s" % name))
    except gdb.error:
        return None
    finally:
        gdb.execute("set language %s" % language, to_string=True)


def function(address):
    """The name of what lies at an address; else the address."""
    text = gdb.execute("info symbol %#x" % address, to_string=True)
    found = re.match(r"(.+?)(?: \+ \d+)? in section", text)
    return found.group(1) if found else "%#x" % address


class Layout:
    """Where the program has what; as `heddle_debugger` says."""

    def __init__(self):
        start = symbol("heddle_debugger")
        if start is None:
            raise gdb.GdbError("no heddle_debugger: this program does not run on heddle's threads")
        for index, name in enumerate(WORDS):
            setattr(self, name, word(start + 8 * index))
        if self.version != VERSION:
            raise gdb.GdbError("this heddle.py is for another version of heddle's runtime")
        self.classes = [word(start + 8 * (len(WORDS) + n)) for n in range(CLASSES)]
        self.above, self.mask = word(self.above), word(self.mask)
        self.header = word(self.table)
        self.records = self.header + word(self.header + 24) if self.header else 0
        user = symbol("heddle_user_debugger")
        self.distance, self.start, self.name = (
            [word(user + 8 * n) for n in range(3)] if user else (0, 0, 0))

    def text(self, text_id):
        """A text of the public table."""
        if not self.header or text_id == 0:
            return ""
        start = self.header + word(self.header + 32) + 8 * text_id
        return (read(start + 4, min(word(start, 4), 1024)) or b"").decode(errors="replace")

    def role(self, role):
        """A role of the public table."""
        place = self.header + word(self.header + 48) + 4 * role
        return self.text(word(place, 4)) if self.header and role else ""

    def threads(self):
        """The threads of the process, those in pools left out."""
        slab, made = word(self.slab), word(self.slots_made, 4)
        blocks = read(slab, made * self.control_bytes) if slab else None
        for slot in range(made if blocks else 0):
            control = blocks[slot * self.control_bytes:(slot + 1) * self.control_bytes]
            references = control[self.control_references:self.control_references + 4]
            if control[self.control_kind] and number(references):
                yield Thread(self, slot, slab + slot * self.control_bytes, control)


class Thread:
    """A thread, from its control block and, where that can be read, its record."""

    def __init__(self, layout, slot, address, control):
        def at(offset, count=8):
            return number(control[offset:offset + count])

        self.layout, self.slot, self.address = layout, slot, address
        self.context = [at(8 * n) for n in range(4)]
        self.kind = at(layout.control_kind, 1)
        self.wait = at(layout.control_wait, 1)
        self.other = at(layout.control_prev)
        self.deadline = at(layout.control_deadline)
        low, flags = at(layout.control_stack), at(layout.control_flags, 1)
        self.stack = (low, low + layout.classes[flags >> CLASS_SHIFT & CLASS_MASK])
        self.pthread = self.find_pthread(flags)
        worker = at(layout.control_worker)
        self.tid = self.worker = None
        is_current = worker and word(worker + layout.worker_current) == address
        if worker:
            self.worker = word(worker + layout.worker_index, 4)
        if is_current:
            self.tid = word(worker + layout.worker_tid, 4)
        record = read(layout.records + 64 * slot, 64) if layout.records else None
        # In a core file the place may show another file, or nothing.
        self.record = record if record and record[15] == self.kind else None

    def find_pthread(self, flags):
        """Address of what the library of unmodified programs knows of the thread."""
        layout = self.layout
        if not layout.name or not flags & OWN_TLS:
            return 0
        highest = self.stack[1] - self.slot % layout.colours * layout.line - layout.above
        return word(((highest & layout.mask) + layout.distance) % 2**64)

    def field(self, offset, count):
        """A field of the record; None if there is no record."""
        return number(self.record[offset:offset + count]) if self.record else None

    def state(self):
        """A word for what the thread does."""
        if self.kind == KERNEL_THREAD:
            return "-"
        if self.tid is not None:
            return "running"
        if self.context[1] == self.layout.trampoline:
            return "new"
        state = self.field(14, 1)
        if state is None:
            return "parked" if self.wait else "ready"
        # Its worker has written this last; who wakes a full thread may have been faster.
        return STATES.get(state, "?")

    def waits_for(self):
        """What it waits for, if it does."""
        if self.state() not in ("parked", "EV_WAIT"):
            return ""
        text = WAITS.get(self.wait, "its waker")
        if self.wait == ADDRESS:
            layout = self.layout
            chunk = word(layout.chunks + 8 * (self.slot // layout.chunk_nodes))
            node = chunk + self.slot % layout.chunk_nodes * layout.node_bytes
            address = word(node + layout.node_address)
            text = "address %#x" % address
            if function(address) != "%#x" % address:
                text += " (%s)" % function(address)
        elif self.wait == JOIN:
            slab = word(self.layout.slab)
            text = "the end of slot %d" % ((self.other - slab) // self.layout.control_bytes)
        return text + (", with a time limit" if self.deadline else "")

    def name(self):
        """The name as pthread_getname_np gives it, else that of the builder."""
        if self.pthread:
            name = read(self.pthread + self.layout.name, 16) or b""
            return name.split(b"\0")[0].decode(errors="replace")
        return self.layout.text(self.field(60, 4) or 0)

    def start(self):
        """The start function of a thread of an unmodified program."""
        if not self.pthread:
            return ""
        return function(word(self.pthread + self.layout.start))

    def role(self):
        """What it is for."""
        role = self.layout.role(self.field(22, 2) or 0)
        # Where the program could not tell, gdb knows static functions, too.
        return role if role and "+0x" not in role else self.start() or role

    def title(self):
        """One line: which thread, what it does."""
        parts = [KINDS[self.kind], self.state()]
        if self.tid is not None:
            parts.append("LWP %d" % self.tid)
        if self.waits_for():
            parts.append("waits for " + self.waits_for())
        return "thread %d \"%s\" (%s): %s" % (
            self.slot, self.name(), self.role(), ", ".join(parts))

    def kernel_thread(self):
        """The kernel thread that runs it, as gdb knows it."""
        tid = self.field(8, 4) if self.kind == KERNEL_THREAD else self.tid
        for each in gdb.selected_inferior().threads():
            if tid and each.ptid[1] == tid:
                return each
        return None


class FrameId:
    """What gdb tells a frame by."""

    def __init__(self, sp, pc):
        self.sp, self.pc = sp, pc


class Elsewhere(gdb.unwinder.Unwinder):
    """Says that the innermost frame of a kernel thread was called by a thread that does not run."""

    def __init__(self):
        super().__init__("heddle")
        self.target = None
        # The thread's innermost frame: those before it are the kernel thread's.
        self.first = 1

    def show(self, thread):
        """From now on the frames behind the innermost one are that thread's; None: its own."""
        self.target = None
        gdb.invalidate_cached_frames()
        if thread is None:
            return
        names = registers()
        frame = gdb.newest_frame()
        self.first = 1
        while frame.type() == gdb.INLINE_FRAME:
            self.first += 1
            frame = frame.older()
        here = [int(frame.read_register(name)) for name in names[:2]]
        self.target = (names, here, thread.context)
        gdb.invalidate_cached_frames()

    def __call__(self, pending):
        if self.target is None:
            return None
        names, here, context = self.target
        if [int(pending.read_register(name)) for name in names[:2]] != here:
            return None
        integer = gdb.selected_inferior().architecture().integer_type(64, False)
        # A frame that is inner to the thread's, as gdb asks for.
        sp, pc = gdb.Value(context[0] - 16).cast(integer), gdb.Value(here[1]).cast(integer)
        info = pending.create_unwind_info(FrameId(sp, pc))
        for name, value in zip(names, context):
            info.add_saved_register(name, gdb.Value(value).cast(integer))
        return info


def registers():
    """Names of the four registers that a context keeps."""
    name = gdb.selected_inferior().architecture().name()
    return REGISTERS["aarch64" if name.startswith("aarch64") else "x86"]


def frames_of(thread):
    """The lines of the backtrace of a thread that does not run, its innermost frame first."""
    ELSEWHERE.show(thread)
    try:
        text = gdb.execute("backtrace %d" % FRAMES_MAX, to_string=True)
    finally:
        ELSEWHERE.show(None)
    first = re.search(r"^#%d " % ELSEWHERE.first, text, re.M)
    if first is None:
        return "no frames\n"
    text, less = text[first.start():], ELSEWHERE.first
    return re.sub(r"^#(\d+) *", lambda it: "#%-3d" % (int(it.group(1)) - less), text, flags=re.M)


def backtrace(thread):
    """Prints the backtrace of a thread, whatever it does."""
    print(thread.title())
    running = thread.kernel_thread()
    if running is not None:
        selected = gdb.selected_thread()
        running.switch()
        try:
            gdb.execute("backtrace %d" % FRAMES_MAX)
        finally:
            selected.switch()
    elif thread.kind == KERNEL_THREAD:
        print("a kernel thread: see `info threads`")
    elif thread.state() == "new":
        print("not started yet")
    elif thread.context[0] == 0:
        print("its worker is about to switch")
    else:
        print(frames_of(thread), end="")


def thread_in(slot):
    """The thread in a slot, which the user has typed."""
    for thread in Layout().threads():
        if str(thread.slot) == slot:
            return thread
    raise gdb.GdbError("slot %s holds no thread" % slot)


class Heddle(gdb.Command):
    """heddle's threads: see `help heddle threads`, `help heddle bt`, `help heddle thread`."""

    def __init__(self):
        super().__init__("heddle", gdb.COMMAND_STACK, gdb.COMPLETE_NONE, True)


class Threads(gdb.Command):
    """heddle threads: slot, kind, state, worker, name, role and wait of every thread."""

    def __init__(self):
        super().__init__("heddle threads", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        form = "%8s %-14s %-9s %6s %-16s %-24s %s"
        print(form % ("slot", "kind", "state", "worker", "name", "role", "waits for"))
        for it in Layout().threads():
            worker = "-" if it.worker is None else it.worker
            print((form % (it.slot, KINDS[it.kind], it.state(), worker, it.name(), it.role(),
                           it.waits_for())).rstrip())


class Backtrace(gdb.Command):
    """heddle bt SLOT, heddle bt all: the backtrace of a thread, or of all threads."""

    def __init__(self):
        super().__init__("heddle bt", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        wanted = gdb.string_to_argv(argument)
        if len(wanted) != 1:
            raise gdb.GdbError("usage: heddle bt SLOT, or heddle bt all")
        if wanted != ["all"]:
            return backtrace(thread_in(wanted[0]))
        for thread in Layout().threads():
            backtrace(thread)
            print()


class Select(gdb.Command):
    """heddle thread SLOT: selects the frames of that thread; without SLOT: the kernel thread's."""

    def __init__(self):
        super().__init__("heddle thread", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        wanted = gdb.string_to_argv(argument)
        if not wanted:
            return ELSEWHERE.show(None)
        thread = thread_in(wanted[0])
        running = thread.kernel_thread()
        if running is not None:
            ELSEWHERE.show(None)
            running.switch()
        elif thread.state() in ("new", "-") or thread.context[0] == 0:
            raise gdb.GdbError("slot %s has no frames" % wanted[0])
        else:
            ELSEWHERE.show(thread)
            gdb.execute("frame %d" % ELSEWHERE.first)


def used_stack(thread):
    """First address of a thread's stack that it may use, its guard page left out, and the end."""
    low, high = thread.stack
    if thread.kind not in (LIGHT, FULL) or low == 0:
        return high, high
    low += PAGE
    if thread.tid is None and low <= thread.context[0] < high:
        low = max(low, (thread.context[0] - RED_ZONE_BYTES) // PAGE * PAGE)
    return low, high


class Core:
    """A core file with room for what gcore could not read."""

    def __init__(self, path):
        self.file = open(path, "r+b")
        head = self.file.read(64)
        if head[:5] != b"\x7fELF\x02":
            raise gdb.GdbError("%s is no core file of 64 bits" % path)
        start, = struct.unpack_from("<Q", head, 32)
        size, count = struct.unpack_from("<HH", head, 54)
        # Of a file with more segments than the header can count, the first section has the number.
        if count == 0xFFFF:
            self.file.seek(struct.unpack_from("<Q", head, 40)[0] + 44)
            count, = struct.unpack("<I", self.file.read(4))
        self.file.seek(start)
        table = self.file.read(size * count)
        heads = [struct.unpack_from("<IIQQQQ", table, n * size) for n in range(count)]
        self.loads = [(it[3], it[3] + it[5], it[2]) for it in heads if it[0] == PT_LOAD]

    def put(self, address, data):
        """Writes what lies at an address, if the file has a place for it."""
        for low, high, offset in self.loads:
            if low <= address and address + len(data) <= high:
                self.file.seek(offset + address - low)
                self.file.write(data)
                return len(data)
        return 0

    def put_stack(self, low, high):
        """Writes a stack but for its pages of zeros, which are there; how many bytes it took."""
        taken = 0
        for at in range(low, high, PIECE_BYTES):
            piece = read(at, min(PIECE_BYTES, high - at))
            if piece and piece.count(0) != len(piece):
                taken += self.put(at, piece)
        return taken


class Gcore(gdb.Command):
    """heddle gcore FILE: as gcore, and the stacks of all threads are in the file."""

    def __init__(self):
        super().__init__("heddle gcore", gdb.COMMAND_FILES, gdb.COMPLETE_FILENAME)

    def invoke(self, argument, from_tty):
        wanted = gdb.string_to_argv(argument)
        if len(wanted) != 1:
            raise gdb.GdbError("usage: heddle gcore FILE")
        layout = Layout()
        gdb.execute("gcore %s" % wanted[0], to_string=True)
        core = Core(os.path.expanduser(wanted[0]))
        threads = [it for it in layout.threads() if it.kind in (LIGHT, FULL)]
        taken = sum(core.put_stack(*used_stack(it)) for it in threads)
        core.file.close()
        print("%s has %d threads, with %d KiB of stacks" % (
            wanted[0], len(threads), taken // 1024))


# The signal that preempts full threads is none of the user's business.
gdb.execute("handle SIGURG nostop noprint pass", to_string=True)
ELSEWHERE = Elsewhere()
gdb.unwinder.register_unwinder(None, ELSEWHERE, replace=True)
Heddle()
Threads()
Backtrace()
Select()
Gcore()
