// SPDX-License-Identifier: GPL-2.0-only
//! Writes the pictures of the documentation: `cargo run -p drfq_view --example pictures`.

use std::{fs, io, path::Path};

use drfq_view::gallery::pictures;

fn main() -> io::Result<()> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/howto/top");
    fs::create_dir_all(&directory)?;
    for (name, svg) in pictures() {
        fs::write(directory.join(name), svg)?;
    }
    Ok(())
}
