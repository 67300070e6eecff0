//! What several commands print alike.

use std::path::Path;
use std::sync::Arc;

use comfy_table::{CellAlignment, Table, presets};
use wal::storage::Storage;

use super::exit::Failure;
use crate::catalogue::{self, OPERATIONS};

/// Prints names and values in two columns that line up, the values to the right.
pub fn print_pairs(rows: impl IntoIterator<Item = (String, String)>) {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    for (name, value) in rows {
        table.add_row([name, value]);
    }
    if let Some(column) = table.column_mut(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    println!("{table}");
}

/// The storage of a data directory that is there; nothing is written.
///
/// # Errors
/// When there is none.
pub fn existing(data: &Path) -> Result<Arc<dyn Storage>, Failure> {
    super::open::existing(data)
        .map_err(|error| Failure::other(format!("{} cannot be read: {error}", data.display())))
}

/// The storage of a new directory, which is made (mode 0700) when it is missing.
///
/// # Errors
/// When it can neither be found nor made.
pub fn new_directory(path: &Path) -> Result<Arc<dyn Storage>, Failure> {
    wal::open_dir(path)
        .map_err(|error| Failure::other(format!("{} cannot be used: {error}", path.display())))
}

/// What the operation with this tag is called; what has none brings facts in.
#[must_use]
pub fn operation_name(tag: u16) -> &'static str {
    let row = OPERATIONS.iter().find(|row| row.tag == tag);
    row.map_or("reference_facts", |row| row.name)
}

/// What the kind of resource with this tag is called.
#[must_use]
pub fn kind_name(tag: u16) -> &'static str {
    catalogue::resource(tag).map_or("unknown", |resource| resource.kind().name)
}
