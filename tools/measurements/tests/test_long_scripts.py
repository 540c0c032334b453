# SPDX-License-Identifier: GPL-2.0-only
"""What the scripts of tests/vm/long take over from earlier runs, and which commit they name. Every program is a FAKE
one.
"""

import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
SCRIPTS = ("bandwidth", "bandwidth-phases", "missed", "storage-charge", "storage-shares", "victims")
ALL = (*SCRIPTS, "suspend")
GIT = "git -c user.name=t -c user.email=t@example.org -c commit.gpgsign=false"

# A commit comes while the VM runs.
VM = f"#!/bin/sh\necho vm >> log\n[ -z $COMMITS ] || {GIT} commit -q --allow-empty -m x\n"
# A program that judges tells its arguments, and whether an earlier run's rows are still there.
JUDGE = """#!/bin/sh
case "$*" in *limits*) echo chase:1 && exit ;; esac
[ ! -e out/rows.csv ] || echo old rows >> log
echo "$*" >> log
"""


class LongScripts(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = Path(directory.name)
        for name in ("lib.sh", *(f"long/{name}.sh" for name in ALL)):
            self.file(f"tests/vm/{name}", (ROOT / "tests/vm" / name).read_text("utf-8"))
        shutil.copytree(ROOT / "vm/machines", self.root / "vm/machines")
        self.file("vm/vm", VM)
        for name in ("fake/python3", "tests/vm/bandwidth_shares"):
            self.file(name, JUDGE)
        for name in ("tools/peers", "tools/results", "fake/mbw", "fake/mkfs.ext4"):
            self.file(name, "#!/bin/sh\n")
        self.file(".gitignore", "log\nout\n")
        self.git("init -q")
        self.git("add -A")
        self.git("commit -qm x")

    def file(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        path.chmod(0o755)

    def git(self, words):
        command = [*GIT.split(), *words.split()]
        return subprocess.run(command, cwd=self.root, check=True, capture_output=True, text=True).stdout.strip()

    def run_script(self, name, **environment):
        """The log of a run, line by line."""
        (self.root / "out").mkdir(exist_ok=True)
        (self.root / "log").unlink(missing_ok=True)
        own = {
            "PATH": f"{self.root / 'fake'}:{os.environ['PATH']}",
            "DRFQ_TEST_OUT": "out",
            "DRFQ_CACHE": str(self.root / "out/cache"),
            "DRFQ_PROFILE": "release",
        }
        others = {key: value for key, value in os.environ.items() if not key.startswith("DRFQ_")}
        command = ["bash", f"tests/vm/long/{name}.sh"]
        subprocess.run(command, cwd=self.root, env=others | own | environment, check=True, capture_output=True)
        return (self.root / "log").read_text("utf-8").splitlines()

    def test_rows_name_the_commit_before_the_first_vm_and_earlier_rows_are_gone(self):
        for name in SCRIPTS:
            with self.subTest(name):
                commit = self.git("rev-parse --short HEAD")
                self.file("out/rows.csv", "old\n")
                log = self.run_script(name, COMMITS="yes")
                self.assertIn("vm", log)
                self.assertNotIn("old rows", log)
                self.assertIn(commit, log[-1].split())

    def test_the_caller_s_commit_is_named_if_it_has_built(self):
        log = self.run_script("missed", DRFQ_COMMIT="0123456", DRFQ_CHANGES="")
        self.assertIn("0123456", log[-1].split())

    def test_a_boot_is_repeated_only_with_another_tree_or_other_cases(self):
        def boots(**environment):
            return self.run_script("victims", **environment).count("vm")

        self.assertEqual([boots(), boots()], [4, 0])
        self.assertEqual([boots(DRFQ_RUNS="5"), boots(DRFQ_RUNS="5")], [4, 0])
        # The boot with a limit has the cases that the fake program tells.
        self.assertEqual(boots(DRFQ_RUNS="5", DRFQ_CASES="lbm:2"), 3)
        self.file("tests/vm/long/missed.sh", "# changed\n")
        self.assertEqual([boots(), boots()], [4, 0])
        self.git("commit -qam x")
        self.assertEqual([boots(), boots()], [4, 0])

    def test_a_vm_that_says_nothing_fails_whatever_an_earlier_one_said(self):
        for kernel in ("oldest", "newest"):
            self.file(f"out/{kernel}.txt", "ok\n")
        with self.assertRaises(subprocess.CalledProcessError):
            self.run_script("suspend")
        # This one writes to the file of the option --qemu-option=file:NAME.
        self.file("vm/vm", '#!/bin/sh\necho "$*" | sed "s/.*=file:\\([^ ]*\\).*/echo ok > \\1/" | sh\n: > log\n')
        self.run_script("suspend")


if __name__ == "__main__":
    unittest.main()
