// SPDX-License-Identifier: GPL-2.0-only
//! Compiles the shipped BPF source and the model of the kernel around it, natively. Undefined
//! behaviour traps, in every test (unsigned overflow is defined, and wanted).

fn main() {
    println!("cargo::rerun-if-changed=native");
    println!("cargo::rerun-if-changed=src/shim.c");
    println!("cargo::rerun-if-changed=../../bpf");
    println!("cargo::rerun-if-env-changed=BPF_CLANG");
    // The compiler of the BPF object: #pragma clang section separates the scheduler's variables.
    let clang = std::env::var("BPF_CLANG").unwrap_or_else(|_| "clang".into());
    cc::Build::new()
        .compiler(clang)
        .files([
            "native/scheduler.c",
            "native/dsq.c",
            "native/helpers.c",
            "native/ext.c",
            "native/cgroup.c",
            "native/change.c",
            "native/view.c",
        ])
        .file("src/shim.c")
        .include("native")
        .include("../../bpf")
        .std("gnu11")
        .opt_level(2)
        .debug(true)
        .warnings(true)
        .warnings_into_errors(true)
        .flag("-Wall")
        // Callbacks have the parameters that the kernel passes, used or not.
        .flag("-Wno-unused-parameter")
        .flag("-Wno-sign-compare")
        .flag("-fsanitize=undefined")
        // The kernel's table of callbacks takes functions of any type.
        .flag("-fno-sanitize=function")
        // The spelling that gcc and clang of every age share; a trap needs no run-time library.
        .flag("-fsanitize-undefined-trap-on-error")
        .compile("drfq_native");
}
