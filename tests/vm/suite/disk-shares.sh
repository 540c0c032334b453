# SPDX-License-Identifier: GPL-2.0-only
# A weight of memory holds between a task that copies and one that reads a disk. The short form of
# long/storage-shares.sh.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
share_with_a_disk 1:2
