// SPDX-License-Identifier: GPL-2.0-only
//! The files of a mounted resctrl, behind a trait, so that tests can put a model of
//! the kernel in their place.

use std::{
    ffi::CString,
    fs,
    io::{self, Read, Write},
    mem::MaybeUninit,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

/// File system magic of resctrl: `RDTGROUP_SUPER_MAGIC` of linux/magic.h.
const MAGIC: u64 = 0x0765_5821;

/// No line of a counter is longer.
const LINE: usize = 64;

/// What this crate does with files. Paths are relative to resctrl's mount point and
/// use `/`. Errors are those of the system calls.
pub trait ResctrlFs {
    /// The content of a file. Bytes that are not UTF-8 become U+FFFD.
    ///
    /// # Errors
    /// Those of open(2) and read(2).
    fn read(&self, path: &str) -> io::Result<String>;

    /// The content of a file of one short line, as those of counters are.
    ///
    /// # Errors
    /// As [`ResctrlFs::read`].
    fn read_line(&self, path: &str) -> io::Result<String> {
        self.read(path)
    }

    /// Writes a text with a single write(2), which the kernel takes as one command.
    ///
    /// # Errors
    /// Those of open(2) and write(2).
    fn write(&self, path: &str, text: &str) -> io::Result<()>;

    /// Makes a group.
    ///
    /// # Errors
    /// Those of mkdir(2).
    fn mkdir(&self, path: &str) -> io::Result<()>;

    /// Removes a group, with the files in it.
    ///
    /// # Errors
    /// Those of rmdir(2).
    fn rmdir(&self, path: &str) -> io::Result<()>;

    /// Moves a group.
    ///
    /// # Errors
    /// Those of rename(2).
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Names of the directories in a directory, in any order.
    ///
    /// # Errors
    /// Those of opendir(3) and readdir(3).
    fn list(&self, path: &str) -> io::Result<Vec<String>>;

    /// The content of `/proc/TID/cpu_resctrl_groups`, which names a task's groups.
    ///
    /// # Errors
    /// Those of open(2) and read(2). A kernel without `CONFIG_PROC_CPU_RESCTRL` has no
    /// such file.
    fn task_groups(&self, tid: u32) -> io::Result<String>;
}

impl<T: ResctrlFs + ?Sized> ResctrlFs for &T {
    fn read(&self, path: &str) -> io::Result<String> {
        (**self).read(path)
    }
    fn read_line(&self, path: &str) -> io::Result<String> {
        (**self).read_line(path)
    }
    fn write(&self, path: &str, text: &str) -> io::Result<()> {
        (**self).write(path, text)
    }
    fn mkdir(&self, path: &str) -> io::Result<()> {
        (**self).mkdir(path)
    }
    fn rmdir(&self, path: &str) -> io::Result<()> {
        (**self).rmdir(path)
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        (**self).rename(from, to)
    }
    fn list(&self, path: &str) -> io::Result<Vec<String>> {
        (**self).list(path)
    }
    fn task_groups(&self, tid: u32) -> io::Result<String> {
        (**self).task_groups(tid)
    }
}

/// The kernel's resctrl. Its files belong to root, so a process with user id 0 may write
/// them. Directories have mode 0555, so groups are made, moved and removed with
/// `CAP_DAC_OVERRIDE` only. No other capability is needed.
#[derive(Clone, Debug)]
pub struct KernelFs {
    point: PathBuf,
    proc: PathBuf,
}

impl KernelFs {
    /// Opens the resctrl that is mounted at `point`.
    ///
    /// # Errors
    /// There is no resctrl at that place.
    pub fn open(point: &Path) -> io::Result<Self> {
        if magic(point)? != MAGIC {
            return Err(io::Error::new(
                io::ErrorKind::NotFound,
                format!("{} is no mounted resctrl", point.display()),
            ));
        }
        Ok(Self::at(point, Path::new("/proc")))
    }

    /// Takes any directory for resctrl and another for /proc.
    pub(crate) fn at(point: &Path, proc: &Path) -> Self {
        Self {
            point: point.to_owned(),
            proc: proc.to_owned(),
        }
    }
}

/// The magic of the file system that holds a path.
fn magic(path: &Path) -> io::Result<u64> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let mut found = MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: the path ends in NUL, and statfs() fills the structure if it returns 0.
    unsafe {
        if libc::statfs(path.as_ptr(), found.as_mut_ptr()) != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(found.assume_init().f_type as u64)
    }
}

