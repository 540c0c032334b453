// SPDX-License-Identifier: GPL-2.0-only
//! Rules that hold although several CPUs act at the same time.

use drfq_sim::races::wrong_group_sums;

#[test]
fn groups_that_two_cpus_change_at_once_keep_their_sums() {
    assert_eq!(wrong_group_sums(300_000), 0);
}
