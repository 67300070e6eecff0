//! Tables that are printed in blocks while they grow.

use comfy_table::{CellAlignment, ColumnConstraint, Table, Width, presets};

use super::exit::Failure;
use super::output::Output;
use super::printable::printable;

/// Number of rows that are laid out together; later rows get at least the same widths.
const BLOCK_ROWS: usize = 500;

/// A table that is printed while it grows.
pub(super) struct Growing {
    columns: &'static [Column],
    rows: Vec<Vec<String>>,
    widths: Vec<u16>,
    begun: bool,
}

/// A column: its title and its alignment.
pub(super) struct Column {
    pub(super) title: &'static str,
    pub(super) right: bool,
}

/// A column of text.
pub(super) const fn left(title: &'static str) -> Column {
    Column {
        title,
        right: false,
    }
}

/// A column of numbers.
pub(super) const fn right(title: &'static str) -> Column {
    Column { title, right: true }
}

impl Growing {
    pub(super) fn new(columns: &'static [Column]) -> Self {
        Self {
            columns,
            rows: Vec::new(),
            widths: vec![0; columns.len()],
            begun: false,
        }
    }

    pub(super) fn row(&mut self, out: &mut Output, row: Vec<String>) -> Result<(), Failure> {
        self.rows
            .push(row.iter().map(|cell| printable(cell)).collect());
        if self.rows.len() < BLOCK_ROWS {
            return Ok(());
        }
        self.print(out)
    }

    /// Whether the next row makes a block complete, so that the block is printed.
    pub(super) fn prints_the_next(&self) -> bool {
        self.rows.len() + 1 >= BLOCK_ROWS
    }

    /// Prints the rows that are not printed yet, the first time under the titles.
    pub(super) fn print(&mut self, out: &mut Output) -> Result<(), Failure> {
        if self.rows.is_empty() {
            return Ok(());
        }
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        if !std::mem::replace(&mut self.begun, true) {
            table.set_header(self.columns.iter().map(|column| column.title));
        }
        for row in self.rows.drain(..) {
            table.add_row(row);
        }
        for (width, found) in self
            .widths
            .iter_mut()
            .zip(table.column_max_content_widths())
        {
            *width = (*width).max(found);
        }
        for (index, column) in self.columns.iter().enumerate() {
            let Some(laid_out) = table.column_mut(index) else {
                continue;
            };
            // The width includes a blank on each side.
            let width = Width::Fixed(self.widths[index] + 2);
            laid_out.set_constraint(ColumnConstraint::LowerBoundary(width));
            if column.right {
                laid_out.set_cell_alignment(CellAlignment::Right);
            }
        }
        for line in table.lines() {
            out.line(line.trim_end())?;
        }
        Ok(())
    }
}
