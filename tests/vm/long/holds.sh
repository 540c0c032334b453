# SPDX-License-Identifier: GPL-2.0-only
# Delayed wake-up ends when V arrives, when the task is alone, and at the bound; in full. The rows go to docs/results.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
publish holds
