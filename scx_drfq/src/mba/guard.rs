// SPDX-License-Identifier: GPL-2.0-only
//! Access to resctrl, and a child process that cleans up however the agent ends.
//!
//! The child is started before the agent drops its privileges. It waits for the end
//! of the agent, then removes the groups of scx_drfq and unmounts resctrl if the agent
//! mounted it and no other program has changed it since. Only then it keeps CAP_SYS_ADMIN.
//! The agent itself needs no capability for resctrl. Its files and directories belong
//! to root, as does the agent. The directories are read-only even for their owner,
//! who may change that: while the agent runs, they are writable. Agent and child hold a lock, so
//! that no second process takes over their groups.

use std::{
    ffi::{CStr, CString},
    fs::{self, Permissions},
    io::{self, ErrorKind, PipeReader, PipeWriter, Read},
    mem::MaybeUninit,
    os::{
        fd::AsRawFd,
        unix::{ffi::OsStrExt, fs::PermissionsExt},
    },
    path::{Path, PathBuf},
    time::Duration,
};

use drfq_resctrl::{
    fs::{KernelFs, ResctrlFs},
    groups::{Groups, PREFIX},
    mount::Mount,
    schemata::Schemata,
};

use super::{ids::groups_in, lock::Lock};
use crate::{open_files, realtime};

/// The directories in which we make groups, relative to the mount point.
const DIRECTORIES: [&str; 2] = ["", "mon_groups"];

/// The mode bit that marks a directory that we made writable. If SIGKILL ends the agent and
/// the child, the next ones know what to restore. It is the sticky bit, which changes
/// nothing for root.
const MARK: u32 = 0o1000;

/// Lets the owner of a directory write to it.
const WRITABLE: u32 = 0o200;

/// How long the child of an earlier agent may take to clean up.
const PATIENCE: Duration = Duration::from_secs(10);

/// Where resctrl is usually mounted.
const POINT: &CStr = c"/sys/fs/resctrl";

/// resctrl, and the process that cleans up after us.
pub struct Guard {
    /// Where resctrl is mounted.
    pub point: PathBuf,
    /// Mount option `mba_MBps`: a loop in the kernel moves the levels.
    pub kernel_moves_levels: bool,
    child: libc::pid_t,
    modes: Modes,
    /// Its end tells the child to clean up.
    pipe: Option<PipeWriter>,
    /// The child has it, too, until it has cleaned up.
    _lock: Lock,
}

/// resctrl as it was when we mounted it.
struct Mounted {
    /// Values of the default group.
    schemata: Schemata,
    /// Of the mount.
    id: Option<u64>,
}

impl Guard {
    /// Mounts resctrl if it is not mounted, and starts the child. Call it while the
    /// process has a single thread and all privileges.
    ///
    /// # Errors
    /// Why resctrl cannot be used, in a few words.
    pub fn open(root: &Path) -> Result<Self, String> {
        // What can fail without a trace comes first.
        let Some(lock) = Lock::take(root, PATIENCE)? else {
            return Err(
                "another process of scx_drfq uses it; try again when that has ended".into(),
            );
        };
        let (reader, writer) =
            io::pipe().map_err(|error| format!("cannot make a pipe: {error}"))?;
        let (mount, before) = match Mount::find(root) {
            Some(mount) => (mount, None),
            None => {
                mount_resctrl().map_err(|error| match error.raw_os_error() {
                    Some(libc::ENODEV | libc::ENOENT | libc::EOPNOTSUPP) => {
                        "this machine or its kernel has no resctrl".to_owned()
                    }
                    _ => format!("cannot mount resctrl: {error}"),
                })?;
                let Some(mount) = Mount::find(root) else {
                    unmount();
                    return Err("resctrl vanished after it was mounted".into());
                };
                let values = fs::read_to_string(mount.point.join("schemata"));
                // A machine that only monitors has no such file.
                let schemata = Schemata::parse(&values.unwrap_or_default());
                let id = mount_id(&mount.point);
                (mount, Some(Mounted { schemata, id }))
            }
        };
        let modes = make_writable(&mount.point).inspect_err(|_| {
            if before.is_some() {
                unmount();
            }
        })?;
        // SAFETY: the process has one thread, so that the child may do anything.
        let child = unsafe { libc::fork() };
        match child {
            -1 => {
                let error = io::Error::last_os_error();
                restore(&modes);
                if before.is_some() {
                    unmount();
                }
                Err(format!("cannot start a process: {error}"))
            }
            0 => {
                drop(writer);
                open_files::close_inherited(&[reader.as_raw_fd(), lock.descriptor()]);
                realtime::forbid();
                clean_after_agent(reader, &mount.point, &modes, before.as_ref())
            }
            _ => Ok(Self {
                kernel_moves_levels: mount.has("mba_MBps"),
                point: mount.point,
                child,
                modes,
                pipe: Some(writer),
                _lock: lock,
            }),
        }
    }
}

