// SPDX-License-Identifier: GPL-2.0-only
//! Compiles the shim around `bpf/drfq.h`. Undefined behaviour in the header
//! traps, in every test (unsigned overflow is defined, and wanted).

fn main() {
    println!("cargo::rerun-if-changed=src/shim.c");
    println!("cargo::rerun-if-changed=../../bpf/drfq.h");
    cc::Build::new()
        .file("src/shim.c")
        .std("gnu11")
        .opt_level(2)
        .extra_warnings(true)
        .warnings_into_errors(true)
        .flag("-fsanitize=undefined")
        // The spelling that gcc and clang of every age share; a trap needs no
        // run-time library.
        .flag("-fsanitize-undefined-trap-on-error")
        .compile("drfq_shim");
}
