// SPDX-License-Identifier: GPL-2.0-only
//! Compiles the BPF scheduler and generates its skeleton and the Rust view of
//! bpf/intf.h.

fn main() {
    println!("cargo:rerun-if-env-changed=BPF_CLANG");
    let built = scx_cargo::BpfBuilder::new().and_then(|mut builder| {
        builder
            .enable_intf("../bpf/intf.h", "bpf_intf.rs")
            .enable_skel("../bpf/main.bpf.c", "bpf")
            .build()
    });
    if let Err(error) = built {
        eprintln!("cannot build the BPF scheduler: {error:#}");
        eprintln!("it needs clang 18 or later; name one with BPF_CLANG=...");
        std::process::exit(1);
    }
}
