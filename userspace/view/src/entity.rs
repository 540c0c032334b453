// SPDX-License-Identifier: GPL-2.0-only
//! What a view lists: tasks, processes and cgroups, and the words for them.

use std::fmt;

use drfq_stats::{mba_report::MbaGroup, report::Task};

use crate::snapshot::Snapshot;

/// A task, a process or a cgroup.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Entity {
    /// A thread id.
    Task(u32),
    /// A process id.
    Process(u32),
    /// A path in the cgroup hierarchy, which begins with `/`.
    Cgroup(String),
}

impl fmt::Display for Entity {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Task(pid) => write!(f, "task {pid}"),
            Self::Process(pid) => write!(f, "process {pid}"),
            Self::Cgroup(path) => write!(f, "cgroup {path}"),
        }
    }
}

impl Entity {
    /// Whether the entity is this task or holds it. Kernel threads are in `/` only.
    pub fn holds(&self, task: &Task, snapshot: &Snapshot) -> bool {
        match self {
            Self::Task(pid) => task.pid == *pid,
            Self::Process(pid) => task.tgid == *pid,
            Self::Cgroup(path) => within(cgroup_of(task, snapshot), path),
        }
    }

    /// The tasks of the entity.
    pub fn tasks<'a>(&'a self, snapshot: &'a Snapshot) -> impl Iterator<Item = &'a Task> {
        // A task is found once; the heaviest come first.
        let most = match self {
            Self::Task(_) => 1,
            _ => usize::MAX,
        };
        let tasks = snapshot.report.tasks.iter();
        tasks.filter(|task| self.holds(task, snapshot)).take(most)
    }

    /// The group that shares memory bandwidth and holds the entity or is in it.
    pub fn group<'a>(&self, snapshot: &'a Snapshot) -> Option<&'a MbaGroup> {
        let groups = &snapshot.report.system.mba.groups;
        let named = |id: u32, name: &str| name.rsplit(' ').next() == Some(&*id.to_string());
        groups.iter().find(|group| match self {
            Self::Cgroup(path) => group.name == *path || (path != "/" && within(&group.name, path)),
            Self::Task(pid) | Self::Process(pid) => {
                if group.name.starts_with('/') {
                    self.tasks(snapshot)
                        .next()
                        .is_some_and(|task| within(cgroup_of(task, snapshot), &group.name))
                } else {
                    named(*pid, &group.name)
                        || self
                            .tasks(snapshot)
                            .next()
                            .is_some_and(|task| named(task.tgid, &group.name))
                }
            }
        })
    }
}

/// The cgroup of a task; `/` if it is unknown or the task is the kernel's.
pub fn cgroup_of<'a>(task: &Task, snapshot: &'a Snapshot) -> &'a str {
    match snapshot.processes.get(&task.tgid) {
        Some(process) if !process.cgroup.is_empty() => &process.cgroup,
        _ => "/",
    }
}

/// The entity that a user names: a process or thread id, the path of a cgroup, or the name
/// of a unit or container.
///
/// # Errors
/// Nothing has this name, or more than one cgroup.
pub fn find(text: &str, snapshot: &Snapshot) -> Result<Entity, String> {
    if let Ok(id) = text.parse() {
        let tasks = &snapshot.report.tasks;
        return if tasks.iter().any(|task| task.tgid == id) {
            Ok(Entity::Process(id))
        } else {
            Ok(Entity::Task(id))
        };
    }
    let path = text.strip_prefix("/sys/fs/cgroup").unwrap_or(text);
    if path.is_empty() || path == "/" {
        return Ok(Entity::Cgroup("/".into()));
    }
    let path = path.trim_end_matches('/');
    if path.starts_with('/') {
        let known = snapshot.cgroups.contains_key(path);
        return known.then(|| Entity::Cgroup(path.into())).ok_or(format!(
            "no task of this scheduler is in the cgroup {path}; scx_drfq top shows the tree (key 3)"
        ));
    }
    let matches =
        |known: &&String| known.rsplit('/').next() == Some(path) || unit_name(known) == path;
    let found: Vec<&String> = snapshot.cgroups.keys().filter(matches).collect();
    match found[..] {
        [path] => Ok(Entity::Cgroup(path.clone())),
        [] => Err(format!(
            "{text}: neither an id nor a cgroup with a task; give a process id, a path such as \
             /system.slice/nginx.service, or the name of its last level"
        )),
        _ => Err(format!(
            "{text}: {} cgroups have this name; give the path of one, such as {}",
            found.len(),
            found[0]
        )),
    }
}

