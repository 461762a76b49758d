"""Clocks and memory of this process with all its children, from /proc."""

import contextlib
import os
import signal
import time

_TICK = os.sysconf("SC_CLK_TCK")


def _stats():
    """pid -> (parent, CPU seconds, those of its dead children included)."""
    found = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat") as f:
                # A program's name may hold spaces and brackets; the numbers follow the last one.
                words = f.read().rpartition(")")[2].split()
        except OSError:
            continue
        found[int(name)] = int(words[1]), sum(map(int, words[11:15])) / _TICK
    return found


def _tree(stats):
    mine = {os.getpid()}
    grown = True
    while grown:
        more = {pid for pid, (parent, _) in stats.items() if parent in mine} | mine
        grown, mine = len(more) > len(mine), more
    return mine


def cpu_seconds():
    stats = _stats()
    return sum(stats[pid][1] for pid in _tree(stats) if pid in stats)


def memory_bytes():
    """Memory in proportion to who shares it (PSS)."""
    total = 0
    for pid in _tree(_stats()):
        try:
            with open(f"/proc/{pid}/smaps_rollup") as f:
                total += next(int(line.split()[1]) for line in f if line.startswith("Pss:")) * 1024
        except (OSError, StopIteration):
            continue
    return total


def end_children():
    """Ends what this process has started: loaders that are broken off leave workers."""
    for pid in _tree(_stats()) - {os.getpid()}:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)


class Watch:
    """Wall-clock and CPU time since it was made."""

    def __init__(self):
        self.wall, self.cpu = time.perf_counter(), cpu_seconds()

    def elapsed(self):
        return time.perf_counter() - self.wall

    def answer(self, images):
        """What a turn answers after so many images."""
        return {"samples": images, "seconds": self.elapsed(), "cpu_seconds": cpu_seconds() - self.cpu}
