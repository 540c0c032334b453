# SPDX-License-Identifier: GPL-2.0-only
"""The harness' part of modelled machines: descriptions and the names of machines."""

import pathlib
import tempfile
import unittest

from harness import model
from harness import shape as vm_shape
from harness.common import VmError

# Words of the size and of both speeds in SMBIOS type 17, and the extended fields: offset and bytes.
_EXTENDED = {0x0C: 2, 0x15: 2, 0x20: 2, 0x1C: 4, 0x54: 4, 0x58: 4}


def described(text: str) -> model.MachineModel:
    """The machine of a description."""
    with tempfile.TemporaryDirectory() as directory:
        file = pathlib.Path(directory) / "m.toml"
        file.write_text(text, encoding="utf-8")
        return model.read(str(file))


class Descriptions(unittest.TestCase):
    def refused(self, text: str) -> str:
        with self.assertRaises(VmError) as caught:
            described(text)
        return str(caught.exception)

    def test_every_machine_that_comes_along_has_cores(self):
        self.assertIn("thesis", model.names())
        for name in model.names():
            self.assertGreater(model.read(name).cores, 0)

    def test_an_unknown_name_tells_the_known_ones(self):
        with self.assertRaisesRegex(VmError, "thesis.*or give a file"):
            model.read("nothing")

    def test_a_missing_file_is_named_in_the_error(self):
        with self.assertRaisesRegex(VmError, "no such file"):
            model.read("/nothing.toml")

    def test_bad_text_is_told_with_its_line(self):
        self.assertIn("line 2", self.refused("[cpu]\ncores = = 2\n"))

    def test_text_that_python_cannot_take_is_refused(self):
        for value in ("9" * 5000, "[" * 10_000):
            self.assertIn("m.toml: ", self.refused(f"[memory]\nx = {value}\n"))

    def test_cores_must_be_a_number_in_range(self):
        for text in ("", "cpu = 3\n", '[cpu]\ncores = "4"\n', "[cpu]\ncores = 0\n", "[cpu]\ncores = true\n"):
            self.assertIn("cores must be a number from 1 to 64", self.refused(text))

    def test_a_scale_must_be_a_number_in_range(self):
        for text in ("0", "1001", "-1", "1.5", "true", '"2"'):
            self.assertIn("scale must be a number from 1 to 1000", self.refused(f"scale = {text}\n[cpu]\ncores = 4\n"))


class Firmware(unittest.TestCase):
    def test_the_memory_that_it_tells_has_the_models_speed(self):
        for name, width_bits, bytes_per_us in (("thesis", 32, 32e6 / 7500 / 15), ("xeon", 64, 19200 / 22)):
            device = model.memory_device(model.read(name), 2048)
            speed, width = (int.from_bytes(device[at : at + 2], "little") for at in (0x20, 0x0A))
            self.assertEqual(width, width_bits)
            self.assertAlmostEqual(speed * width / 8, bytes_per_us, delta=width / 8)
            self.assertTrue(device.endswith(b"\0\0"))

    def test_what_a_description_leaves_out_or_replaces_the_firmware_tells_too(self):
        plain = "[cpu]\nclock_mhz = 100\n[memory]\n"
        cases = (("", 32e6 / 7500), ("tBURST_ns = 15\n", 32e6 / 15000), ("burst_bytes = 64\n", 64e6 / 7500))
        for text, bytes_per_us in cases:
            machine = described(plain + text)
            self.assertEqual(machine.cores, 4)
            device = model.memory_device(machine, 2048)
            self.assertAlmostEqual(int.from_bytes(device[0x20:0x22], "little") * 4, bytes_per_us, delta=4)

    def test_values_that_the_plugin_refuses_are_left_to_it(self):
        for value in ("1e309", "9" * 400, "0", "-1", "nan", "5e-324", "true"):
            for key in ("burst_bytes", "tBURST_ns"):
                with self.subTest(key=key, value=value[:9]):
                    machine = described(f"[cpu]\nclock_mhz = 100\n[memory]\n{key} = {value}\n")
                    self.assertEqual(len(model.memory_device(machine, 2048)), 92 + len("DIMM A1 BANK 0  "))

    def test_a_speed_or_size_beyond_a_word_stands_in_the_extended_field(self):
        fast = described("[cpu]\nclock_mhz = 100\n[memory]\ntBURST_ns = 0.05\n")
        for machine, mib, speed in ((fast, 65536, 160_000), (model.read("thesis"), 512, 71)):
            device = model.memory_device(machine, mib)
            field = {at: int.from_bytes(device[at : at + size], "little") for at, size in _EXTENDED.items()}
            self.assertEqual(field[0x0C] if field[0x0C] != 0x7FFF else field[0x1C], mib)
            for word, long in ((0x15, 0x54), (0x20, 0x58)):
                self.assertEqual(field[word] if field[word] != 0xFFFF else field[long], speed)

    def test_a_size_beyond_the_extended_field_is_refused(self):
        device = model.memory_device(model.read("thesis"), 2**31 - 1)
        self.assertEqual(int.from_bytes(device[0x1C:0x20], "little"), 2**31 - 1)
        for mib in (2**31, 5_000_000 * 1024):
            with self.assertRaisesRegex(VmError, f"--memory {mib}M: .* at most 2147483647M"):
                model.memory_device(model.read("thesis"), mib)

    def test_memory_without_a_preset_is_not_told(self):
        self.assertIsNone(model.memory_device(model.MachineModel(pathlib.Path("/m.toml"), 4), 2048))


class Options(unittest.TestCase):
    def test_commas_of_paths_are_doubled_for_qemu(self):
        with tempfile.TemporaryDirectory() as directory:
            one = model.MachineModel(pathlib.Path("/a,b.toml"), 4)
            words = model.qemu_options(one, 3, 2048, pathlib.Path(directory), None, 100)
        self.assertIn("machine=/a,,b.toml", words[1])
        self.assertNotIn("stats=", words[1])

    def test_the_controller_s_file_is_as_large_as_the_device(self):
        with tempfile.TemporaryDirectory() as directory:
            model.qemu_options(
                model.MachineModel(pathlib.Path("/m.toml"), 4), 3, 2048, pathlib.Path(directory), None, 100
            )
            self.assertEqual((pathlib.Path(directory) / "controller").stat().st_size, model.CONTROLLER_BYTES)

    def test_a_description_with_storage_adds_the_disk_s_function(self):
        with tempfile.TemporaryDirectory() as directory:
            control = pathlib.Path(directory)
            self.assertTrue(model.read("disk").has_storage)
            logs = pathlib.Path("/log"), pathlib.Path("/input")
            words = model.qemu_options(model.read("disk"), 3, 2048, control, None, 100, *logs)
            self.assertIn("vfio-user-pci", words[-1])
            self.assertIn(f"device={control}/device", words[1])
            self.assertIn("device_log=/log", words[1])
            self.assertIn("input_log=/input", words[1])
            self.assertNotIn(
                "vfio-user-pci", " ".join(model.qemu_options(model.read("thesis"), 3, 2048, control, None, 100))
            )

    def test_a_modelled_machine_has_no_clock_but_the_plugin_s(self):
        options = vm_shape.qemu_options(vm_shape.Shape("k", modelled=True))
        self.assertIn("hpet=off", options)


if __name__ == "__main__":
    unittest.main()