/// Whether a path is `parent` or below it.
pub fn within(path: &str, parent: &str) -> bool {
    parent == "/"
        || path
            .strip_prefix(parent)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The path and its parents, from the top down, without `/`.
pub fn levels(path: &str) -> impl Iterator<Item = &str> {
    let ends = path.match_indices('/').skip(1).map(|(at, _)| at);
    let ends = ends.chain(std::iter::once(path.len()));
    ends.map(move |end| &path[..end])
        .filter(|path| path.len() > 1)
}

/// The name of the last level of a cgroup's path, as its users know it: a systemd unit or a
/// container.
pub fn unit_name(path: &str) -> String {
    let last = path.rsplit('/').next().unwrap_or(path);
    let plain = unescape(last);
    let stem = plain
        .strip_suffix(".scope")
        .or_else(|| plain.strip_suffix(".slice"));
    let stem = stem.unwrap_or(&plain);
    if let Some((runtime, id)) = stem.rsplit_once('-')
        && is_container_id(id)
    {
        let runtime = match runtime {
            "libpod" => "podman",
            "cri-containerd" => "containerd",
            "crio" => "cri-o",
            other => other,
        };
        return format!("{runtime} {}", &id[..12]);
    }
    if is_container_id(stem) {
        return format!("container {}", &stem[..12]);
    }
    if let Some((class, uid)) = stem.split_once("-pod")
        && class.starts_with("kubepods")
    {
        let class = class.strip_prefix("kubepods-").unwrap_or("guaranteed");
        return format!("pod {} ({class})", uid.replace('_', "-"));
    }
    if path == "/" { "/".into() } else { plain }
}

fn is_container_id(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// systemd writes `\x2d` for a dash within a name.
fn unescape(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("\\x") {
        let code = rest.get(at + 2..at + 4);
        let byte = code.and_then(|code| u8::from_str_radix(code, 16).ok());
        plain += &rest[..at];
        match byte {
            Some(byte) if byte.is_ascii_graphic() => {
                plain.push(byte.into());
                rest = &rest[at + 4..];
            }
            _ => {
                plain += "\\x";
                rest = &rest[at + 2..];
            }
        }
    }
    clean(&(plain + rest))
}

/// Text without control characters, which could move the cursor.
pub fn clean(text: &str) -> String {
    if text.bytes().all(|byte| (b' '..0x7f).contains(&byte)) {
        return text.to_owned();
    }
    text.replace(char::is_control, "?")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_and_containers_have_the_names_that_their_users_know() {
        let id = "0123456789abcdef".repeat(4);
        for (path, name) in [
            ("/", "/"),
            ("/system.slice/nginx.service", "nginx.service"),
            ("/system.slice/a\\x2db.service", "a-b.service"),
            ("/x\\xzz\\x", "x\\xzz\\x"),
            ("/system.slice/docker-ID.scope", "docker 0123456789ab"),
            ("/docker/ID", "container 0123456789ab"),
            ("/user.slice/libpod-ID.scope", "podman 0123456789ab"),
            ("/k/cri-containerd-ID.scope", "containerd 0123456789ab"),
            ("/kubepods-burstable-pod12_3.slice", "pod 12-3 (burstable)"),
            ("/kubepods-pod12_3.slice", "pod 12-3 (guaranteed)"),
            ("/evil\u{1b}[2J", "evil?[2J"),
        ] {
            assert_eq!(unit_name(&path.replace("ID", &id)), name, "{path}");
        }
    }

    #[test]
    fn a_user_names_an_entity_by_id_path_or_unit() {
        let mut snapshot = crate::fixture::noisy();
        let cgroup = |path: &str| Ok(Entity::Cgroup(path.to_owned()));
        let web = "/system.slice/web.service";
        assert_eq!(find("901", &snapshot), Ok(Entity::Process(901)));
        assert_eq!(find("902", &snapshot), Ok(Entity::Task(902)));
        assert_eq!(
            find("/sys/fs/cgroup/system.slice/", &snapshot),
            cgroup("/system.slice")
        );
        assert_eq!(find("web.service", &snapshot), cgroup(web));
        assert_eq!(find("/", &snapshot), cgroup("/"));
        assert!(find("container 4f1d6c0b9a7e", &snapshot).is_ok());
        for unknown in ["/nowhere", "nowhere"] {
            assert!(find(unknown, &snapshot).unwrap_err().contains("nowhere"));
        }
        let twin = snapshot.cgroups[web];
        snapshot
            .cgroups
            .insert("/user.slice/web.service".into(), twin);
        assert!(
            find("web.service", &snapshot)
                .unwrap_err()
                .contains("2 cgroups")
        );
    }

    #[test]
    fn a_path_is_within_its_parents_and_not_within_a_longer_name() {
        assert!(within("/a/b", "/a") && within("/a", "/a") && within("/a", "/"));
        assert!(!within("/ab", "/a") && !within("/a", "/a/b"));
        assert_eq!(levels("/a/b").collect::<Vec<_>>(), ["/a", "/a/b"]);
        assert_eq!(levels("/").count(), 0);
    }
}
