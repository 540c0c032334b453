# SPDX-License-Identifier: GPL-2.0-only
# Equal dominant shares of a memory-heavy and a CPU-heavy task, in full. The rows go to docs/results.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
publish dominant