/// Removes the groups that a killed agent and its killed child have left, unless another process
/// owns them. Call it with all privileges where no [`Guard`] is opened. Else their tasks would stay
/// throttled.
///
/// # Errors
/// Why they remain, in a few words.
pub fn clean_left(root: &Path) -> Result<(), String> {
    let Some(mount) = Mount::find(root) else {
        return Ok(());
    };
    let files = KernelFs::open(&mount.point).map_err(|error| error.to_string())?;
    if !has_left(&files) && !has_mark(&mount.point) {
        return Ok(());
    }
    let Some(_lock) = Lock::take(root, Duration::ZERO)? else {
        return Ok(());
    };
    let modes = make_writable(&mount.point)?;
    // The owner removes groups when it comes.
    let cleaned = Groups::open(files).map(drop);
    restore(&modes);
    cleaned.map_err(|error| error.to_string())
}

/// Whether there are groups of ours, or may be.
fn has_left(files: &impl ResctrlFs) -> bool {
    let ours = |names: Vec<String>| names.iter().any(|name| name.starts_with(PREFIX));
    DIRECTORIES
        .iter()
        .any(|path| groups_in(files, path).map_or(true, ours))
}

impl Guard {
    /// The process that cleans up.
    pub fn cleaner(&self) -> u32 {
        self.child as u32
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.pipe.take());
        let mut status = 0;
        // SAFETY: the child is ours, and no other thread waits for it.
        let ended = unsafe { libc::waitpid(self.child, &raw mut status, 0) };
        if ended != self.child || status != 0 {
            // It was killed. Only an owner's right is needed.
            restore(&self.modes);
        }
    }
}

/// Runs in the child, until the agent has ended and all is clean. `before`: resctrl when we mounted
/// it; none: another program did.
fn clean_after_agent(
    mut reader: PipeReader,
    point: &Path,
    modes: &Modes,
    before: Option<&Mounted>,
) -> ! {
    // SAFETY: neither call touches memory. The agent's end is the only signal.
    unsafe {
        libc::setsid();
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
            libc::signal(signal, libc::SIG_IGN);
        }
        libc::prctl(libc::PR_SET_NAME, c"drfq-cleaner".as_ptr());
    }
    let _ = crate::privileges::confine_cleaner(before.is_some());
    // No byte ever comes; the pipe ends with the agent.
    let _ = reader.read(&mut [0]);
    let mut unmounts = false;
    if let Ok(files) = KernelFs::open(point) {
        // The owner removes groups when it comes and when it goes.
        drop(Groups::open(files.clone()));
        unmounts = before.is_some_and(|before| {
            before.id == mount_id(point) && is_untouched(&files, &before.schemata)
        });
    }
    restore(modes);
    if unmounts {
        unmount();
    }
    // SAFETY: ends the process without the parent's destructors.
    unsafe { libc::_exit(0) }
}

/// Whether unmounting destroys nothing of another program: there is no group, and the default one
/// has the values that it had. CPUs that came or went meanwhile change neither.
fn is_untouched(files: &impl ResctrlFs, before: &Schemata) -> bool {
    // A machine that only monitors has no such file.
    let values = match files.read("schemata") {
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        Err(_) => return false,
        Ok(values) => values,
    };
    let empty = |path| groups_in(files, path).is_ok_and(|found| found.is_empty());
    let same = Schemata::parse(&values).changes(before).is_none();
    empty("") && empty("mon_groups") && same
}

/// A number that no other mount has had since the boot. `None`: the kernel tells none, as before 6.8,
/// or nothing is there.
fn mount_id(point: &Path) -> Option<u64> {
    // linux/stat.h; the libc crate lacks it.
    const STATX_MNT_ID_UNIQUE: libc::c_uint = 0x4000;
    let point = CString::new(point.as_os_str().as_bytes()).ok()?;
    let mut found = MaybeUninit::<libc::statx>::zeroed();
    // SAFETY: the string ends in NUL, and the kernel fills the structure.
    let failed = unsafe {
        libc::statx(
            libc::AT_FDCWD,
            point.as_ptr(),
            0,
            STATX_MNT_ID_UNIQUE,
            found.as_mut_ptr(),
        )
    };
    // SAFETY: all bits zero are a value of the structure, too.
    let found = unsafe { found.assume_init() };
    (failed == 0 && found.stx_mask & STATX_MNT_ID_UNIQUE != 0).then_some(found.stx_mnt_id)
}

