# SPDX-License-Identifier: GPL-2.0-only
# The scheduler and the weights outlast a suspend, on both kernels. The clock counts instructions.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
for kernel in oldest newest; do
	said=$out/$kernel.txt
	# A VM that does not start writes nothing.
	rm -f "$said"
	# The guest ends the VM, which leaves no exit status.
	vm --kernel "$kernel" --cpus 2 --clock icount --icount-shift 4 --qemu-option=-serial \
		"--qemu-option=file:$said" -- bash tests/vm/guest/suspend.sh "$bin/scx_drfq" "$bin/drfq-load" || :
	cat "$said"
	[[ $(tail -n 1 "$said") = ok* ]] || fail "no verdict of the VM with kernel $kernel"
done
