// SPDX-License-Identifier: GPL-2.0-only
//! What the loop measures groups with, and slows them down with.

use drfq_policy::drf::{Class, GroupId};
use drfq_stats::sample::TaskSample;

/// Counts of what was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Levels or paces set.
    pub writes: u64,
    /// Groups moved to another class.
    pub moves: u64,
    /// Operations that failed, vanished groups excepted.
    pub errors: u64,
}

/// A way to measure groups and to slow them down. Its rates are of all domains, in one order.
/// Dropping it ends all throttling.
pub trait Throttle {
    /// A period begins: the next rates are of the time since the last call.
    fn begin(&mut self) {}

    /// Classes that can be used.
    fn nr_classes(&self) -> usize;

    /// The most entities that can be monitored at once.
    fn room(&self) -> usize;

    /// Starts to monitor an entity. Returns whether it could.
    fn monitor(&mut self, id: GroupId) -> bool;

    /// Ends monitoring.
    fn forget(&mut self, id: GroupId);

    /// Puts threads into an entity's group. Threads that it starts later follow by
    /// themselves. Returns how many belong to another program's group.
    fn place(&mut self, id: GroupId, tids: &[u32]) -> u64;

    /// Moves each of `tasks` that is in a wrong group. The loop calls it once it has placed all
    /// entities. A task that a member started may have gone elsewhere, and a move may have failed.
    fn settle(&mut self, _tasks: &[TaskSample]) {}

    /// Looks for what other programs changed underneath, so that the next calls restore it. Returns
    /// the entities that are no longer monitored.
    fn audit(&mut self) -> Vec<GroupId> {
        Vec::new()
    }

    /// Why nothing may be throttled at the moment, in a few words; none: it may.
    fn hindrance(&self) -> Option<String> {
        None
    }

    /// Ends all throttling until the next `apply`.
    fn release(&mut self) {}

    /// What an entity moved since the last call, by domain (bytes per second); 0 where
    /// it is not known.
    fn traffic(&mut self, id: GroupId) -> Vec<f64>;

    /// Traffic of all tasks without a group, by domain (bytes per second). The loop calls it once it
    /// knows the traffic of all entities.
    fn rest(&mut self) -> Vec<f64>;

    /// What throttled entities would move besides, by domain (bytes per second); empty: that is
    /// not known.
    fn withheld(&self) -> Vec<f64> {
        Vec::new()
    }

    /// Whether the tasks of an entity wait for a pace.
    fn is_paced(&self, _id: GroupId) -> bool {
        false
    }

    /// What an entity moved since it is monitored (bytes).
    fn bytes(&self, id: GroupId) -> u64;

    /// Moves groups to their classes, and sets the levels of a slot.
    fn apply(&mut self, classes: &[Class], slot: usize);

    /// Groups of `classes` that are not in their class after `apply`, because it could not be made.
    fn unplaced(&self, _classes: &[Class]) -> Vec<GroupId> {
        Vec::new()
    }

    /// What was done.
    fn counts(&self) -> Counts;

    /// The last failure.
    fn failure(&self) -> Option<&str>;

    /// Notes a failure.
    fn fail(&mut self, reason: String);
}
