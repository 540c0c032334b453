// SPDX-License-Identifier: GPL-2.0-only
//! Compiles the shipped BPF source and the model of the kernel around it, natively. Undefined
//! behaviour traps, in every test (unsigned overflow is defined, and wanted).

use std::path::Path;

/// The scheduler that is shipped.
const SHIPPED: &str = "../../bpf";

/// A compilation of C with the flags that all files share.
fn build(clang: &str, bpf: &str) -> cc::Build {
    let mut build = cc::Build::new();
    build
        .compiler(clang)
        .include("native")
        .include(bpf)
        .std("gnu11")
        .opt_level(2)
        .debug(true)
        .warnings(true)
        // A changed copy may leave a variable unused.
        .warnings_into_errors(bpf == SHIPPED)
        .flag("-Wall")
        // Callbacks have the parameters that the kernel passes, used or not.
        .flag("-Wno-unused-parameter")
        .flag("-Wno-sign-compare")
        .flag("-fsanitize=undefined")
        // The kernel's table of callbacks takes functions of any type.
        .flag("-fno-sanitize=function")
        // The spelling that gcc and clang of every age share; a trap needs no run-time library.
        .flag("-fsanitize-undefined-trap-on-error");
    build
}

fn main() {
    println!("cargo::rerun-if-changed=native");
    println!("cargo::rerun-if-changed=src/shim.c");
    println!("cargo::rerun-if-env-changed=BPF_CLANG");
    println!("cargo::rerun-if-env-changed=DRFQ_SIM_BPF");
    // The compiler of the BPF object: #pragma clang section separates the scheduler's variables.
    let clang = std::env::var("BPF_CLANG").unwrap_or_else(|_| "clang".into());
    // tests/sim/mutate compiles changed copies of the scheduler.
    let bpf = std::env::var("DRFQ_SIM_BPF").unwrap_or_else(|_| SHIPPED.into());
    assert!(
        Path::new(&bpf).join("main.bpf.c").exists(),
        "DRFQ_SIM_BPF={bpf} has no main.bpf.c"
    );
    println!("cargo::rerun-if-changed={bpf}");
    // native/count.c has the hooks: for loads and stores of the scheduler, and for its calls.
    build(&clang, &bpf)
        .file("native/scheduler.c")
        .flag("-fsanitize-coverage=func,trace-loads,trace-stores")
        .flag("-fno-optimize-sibling-calls")
        .compile("drfq_native_scheduler");
    build(&clang, &bpf)
        .files(["native/dsq.c", "native/helpers.c"])
        .flag("-finstrument-functions-after-inlining")
        .compile("drfq_native_kfuncs");
    build(&clang, &bpf)
        .files([
            "native/ext.c",
            "native/cgroup.c",
            "native/change.c",
            "native/count.c",
            "native/devices.c",
            "native/network.c",
            "native/races.c",
            "native/replay.c",
            "native/restart.c",
            "native/strand.c",
            "native/view.c",
        ])
        .file("src/shim.c")
        .compile("drfq_native");
}
