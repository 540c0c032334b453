// SPDX-License-Identifier: GPL-2.0-only
//! A build: make starts a compiler for each of some generated C files, several at once.

use super::programs::{Measured, output};
use anyhow::{Context, Result};
use std::fmt::Write;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// C files of the project.
const FILES: u32 = 8;

/// Functions of a file.
const FUNCTIONS: u32 = 3;

/// Compilers at once, one more than the VM has CPUs.
const JOBS: u32 = 3;

/// Builds a project in a temporary directory, once.
pub fn measure() -> Result<Measured> {
    let name = format!("drfq-bench-{}", std::process::id());
    let directory = std::env::temp_dir().join(name);
    let seconds = write_project(&directory).and_then(|()| build_s(&directory));
    std::fs::remove_dir_all(&directory)
        .with_context(|| format!("cannot remove {}", directory.display()))?;
    let what = format!("build of {FILES} C files with make -j{JOBS}");
    Ok(vec![(what, "ms", seconds? * 1e3)])
}

fn write_project(directory: &Path) -> Result<()> {
    std::fs::create_dir(directory)
        .with_context(|| format!("cannot create {}", directory.display()))?;
    let write = |name: &str, text: String| {
        let path = directory.join(name);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    };
    for file in 0..=FILES {
        write(&format!("f{file}.c"), source(file))?;
    }
    write("Makefile", makefile())
}

/// `all` builds the files from f1.c on.
fn makefile() -> String {
    let objects: Vec<String> = (1..=FILES).map(|file| format!("f{file}.o")).collect();
    let objects = objects.join(" ");
    format!("all: {objects}\n%.o: %.c\n\tcc -O2 -c $<\n")
}

/// A file of functions that differ by file and by place.
fn source(file: u32) -> String {
    let mut text = String::from("#include <stddef.h>\n");
    for function in 0..FUNCTIONS {
        let name = format!("f{file}_{function}");
        let factor = file * FUNCTIONS + function + 3;
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "
struct {name} {{ struct {name} *next; long key; char text[{factor}]; }};

struct {name} *{name}_find(struct {name} *list, const char *text, size_t length)
{{
	long key = {factor};

	for (size_t i = 0; i < length; i++)
		key = key * {factor} + (text[i] ^ (key >> 7));
	while (list && list->key != key)
		list = list->next;
	return list;
}}
"
        );
    }
    text
}

/// Seconds of a build.
fn build_s(directory: &Path) -> Result<f64> {
    // Programs and headers get into memory first.
    make(directory, &["f0.o"])?;
    let jobs = format!("-j{JOBS}");
    let start = Instant::now();
    make(directory, &[&jobs, "all"])?;
    Ok(start.elapsed().as_secs_f64())
}

fn make(directory: &Path, args: &[&str]) -> Result<()> {
    output(Command::new("make").arg("-C").arg(directory).args(args)).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_builds_in_full() {
        let outer = tempfile::tempdir().unwrap();
        let directory = outer.path().join("project");
        write_project(&directory).unwrap();
        let objects = || {
            let names = std::fs::read_dir(&directory).unwrap();
            let names = names.map(|entry| entry.unwrap().file_name());
            names
                .filter(|name| name.to_string_lossy().ends_with(".o"))
                .count()
        };
        assert_eq!(objects(), 0);
        assert!(build_s(&directory).unwrap() > 0.0);
        assert_eq!(objects(), FILES as usize + 1);
    }

    #[test]
    fn files_differ() {
        assert_ne!(source(1), source(2));
        assert_eq!(source(1).matches("_find(").count(), FUNCTIONS as usize);
    }

    #[test]
    fn a_second_project_in_one_place_is_refused() {
        let outer = tempfile::tempdir().unwrap();
        assert!(write_project(outer.path()).is_err());
    }
}
