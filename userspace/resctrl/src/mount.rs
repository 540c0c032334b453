// SPDX-License-Identifier: GPL-2.0-only
//! Where resctrl is mounted, and with which options.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// A mounted resctrl. The kernel has at most one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Its directory.
    pub point: PathBuf,
    /// Its options: `cdp`, `cdpl2`, `mba_MBps`, `debug`, and those of all mounts.
    pub options: Vec<String>,
}

impl Mount {
    /// Finds it on the machine whose `/` is `root`.
    pub fn find(root: &Path) -> Option<Self> {
        // Any user may mount a file system at a path that is not UTF-8.
        let mounts = fs::read(root.join("proc/mounts")).ok()?;
        Self::parse(&String::from_utf8_lossy(&mounts))
    }

    /// Finds it in the text of `/proc/mounts`.
    pub fn parse(mounts: &str) -> Option<Self> {
        mounts.lines().find_map(|line| {
            let mut fields = line.split(' ').skip(1);
            let (point, kind, options) = (fields.next()?, fields.next()?, fields.next()?);
            (kind == "resctrl").then(|| Self {
                point: unescape(point).into(),
                options: options.split(',').map(str::to_owned).collect(),
            })
        })
    }

    /// Whether it has an option.
    pub fn has(&self, option: &str) -> bool {
        self.options.iter().any(|found| found == option)
    }
}

/// The kernel writes a space as `\040`, and other separators likewise.
fn unescape(text: &str) -> String {
    let mut parts = text.split('\\');
    let mut found = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match (part.get(..3), part.get(3..)) {
            (Some(digits), Some(rest)) => match u8::from_str_radix(digits, 8) {
                Ok(byte) if byte.is_ascii() => {
                    found.push(char::from(byte));
                    found.push_str(rest);
                }
                _ => found = found + "\\" + part,
            },
            _ => found = found + "\\" + part,
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_points_that_are_no_text_hide_nothing() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(Mount::find(root.path()), None);
        fs::create_dir(root.path().join("proc")).unwrap();
        let mounts = b"x /home/u/\xff fuse rw 0 0\nresctrl /sys/fs/resctrl resctrl rw 0 0\n";
        fs::write(root.path().join("proc/mounts"), mounts).unwrap();
        let found = Mount::find(root.path()).unwrap();
        assert_eq!(found.point, Path::new("/sys/fs/resctrl"));
    }

    #[test]
    fn the_mount_is_found_with_its_options() {
        let text =
            "proc /proc proc rw 0 0\nresctrl /sys/fs/resctrl resctrl rw,relatime,mba_MBps 0 0\n";
        let mount = Mount::parse(text).unwrap();
        assert_eq!(mount.point, PathBuf::from("/sys/fs/resctrl"));
        assert!(mount.has("mba_MBps") && mount.has("rw") && !mount.has("cdp"));
        assert_eq!(
            Mount::parse("resctrl /resctrl tmpfs rw 0 0\nshort\n\n"),
            None
        );
    }

    #[test]
    fn escaped_characters_of_the_directory_are_restored() {
        let point = |escaped: &str| {
            Mount::parse(&format!("resctrl {escaped} resctrl ro 0 0\n"))
                .unwrap()
                .point
        };
        assert_eq!(point(r"/my\040place\134x"), PathBuf::from(r"/my place\x"));
        assert_eq!(point(r"/a\9b\"), PathBuf::from(r"/a\9b\"));
        assert_eq!(point(r"/a\377b"), PathBuf::from(r"/a\377b"));
    }
}
