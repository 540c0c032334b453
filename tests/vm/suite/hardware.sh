# SPDX-License-Identifier: GPL-2.0-only
# resctrl and perf of the modelled machine agree with the truth of the simulation (short form).
exec tests/hardware/run
