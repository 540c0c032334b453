# SPDX-License-Identifier: GPL-2.0-only
"""How the charges for traffic of disks are judged."""

import contextlib
import importlib
import io
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tests/vm"))
storage = importlib.import_module("storage")
raid = importlib.import_module("raid")

BYTES = 1_000_000


def right(path, wrong=0, unowned=0):
    """Judges a write of so many bytes that were charged to another task, and to none."""
    # It is on top of what was written.
    written = [BYTES - wrong - unowned]
    row = {"path": path, "writers": written, "charged": written, "others": wrong, "ended": 0}
    row |= {"dma_ended_bytes": 0, "dma_unattributed_bytes": unowned}
    with contextlib.redirect_stdout(io.StringIO()):
        return storage.judge_buffered(row, BYTES)[0]


class BufferedWrites(unittest.TestCase):
    def test_each_byte_is_the_writers_where_no_file_system_is(self):
        for path in ("the disk itself, flusher", "dm-crypt, fsync"):
            self.assertTrue(right(path))
            self.assertFalse(right(path, wrong=1))
            self.assertFalse(right(path, unowned=1))

    def test_a_file_may_lack_what_the_file_system_writes(self):
        self.assertTrue(right("file, fsync", wrong=3000, unowned=4000))
        self.assertFalse(right("file, fsync", wrong=3001))
        self.assertFalse(right("file, fsync", unowned=4001))

    def test_a_byte_in_no_book_fails(self):
        row = {"path": "file, fsync", "writers": [BYTES], "charged": [BYTES], "others": 0, "ended": 0}
        row |= {"dma_ended_bytes": 0, "dma_unattributed_bytes": 0}
        with contextlib.redirect_stdout(io.StringIO()):
            self.assertFalse(storage.judge_buffered(row, BYTES + 1)[0])


class Arrays(unittest.TestCase):
    def test_md_owns_its_superblocks_and_no_more(self):
        self.assertTrue(raid.right("raid1", "direct write", 0, 0.15))
        self.assertFalse(raid.right("raid1", "direct write", 0, 0.16))
        self.assertFalse(raid.right("raid1", "direct write", 0.01, 0))

    def test_writes_of_raid5_need_an_owner_too(self):
        self.assertTrue(raid.right("raid5", "direct write", 0, 0.15))
        self.assertFalse(raid.right("raid5", "direct write", 0, 0.16))
        self.assertFalse(raid.right("raid5", "direct write", 0.01, 0))

    def test_buffered_writes_that_are_done_later_may_lack_pages(self):
        self.assertTrue(raid.right("raid1, write-behind", "buffered write, fsync", 0.75, 0.75))
        self.assertFalse(raid.right("raid1, write-behind", "buffered write, fsync", 0.76, 0))
        self.assertFalse(raid.right("raid1, write-behind", "direct write", 0.01, 0))


if __name__ == "__main__":
    unittest.main()
