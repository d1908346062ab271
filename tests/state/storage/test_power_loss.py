"""A loss of power takes what was not flushed to the disk, and nothing else."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from redraft.state import open_checkpointer

if TYPE_CHECKING:
    from pathlib import Path

# Notes how long each file was when it was last flushed, in a file beside it.
FLUSHES = """
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static int flush(int fd, long call) {
  char link[64], name[4096];
  struct stat now;
  int failed = syscall(call, fd);
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, name, sizeof name - 16);
  if (!failed && length > 0 && !fstat(fd, &now)) {
    snprintf(name + length, 16, ".flushed");
    int note = open(name, O_CREAT | O_WRONLY | O_TRUNC, 0600);
    if (note >= 0) { dprintf(note, "%ld", (long)now.st_size); close(note); }
  }
  return failed;
}
int fsync(int fd) { return flush(fd, SYS_fsync); }
int fdatasync(int fd) { return flush(fd, SYS_fdatasync); }
"""
RUN = """
import os, signal, sys
from redraft.graphs.loop import build_refine_graph
from redraft.models import ScriptedModel
from redraft.state import open_checkpointer

db, synchronous = sys.argv[1:]
saver = open_checkpointer(db, synchronous=synchronous).open()
graph = build_refine_graph(ScriptedModel(["a lamp", "no issues"]), checkpointer=saver)
out = graph.invoke({"task": "Write."}, {"configurable": {"thread_id": "lamp"}}, durability="sync")
assert out["stop_reason"] == "accepted"
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.one_of_each
@pytest.mark.skipif(sys.platform != "linux" or not shutil.which("cc"), reason="needs Linux and a C compiler")
@pytest.mark.parametrize(("synchronous", "kept"), [("full", ["accepted"]), ("normal", [])])
def test_what_was_saved_is_there_after_a_loss_of_power(synchronous: str, kept: list[str], tmp_path: Path) -> None:
    """With `synchronous="full"`, the default, a finished run is on the disk; `"normal"` leaves that to the system."""
    source, library, db = tmp_path / "flushes.c", tmp_path / "flushes.so", tmp_path / "runs.sqlite"
    source.write_text(FLUSHES)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    env = {**os.environ, "LD_PRELOAD": str(library)}
    run = subprocess.run([sys.executable, "-c", RUN, db, synchronous], env=env, check=False)
    assert run.returncode == -signal.SIGKILL

    log, flushed = tmp_path / "runs.sqlite-wal", tmp_path / "runs.sqlite-wal.flushed"
    os.truncate(log, int(flushed.read_text()) if flushed.exists() else 0)
    with open_checkpointer(db) as saver:
        assert [row.stop_reason for row in saver.runs.list()] == kept
