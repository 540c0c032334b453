# SPDX-License-Identifier: GPL-2.0-only
"""The machine's shape, the command's words and its environment."""

import subprocess
import unittest

from harness import run
from harness import shape as vm_shape
from harness.common import VmError


class Shape(unittest.TestCase):
    def test_one_socket_for_each_last_level_cache(self):
        self.assertEqual(vm_shape.smp(vm_shape.Shape("k", cpus=4, llcs=2)), "4,sockets=2,cores=2,threads=1")

    def test_two_threads_per_core(self):
        self.assertEqual(vm_shape.smp(vm_shape.Shape("k", cpus=8, llcs=2, smt=True)), "8,sockets=2,cores=2,threads=2")

    def test_a_split_that_does_not_come_out_even_is_refused(self):
        for odd in (vm_shape.Shape("k", cpus=3, llcs=2), vm_shape.Shape("k", cpus=3, smt=True)):
            with self.assertRaisesRegex(VmError, "--cpus 3 cannot be split"):
                vm_shape.smp(odd)

    def test_memory_sizes_are_read_with_their_unit_and_others_refused(self):
        self.assertEqual([vm_shape.memory_mib(t) for t in ("512", "512M", "2G", "2g")], [512, 512, 2048, 2048])
        for text in ("", "0", "0G", "-1", "1T", "1.5G", "x"):
            with self.assertRaises(ValueError, msg=text):
                vm_shape.memory_mib(text)

    def test_icount_is_asked_of_qemu_only_when_chosen(self):
        self.assertNotIn("-icount", vm_shape.qemu_options(vm_shape.Shape("k")))
        options = vm_shape.qemu_options(vm_shape.Shape("k", icount_shift=3))
        self.assertEqual(options[options.index("-icount") + 1], "shift=3,sleep=off")

    def test_a_comma_in_a_disk_path_is_doubled(self):
        self.assertIn(
            "if=none,id=disk0,format=raw,file=/a,,b", vm_shape.qemu_options(vm_shape.Shape("k", disks=("/a,b",)))
        )

    def test_paths_that_the_guest_hides(self):
        self.assertTrue(vm_shape.hidden("/dev/shm/x"))
        self.assertTrue(vm_shape.hidden("/run"))
        self.assertFalse(vm_shape.hidden("/runner"))
        self.assertFalse(vm_shape.hidden("/tmp/x"))


class Words(unittest.TestCase):
    def test_bash_reads_back_exactly_what_was_written(self):
        words = ["a b", "it's", '"q"', "$HOME `id` \\ *", "two\nlines\n", "", "é", "-n", "\udcff"]
        script = "mapfile -d '' -t words; printf '%s\\0' \"${words[@]}\""
        result = subprocess.run(["bash", "-c", script], input=run.encode_words(words), capture_output=True, check=True)
        self.assertEqual(result.stdout, run.encode_words(words))


class Environment(unittest.TestCase):
    def environment(self, extra=(), **host):
        return dict(word.split("=", 1) for word in run.environment("/out", list(extra), host))

    def test_only_the_project_s_variables_and_the_asked_for_ones_are_passed(self):
        seen = self.environment(["SECOND", "THIRD=3=3"], DRFQ_X="1", FIRST="1", SECOND="2", PATH="/p")
        self.assertEqual((seen["DRFQ_X"], seen["SECOND"], seen["THIRD"]), ("1", "2", "3=3"))
        self.assertEqual(seen["PATH"], "/p:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
        self.assertNotIn("FIRST", seen)

    def test_the_output_directory_is_the_run_s_own(self):
        self.assertEqual(self.environment(DRFQ_VM_OUT="/other")["DRFQ_VM_OUT"], "/out")

    def test_an_unset_variable_stays_unset(self):
        self.assertNotIn("NOT_THERE", self.environment(["NOT_THERE"]))


if __name__ == "__main__":
    unittest.main()
