// SPDX-License-Identifier: GPL-2.0-only
//! The groups of a task: `/proc/TID/cpu_resctrl_groups`.

/// The groups that a task is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskGroups {
    /// The CTRL group's name; empty for the default group.
    pub ctrl: String,
    /// The MON group's name; empty for none.
    pub mon: String,
}

impl TaskGroups {
    /// Parses the file. `None`: resctrl is not mounted, or the text is not known.
    pub fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let ctrl = lines.next()?.strip_prefix("res:")?;
        let mon = lines.next()?.strip_prefix("mon:")?;
        // The default group is "/"; an empty name means that resctrl is not mounted.
        let ctrl = match ctrl {
            "" => return None,
            "/" => "",
            name => name,
        };
        Some(Self {
            ctrl: ctrl.into(),
            mon: mon.into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_of_the_kernel_is_read() {
        let groups = |ctrl: &str, mon: &str| {
            Some(TaskGroups {
                ctrl: ctrl.into(),
                mon: mon.into(),
            })
        };
        assert_eq!(TaskGroups::parse("res:/\nmon:\n"), groups("", ""));
        assert_eq!(TaskGroups::parse("res:/\nmon:m 0\n"), groups("", "m 0"));
        assert_eq!(TaskGroups::parse("res:g\nmon:\n"), groups("g", ""));
        assert_eq!(TaskGroups::parse("res:g\nmon:m\n"), groups("g", "m"));
        for text in ["res:\nmon:\n", "", "res:/\n", "mon:\nres:/\n"] {
            assert_eq!(TaskGroups::parse(text), None, "{text:?}");
        }
    }
}