/// A file's content as text.
fn text(path: &Path) -> io::Result<String> {
    fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

impl ResctrlFs for KernelFs {
    fn read(&self, path: &str) -> io::Result<String> {
        text(&self.point.join(path))
    }

    /// With three system calls, for the agent reads hundreds of counters ten times a second. It keeps
    /// none of them open: resctrl could not be unmounted then.
    fn read_line(&self, path: &str) -> io::Result<String> {
        let path = self.point.join(path);
        let mut line = [0; LINE];
        let length = fs::File::open(&path)?.read(&mut line)?;
        match &line[..length] {
            [content @ .., b'\n'] if !content.contains(&b'\n') => {
                Ok(String::from_utf8_lossy(&line[..length]).into_owned())
            }
            // It goes on, or is another file.
            _ => text(&path),
        }
    }

    fn write(&self, path: &str, content: &str) -> io::Result<()> {
        // No O_CREAT: an unmounted resctrl must not get files.
        let mut file = fs::OpenOptions::new()
            .write(true)
            .open(self.point.join(path))?;
        let written = file.write(content.as_bytes())?;
        if written == content.len() {
            return Ok(());
        }
        Err(io::ErrorKind::WriteZero.into())
    }

    fn mkdir(&self, path: &str) -> io::Result<()> {
        fs::create_dir(self.point.join(path))
    }

    fn rmdir(&self, path: &str) -> io::Result<()> {
        fs::remove_dir(self.point.join(path))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.point.join(from), self.point.join(to))
    }

    fn list(&self, path: &str) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(self.point.join(path))? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                names.push(entry.file_name().to_string_lossy().into_owned());
            }
        }
        Ok(names)
    }

    fn task_groups(&self, tid: u32) -> io::Result<String> {
        text(&self.proc.join(format!("{tid}/cpu_resctrl_groups")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_of_another_file_system_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let error = KernelFs::open(dir.path()).unwrap_err();
        assert!(error.to_string().contains("no mounted resctrl"), "{error}");
        let missing = KernelFs::open(&dir.path().join("none")).unwrap_err();
        assert_eq!(missing.raw_os_error(), Some(libc::ENOENT));
    }

    #[test]
    fn each_operation_acts_on_the_mount_point_only() {
        let dir = tempfile::tempdir().unwrap();
        let (point, proc) = (dir.path().join("resctrl"), dir.path().join("proc"));
        fs::create_dir_all(point.join("info")).unwrap();
        fs::create_dir_all(proc.join("7")).unwrap();
        fs::write(proc.join("7/cpu_resctrl_groups"), "res:/\nmon:\n").unwrap();
        fs::write(point.join("schemata"), b"MB:0=100\n\xff").unwrap();
        let kernel = KernelFs::at(&point, &proc);
        assert_eq!(kernel.read("schemata").unwrap(), "MB:0=100\n\u{fffd}");
        kernel.write("schemata", "MB:0=50\n").unwrap();
        assert!(kernel.read("schemata").unwrap().starts_with("MB:0=50\n"));
        assert!(kernel.write("none", "x").is_err());
        assert!(!point.join("none").exists());
        for content in [
            "123456\n",
            "Unavailable\n",
            "7",
            "",
            "1\n2\n",
            &"9".repeat(LINE + 1),
        ] {
            fs::write(point.join("count"), content).unwrap();
            assert_eq!(kernel.read_line("count").unwrap(), content);
        }
        fs::remove_file(point.join("count")).unwrap();
        assert!(kernel.read_line("count").is_err());
        kernel.mkdir("a").unwrap();
        kernel.rename("a", "b").unwrap();
        let mut names = kernel.list("").unwrap();
        names.sort();
        assert_eq!(names, ["b", "info"], "the file schemata is no directory");
        kernel.rmdir("b").unwrap();
        assert_eq!(kernel.task_groups(7).unwrap(), "res:/\nmon:\n");
        assert!(kernel.task_groups(8).is_err());
    }
}
