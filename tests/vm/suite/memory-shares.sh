# SPDX-License-Identifier: GPL-2.0-only
# Weights of memory hold between two mbw on four CPUs; the short form of long/set-one.sh.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
share_between_mbw switch alone=1 1:2=1
