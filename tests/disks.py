"""Small, read-only and locked disks for tests: real mounts where the tests may make them, else a skip."""

import subprocess
import sys
from contextlib import contextmanager

import pytest


@contextmanager
def small_disk(folder, size="1m"):
    """Mount a small file system on a folder; yields it, and what makes it read-only."""
    folder.mkdir(exist_ok=True)
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], capture_output=True)
    if made.returncode:
        pytest.skip("no right to mount a file system here")
    try:
        yield folder, lambda: subprocess.run(["mount", "-o", "remount,ro", folder], check=True)
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


@contextmanager
def child(code, *arguments):
    """Run Python in a process of its own that prints a line when it is ready, and ends when its input does."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    one = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert one.stdout.readline()
        yield one
    finally:
        one.stdin.close()
        one.wait(10)
        one.stdout.close()


HOLDER = """
import sqlite3, sys
held = sqlite3.connect(sys.argv[1], isolation_level=None)
held.execute(sys.argv[2])
print("held", flush=True)
sys.stdin.read()
"""


def locked(path, how="BEGIN IMMEDIATE"):
    """Hold a ledger's write lock in another process, for as long as the context is open."""
    return child(HOLDER, path, how)
