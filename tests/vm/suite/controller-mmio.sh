# SPDX-License-Identifier: GPL-2.0-only
# The agent drives the memory controller of the modelled machine through its PCI registers.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
vm --machine thesis -- python3 -B tests/vm/guest/controller-mmio.py "$bin/scx_drfq"
