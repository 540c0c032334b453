// SPDX-License-Identifier: GPL-2.0-only
//! Compiles the model, which is headers, behind one C function.

use std::process::Command;

fn main() {
    let model = "../..";
    println!("cargo::rerun-if-changed=shim.cc");
    println!("cargo::rerun-if-changed={model}/model");
    println!("cargo::rerun-if-changed={model}/core");
    println!("cargo::rerun-if-changed={model}/interface");
    let generated = std::env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    let status = Command::new("python3")
        .arg(format!("{model}/interface/generate.py"))
        .arg(&generated)
        .status()
        .expect("python3 must be installed: it generates headers from interface/*.toml");
    assert!(status.success(), "interface/generate.py failed: {status}");
    cc::Build::new()
        .cpp(true)
        .std("c++17")
        .include(model)
        .include(generated)
        .file("shim.cc")
        .compile("drfq_model_shim");
}
