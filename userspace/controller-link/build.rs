// SPDX-License-Identifier: GPL-2.0-only
//! Makes Rust constants of the tables in gem5-backend/interface, which every
//! language reads: the register map and the constants of the socket protocol.

use std::{env, fmt::Write, fs, path::Path};

use toml::{Table, Value};

const INTERFACE: &str = "../../gem5-backend/interface";

fn load(name: &str) -> Table {
    let path = format!("{INTERFACE}/{name}.toml");
    println!("cargo:rerun-if-changed={path}");
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    text.parse()
        .unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn table<'a>(parent: &'a Table, name: &str) -> &'a Table {
    let found = parent.get(name).and_then(Value::as_table);
    found.unwrap_or_else(|| panic!("{INTERFACE} has no table {name:?}"))
}

fn integer(value: &Value) -> i64 {
    let number = value.as_integer();
    number.unwrap_or_else(|| panic!("{INTERFACE}: {value} must be an integer"))
}

/// A module with one constant for each integer of `values`.
fn constants<'a>(
    module: &str,
    kind: &str,
    values: impl Iterator<Item = (&'a String, i64)>,
) -> String {
    let mut text = format!("pub mod {module} {{\n");
    for (name, value) in values {
        let name = name.to_uppercase();
        let _ = writeln!(text, "    pub const {name}: {kind} = {value:#x};");
    }
    text + "}\n"
}

fn integers(parent: &Table) -> impl Iterator<Item = (&String, i64)> {
    parent
        .iter()
        .filter_map(|(name, value)| Some((name, value.as_integer()?)))
}

/// A module with one `Field` for each field of a record, and the record's size.
fn layout(module: &str, fields: &Table) -> String {
    let mut text = format!("pub mod {module} {{\n    use super::Field;\n");
    let mut end = 0;
    for (name, place) in fields {
        let place = place.as_array().map(Vec::as_slice);
        let Some([offset, size]) = place else {
            panic!("{INTERFACE}: layout.{module}.{name} must be [offset, bytes]");
        };
        let (name, offset, size) = (name.to_uppercase(), integer(offset), integer(size));
        let _ = writeln!(
            text,
            "    pub const {name}: Field<{size}> = Field({offset});"
        );
        end = end.max(offset + size);
    }
    let _ = writeln!(text, "    pub const BYTES: usize = {end};");
    text + "}\n"
}

fn main() {
    let (registers, protocol) = (load("registers"), load("protocol"));
    let offsets = table(&registers, "register").iter();
    let offsets = offsets.map(|(name, register)| (name, integer(&register["offset"])));
    let mut text = constants("offset", "u64", offsets)
        + &constants("identity", "u64", integers(table(&registers, "identity")))
        + &constants("limits", "u64", integers(table(&registers, "limits")))
        + &constants(
            "virtual_machine",
            "u64",
            integers(table(&registers, "virtual_machine")),
        )
        + &constants("mailbox", "u64", integers(table(&registers, "mailbox")))
        + &constants("protocol", "u64", integers(&protocol))
        + &constants(
            "protocol_limits",
            "u64",
            integers(table(&protocol, "limits")),
        )
        + &constants("op", "u16", integers(table(&protocol, "op")))
        + &constants("status", "u16", integers(table(&protocol, "status")))
        + &constants("role", "u64", integers(table(&protocol, "role")))
        + &constants("feature_bit", "u64", integers(table(&protocol, "feature")));
    for (module, fields) in table(&protocol, "layout") {
        let fields = fields.as_table();
        text += &layout(module, fields.expect("a layout is a table"));
    }
    let out = Path::new(&env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("interface.rs");
    fs::write(out, text).expect("OUT_DIR is writable");
}