/// Whether an agent has made one of our directories writable and none has restored it.
fn has_mark(point: &Path) -> bool {
    DIRECTORIES.iter().any(|name| is_marked(&point.join(name)))
}

fn is_marked(directory: &Path) -> bool {
    fs::metadata(directory).is_ok_and(|found| found.permissions().mode() & MARK != 0)
}

/// Directories and the permissions that they had.
type Modes = Vec<(PathBuf, Permissions)>;

/// Lets the owner make groups. Returns what to restore.
fn make_writable(point: &Path) -> Result<Modes, String> {
    let mut modes = Modes::new();
    for directory in DIRECTORIES.map(|name| point.join(name)) {
        // A machine that only allocates has no mon_groups.
        let Ok(metadata) = fs::metadata(&directory) else {
            continue;
        };
        let found = metadata.permissions().mode();
        let before = match found & MARK {
            0 => found,
            _ => found & !(MARK | WRITABLE),
        };
        if before & WRITABLE != 0 {
            continue;
        }
        let writable = Permissions::from_mode(before | WRITABLE | MARK);
        if let Err(error) = fs::set_permissions(&directory, writable) {
            restore(&modes);
            return Err(format!(
                "cannot make {} writable: {error}",
                directory.display()
            ));
        }
        modes.push((directory, Permissions::from_mode(before)));
    }
    Ok(modes)
}

/// Does what [`Guard::open`] did, if another program has mounted resctrl anew since.
pub fn keep_writable(point: &Path) {
    // The directory stays when resctrl is unmounted.
    if KernelFs::open(point).is_ok() {
        // A failure shows when a group is made.
        let _ = make_writable(point);
    }
}

/// Whether a child process has ended. It can still be waited for.
pub fn has_ended(child: u32) -> bool {
    let mut found = MaybeUninit::<libc::siginfo_t>::zeroed();
    let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: the kernel fills the structure. It stays zero while the child runs.
    let failed = unsafe { libc::waitid(libc::P_PID, child, found.as_mut_ptr(), options) };
    // SAFETY: all bits zero are a value of the structure, and waitid() sets the field.
    failed != 0 || unsafe { found.assume_init().si_pid() } != 0
}

/// Restores directories that bear the mark. Another program has changed or mounted the others.
fn restore(modes: &Modes) {
    for (directory, before) in modes {
        if is_marked(directory) {
            let _ = fs::set_permissions(directory, before.clone());
        }
    }
}

fn mount_resctrl() -> io::Result<()> {
    let name = c"resctrl".as_ptr();
    // SAFETY: all strings end in NUL; resctrl takes no data.
    let refused = unsafe { libc::mount(name, POINT.as_ptr(), name, 0, std::ptr::null()) };
    if refused == 0 {
        return Ok(());
    }
    Err(io::Error::last_os_error())
}

fn unmount() {
    // SAFETY: the string ends in NUL. A file in use keeps the mount, which is harmless.
    unsafe { libc::umount2(POINT.as_ptr(), 0) };
}

#[cfg(test)]
mod tests {
    use drfq_resctrl::fake::{FakeKernel, Shape};

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    /// A mount point whose directories have this mode.
    fn point_of_mode(mode: u32) -> (tempfile::TempDir, PathBuf) {
        let point = tempfile::tempdir().unwrap();
        let groups = point.path().join("mon_groups");
        fs::create_dir(&groups).unwrap();
        for directory in [groups.as_path(), point.path()] {
            fs::set_permissions(directory, Permissions::from_mode(mode)).unwrap();
        }
        (point, groups)
    }

