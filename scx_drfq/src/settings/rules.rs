// SPDX-License-Identifier: GPL-2.0-only
//! Rules that give weights and bounds of memory bandwidth to cgroups and commands.

use drfq_stats::interval::WEIGHT_ONE;

use crate::bandwidth::Bandwidth;

/// The smallest and the largest weight: cpu.weight 1 and 10000.
const WEIGHTS: std::ops::RangeInclusive<f64> = 0.01..=100.0;

/// A rule. The first that matches holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// What it is for.
    pub target: Target,
    /// w; 1 is nice 0 of a task and cpu.weight 100 of a cgroup. None: it keeps its own.
    pub weight: Option<f64>,
    /// What it moves.
    pub memory: Bounds,
}

/// Bounds of the traffic in a domain of memory bandwidth. The loop keeps them while it acts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// It gets at least this much where it wants it, whatever its weight.
    pub min: Option<Bandwidth>,
    /// It gets at most this much, even where memory is idle.
    pub max: Option<Bandwidth>,
}

/// What a rule is for. In a pattern, `*` stands for any characters and `?` for one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Cgroups, by their path below the mount point, which begins with `/`.
    Cgroup(String),
    /// Tasks, by their name (at most 15 bytes).
    Command(String),
}

impl Target {
    /// The target of a pattern.
    ///
    /// # Errors
    /// The pattern matches nothing; the reason.
    pub fn new(cgroup: bool, pattern: &str) -> Result<Self, String> {
        /// Bytes of a task's name that the kernel keeps.
        const NAME: usize = 15;
        let path = pattern.trim_end_matches('/');
        if cgroup {
            if !path.starts_with('/') {
                return Err(format!(
                    "cgroup {pattern:?} needs a path such as \"/system.slice/nginx.service\"; \
                     the root cgroup has no weight"
                ));
            }
            return Ok(Self::Cgroup(path.into()));
        }
        // `?` stands for at least one byte.
        let bytes = pattern.bytes().filter(|&byte| byte != b'*').count();
        if pattern.is_empty() || bytes > NAME {
            return Err(format!(
                "command {pattern:?} needs 1 to {NAME} bytes, which is what the kernel keeps of a \
                 name; end a longer one with *"
            ));
        }
        Ok(Self::Command(pattern.into()))
    }
}

impl Rule {
    /// A weight, if it is within the bounds.
    pub fn weight(number: f64) -> Option<f64> {
        WEIGHTS.contains(&number).then_some(number)
    }

    /// Whether it bounds memory bandwidth.
    pub fn bounds_memory(&self) -> bool {
        self.memory != Bounds::default()
    }

    /// The weight in the unit of the scheduler (1/WEIGHT_ONE).
    pub fn fixed_weight(&self) -> Option<u32> {
        self.weight.map(fixed)
    }
}

/// The rule for a task's name.
pub fn for_command<'a>(rules: &'a [Rule], name: &str) -> Option<&'a Rule> {
    let holds =
        |rule: &&Rule| matches!(&rule.target, Target::Command(pattern) if matches(pattern, name));
    rules.iter().find(holds)
}

/// The rule for a cgroup's path.
pub fn for_cgroup<'a>(rules: &'a [Rule], path: &str) -> Option<&'a Rule> {
    let holds =
        |rule: &&Rule| matches!(&rule.target, Target::Cgroup(pattern) if matches(pattern, path));
    rules.iter().find(holds)
}

/// A weight in the unit of the scheduler.
pub fn fixed(weight: f64) -> u32 {
    (weight * f64::from(WEIGHT_ONE)).round() as u32
}

/// Whether a pattern matches a whole text, in time of at most their product.
fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), text.chars().collect());
    let (mut p, mut t) = (0, 0);
    // After the last star, and where its text ends so far.
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some('*') => {
                p += 1;
                star = Some((p, t));
            }
            Some(&c) if c == '?' || c == text[t] => {
                p += 1;
                t += 1;
            }
            _ => match &mut star {
                Some((after, end)) => {
                    *end += 1;
                    (p, t) = (*after, *end);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|&c| c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_and_question_marks_stand_for_characters() {
        for (pattern, text, expected) in [
            ("mbw", "mbw", true),
            ("mbw", "mbw2", false),
            ("mbw*", "mbw", true),
            ("mbw*", "mbw2", true),
            ("*", "", true),
            ("m?w", "mbw", true),
            ("m?w", "mw", false),
            ("*.service", "/a/b.service", true),
            ("/a/*/c", "/a/b/b/c", true),
            ("/a/*/c", "/a/c", false),
            ("a*b*c", "a1b2b3c", true),
            ("a*b*c", "a1b2b3", false),
            ("", "", true),
            ("", "x", false),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn a_name_has_as_many_bytes_as_the_kernel_keeps() {
        for (pattern, expected) in [
            ("123456789012345", true),
            ("1234567890123456", false),
            ("*12345678901234?*", true),
            ("ööööööö", true),
            ("öööööööö", false),
        ] {
            assert_eq!(Target::new(false, pattern).is_ok(), expected, "{pattern}");
        }
    }

    #[test]
    fn many_stars_take_little_time() {
        let (pattern, text) = ("a*".repeat(500) + "b", "a".repeat(5000));
        assert!(!matches(&pattern, &text));
    }

    #[test]
    fn the_first_rule_that_matches_holds() {
        let rule = |cgroup, pattern, weight| Rule {
            target: Target::new(cgroup, pattern).unwrap(),
            weight,
            memory: Bounds::default(),
        };
        let rules = [
            rule(false, "mbw", Some(2.0)),
            rule(false, "m?w", None),
            rule(false, "m*", Some(0.5)),
            rule(true, "/a", Some(3.0)),
        ];
        let command = |name| for_command(&rules, name).map(Rule::fixed_weight);
        assert_eq!(command("mbw"), Some(Some(2 * WEIGHT_ONE)));
        // It keeps its own weight, as the first rule says.
        assert_eq!(command("mxw"), Some(None));
        assert_eq!(command("mbx"), Some(Some(WEIGHT_ONE / 2)));
        assert_eq!(command("/a"), None);
        let cgroup = |path| for_cgroup(&rules, path).map(Rule::fixed_weight);
        assert_eq!(cgroup("/a"), Some(Some(3 * WEIGHT_ONE)));
        assert_eq!(cgroup("/a/b"), None);
    }
}
