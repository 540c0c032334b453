# SPDX-License-Identifier: GPL-2.0-only
# The demonstration of ./justw run on a terminal: both schedulers, every key, and traffic against the machine's account.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
python3 -B tests/vm/demo.py "$bin/drfq-demo" "$out" --vm vm/vm --machine vm/machines/lvtf.toml -- \
	--scheduler "$bin/scx_drfq" --load "$bin/drfq-load" -- --memory-bandwidth 266M --controller mmio:auto \
	--controller-interval-us 10000
