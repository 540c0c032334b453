// SPDX-License-Identifier: GPL-2.0-only
//! Compiles the model, which is headers, behind one C function.

fn main() {
    let model = "../..";
    println!("cargo::rerun-if-changed=shim.cc");
    println!("cargo::rerun-if-changed={model}/model");
    println!("cargo::rerun-if-changed={model}/core");
    cc::Build::new()
        .cpp(true)
        .std("c++17")
        .include(model)
        .file("shim.cc")
        .compile("drfq_model_shim");
}