    /// Lets the directory be removed.
    fn end(point: &tempfile::TempDir) {
        fs::set_permissions(point.path(), Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn directories_are_writable_while_the_agent_runs_and_as_before_afterwards() {
        let (point, groups) = point_of_mode(0o555);
        let modes = make_writable(point.path()).unwrap();
        assert_eq!((mode(point.path()), mode(&groups)), (0o1755, 0o1755));
        restore(&modes);
        assert_eq!((mode(point.path()), mode(&groups)), (0o555, 0o555));
        end(&point);
    }

    #[test]
    fn after_a_killed_agent_and_child_the_next_one_restores_the_first_modes() {
        let (point, groups) = point_of_mode(0o555);
        make_writable(point.path()).unwrap();
        assert!(has_mark(point.path()));
        restore(&make_writable(point.path()).unwrap());
        assert!(!has_mark(point.path()));
        assert_eq!((mode(point.path()), mode(&groups)), (0o555, 0o555));
        end(&point);
    }

    #[test]
    fn directories_that_are_writable_already_stay_as_they_are() {
        let (point, groups) = point_of_mode(0o755);
        let modes = make_writable(point.path()).unwrap();
        assert_eq!((mode(point.path()), mode(&groups)), (0o755, 0o755));
        restore(&modes);
        assert_eq!((mode(point.path()), mode(&groups)), (0o755, 0o755));
    }

    #[test]
    fn what_another_program_mounted_or_changed_since_keeps_its_modes() {
        let (point, groups) = point_of_mode(0o555);
        let modes = make_writable(point.path()).unwrap();
        fs::set_permissions(&groups, Permissions::from_mode(0o750)).unwrap();
        restore(&modes);
        assert_eq!((mode(point.path()), mode(&groups)), (0o555, 0o750));
        // No resctrl is mounted here.
        keep_writable(point.path());
        assert_eq!(mode(point.path()), 0o555);
        end(&point);
    }

    #[test]
    fn the_end_of_a_process_is_noticed_before_it_is_waited_for() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        assert!(!has_ended(child.id()));
        child.kill().unwrap();
        while !has_ended(child.id()) {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(has_ended(child.id()));
        child.wait().unwrap();
        assert!(has_ended(child.id()));
    }

    #[test]
    fn groups_of_ours_are_found_wherever_a_killed_agent_left_them() {
        for (group, left) in [
            ("theirs", false),
            ("mon_groups/theirs", false),
            ("drfq_c0", true),
            ("mon_groups/drfq_g0", true),
        ] {
            let kernel = FakeKernel::new(Shape::default());
            assert!(!has_left(&kernel));
            kernel.mkdir(group).unwrap();
            assert_eq!(has_left(&kernel), left, "{group}");
        }
        let kernel = FakeKernel::new(Shape::default());
        kernel.fail("list", "mon_groups", libc::EIO);
        assert!(has_left(&kernel));
        assert_eq!(clean_left(Path::new("/nonexistent")), Ok(()));
    }

    #[test]
    fn groups_and_values_of_another_program_keep_resctrl_mounted() {
        type Act = fn(&FakeKernel) -> io::Result<()>;
        let cases: [(Act, bool); 6] = [
            (|_| Ok(()), true),
            (|kernel| kernel.mkdir("theirs"), false),
            (|kernel| kernel.mkdir("mon_groups/theirs"), false),
            (|kernel| kernel.mkdir("drfq_c0/mon_groups/theirs"), false),
            (|kernel| kernel.write("schemata", "MB:1=50\n"), false),
            (|kernel| kernel.write("schemata", "L3:0=ff\n"), false),
        ];
        for (number, (act, untouched)) in cases.into_iter().enumerate() {
            let kernel = FakeKernel::new(Shape::default());
            let before = Schemata::parse(&kernel.read("schemata").unwrap());
            kernel.mkdir("drfq_c0").unwrap();
            act(&kernel).unwrap();
            drop(Groups::open(&kernel));
            assert_eq!(is_untouched(&kernel, &before), untouched, "case {number}");
        }
        // A domain went offline since.
        let kernel = FakeKernel::new(Shape::default());
        let before = Schemata::parse("MB:0=100;1=100;2=100\nL3:0=7ff;1=7ff;2=7ff\n");
        assert!(is_untouched(&kernel, &before));
    }

    #[test]
    fn each_mount_has_a_number_of_its_own() {
        let [proc, again, sys] =
            ["/proc", "/proc/self", "/sys"].map(|path| mount_id(Path::new(path)));
        assert_eq!(proc, again);
        assert!(proc != sys || proc.is_none());
        assert_eq!(mount_id(Path::new("/nonexistent")), None);
    }

    #[test]
    fn what_cannot_be_read_keeps_resctrl_mounted() {
        for (operation, path) in [("list", ""), ("list", "mon_groups"), ("read", "schemata")] {
            let kernel = FakeKernel::new(Shape::default());
            let before = Schemata::parse(&kernel.read("schemata").unwrap());
            assert!(is_untouched(&kernel, &before));
            kernel.fail(operation, path, libc::EIO);
            assert!(!is_untouched(&kernel, &before), "{operation} {path}");
        }
    }

    #[test]
    fn a_machine_without_monitoring_has_one_directory() {
        let (point, groups) = point_of_mode(0o555);
        end(&point);
        fs::remove_dir(groups).unwrap();
        fs::set_permissions(point.path(), Permissions::from_mode(0o555)).unwrap();
        assert_eq!(make_writable(point.path()).unwrap().len(), 1);
    }
}
