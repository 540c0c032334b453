# SPDX-License-Identifier: GPL-2.0-only
# The scheduler survives 12 s of stress-ng on the newest kernel. The long form runs 10 min on both kernels.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
stress_for 12 newest
