# SPDX-License-Identifier: GPL-2.0-only
"""The memory for a board of gem5's standard library: DRAM of any kind behind controllers that serve by virtual time."""

from gem5.components.memory.memory import ChanneledMemory
from m5.objects import DrfqDeviceOwners, DrfqMemCtrl, DrfqPciRegisters, DrfqRegisters, LPDDR2_S4_1066_1x32

GIB = 1 << 30
PCI_SLOT = 5  # on X86Board's bus; its south bridge has slot 4


class ThesisDram(LPDDR2_S4_1066_1x32):
    """The DRAM of the thesis' table 5.1, with its two queues of 128 entries."""

    read_buffer_size = 128
    write_buffer_size = 128


class DrfqMemory(ChanneledMemory):
    """Takes what ChanneledMemory takes, and parameters for its controllers.

    On X86Board and ArmBoard the registers are a PCI function. On a board without an I/O bus, such as SimpleBoard,
    they are at `registers_at`, by default right above the memory, and `self.registers` has get() and set().
    """

    def __init__(
        self, dram=ThesisDram, channels=1, interleaving=64, size=None, registers_at=None, **controller_parameters
    ):
        self._controller_parameters = controller_parameters
        self._registers_at = registers_at
        self._device_owners = None
        super().__init__(dram, channels, interleaving, size=size)

    def _create_mem_interfaces_controller(self):
        # What the base class calls: it makes controllers of gem5's own class.
        self._dram = [self._dram_class(addr_mapping=self._addr_mapping) for _ in range(self._num_channels)]
        self.mem_ctrl = [DrfqMemCtrl(dram=dram, **self._controller_parameters) for dram in self._dram]

    def label_devices(self, devices, at, owners=()):
        """Charges what gem5's devices send to the hardware ids in their registers, of which the first is at `at`.

        Call it after the board was made, and give an address that its I/O bus gets. owners: the first ids.
        """
        self._device_owners = DrfqDeviceOwners(devices=devices, owners=list(owners), pio_addr=at)
        self.device_owners = self._device_owners
        for controller in self.mem_ctrl:
            controller.device_owners = self._device_owners

    def get_device_owners(self):
        """For the I/O cache of a cache hierarchy; None if label_devices() was not called."""
        return self._device_owners

    def incorporate_memory(self, board):
        super().incorporate_memory(board)
        if board.get_cache_hierarchy() is None or board.get_cache_hierarchy().is_ruby():
            raise ValueError("the registers need a bus, and Ruby drops the owners of requests: take classic caches")
        for controller in self.mem_ctrl:
            controller.cores = board.get_processor().get_num_cores()
        if self._device_owners is not None:
            on_io = board.has_io_bus()
            self._device_owners.pio = (
                board.get_io_bus().mem_side_ports if on_io else board.get_cache_hierarchy().get_mem_side_port()
            )
        if hasattr(board, "realview"):
            self._attach_to_arm(board)
        elif hasattr(board, "pc"):
            self._attach_to_x86(board)
        elif not board.has_io_bus():
            self._attach_to_membus(board)
        else:
            raise ValueError(f"no place is known for the registers on a {type(board).__name__}")

    def _attach_to_arm(self, board):
        # The board makes it a child.
        board._add_pci_device(DrfqPciRegisters(controllers=self.mem_ctrl))

    def _attach_to_x86(self, board):
        if self.get_size() != 3 * GIB:
            # A kernel puts the function right above the memory. The board's bridge forwards from 3 GiB on.
            raise ValueError("the registers' PCI function needs a memory of 3 GiB on this board")
        # The board counts the MiB above the memory as memory, so an I/O cache would claim the function's addresses.
        board.mem_ranges = self.get_uninterleaved_range()
        self.registers = DrfqPciRegisters(
            controllers=self.mem_ctrl, host=board.pc.pci_host, pci_bus=0, pci_dev=PCI_SLOT, pci_func=0
        )
        self.registers.pio = board.get_io_bus().mem_side_ports
        self.registers.dma = board.get_io_bus().cpu_side_ports

    def _attach_to_membus(self, board):
        at = self._registers_at
        if at is None:
            at = max(int(r.end) for r in self.get_uninterleaved_range())
        self.registers = DrfqRegisters(controllers=self.mem_ctrl, pio_addr=at)
        self.registers.pio = board.get_cache_hierarchy().get_mem_side_port()
