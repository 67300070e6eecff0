//! Tables that are printed in blocks while they grow.

use comfy_table::{CellAlignment, ColumnConstraint, Table, Width, presets};

use super::exit::Failure;
use super::output::{Output, terminal_columns};
use super::printable::printable;

/// Number of rows that are laid out together; later rows get at least the same widths.
const BLOCK_ROWS: usize = 500;
/// How narrow a text may become on a terminal that is too narrow for the whole table.
const TEXT_LEAST: u16 = 8;
/// The same of a time: it is shown up to its minutes.
const TIME_LEAST: u16 = 17;

/// A table that is printed while it grows. On a terminal that is too narrow for it, cells are shortened.
pub(super) struct Growing {
    columns: &'static [Column],
    rows: Vec<Vec<String>>,
    widths: Vec<u16>,
    begun: bool,
    /// The columns of the terminal that it is printed on; `None` elsewhere, where all of it is printed.
    terminal: Option<u16>,
}

/// A column: its title, its alignment, and how it is shortened on a narrow terminal.
pub(super) struct Column {
    pub(super) title: &'static str,
    right: bool,
    /// The width below which its cells are not shortened.
    least: u16,
    /// Whether they are shortened in the middle, and not at their end.
    in_the_middle: bool,
}

/// A column of names, whose ends matter as much as their beginnings.
pub(super) const fn left(title: &'static str) -> Column {
    Column {
        title,
        right: false,
        least: TEXT_LEAST,
        in_the_middle: true,
    }
}

/// A column of numbers.
pub(super) const fn right(title: &'static str) -> Column {
    Column {
        right: true,
        ..whole(title)
    }
}

/// A column of names that are typed elsewhere, and never shortened.
pub(super) const fn whole(title: &'static str) -> Column {
    Column {
        title,
        right: false,
        least: u16::MAX,
        in_the_middle: false,
    }
}

/// A column of times.
pub(super) const fn time(title: &'static str) -> Column {
    Column {
        title,
        right: false,
        least: TIME_LEAST,
        in_the_middle: false,
    }
}

/// A column of sentences.
pub(super) const fn sentence(title: &'static str) -> Column {
    Column {
        title,
        right: false,
        least: TEXT_LEAST,
        in_the_middle: false,
    }
}

impl Growing {
    pub(super) fn new(columns: &'static [Column]) -> Self {
        Self {
            columns,
            rows: Vec::new(),
            widths: vec![0; columns.len()],
            begun: false,
            terminal: terminal_columns(),
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
        for line in self.lines() {
            out.line(line.trim_end())?;
        }
        Ok(())
    }

    /// Returns the lines of the rows that are not printed yet, the first time under the titles.
    fn lines(&mut self) -> Vec<String> {
        if self.rows.is_empty() {
            return Vec::new();
        }
        let mut rows = std::mem::take(&mut self.rows);
        let mut titles = (!std::mem::replace(&mut self.begun, true)).then(|| {
            let titles = self.columns.iter().map(|column| column.title.to_owned());
            titles.collect::<Vec<_>>()
        });
        let table = table_of(titles.as_deref(), &rows);
        for (width, found) in self
            .widths
            .iter_mut()
            .zip(table.column_max_content_widths())
        {
            *width = (*width).max(found);
        }
        let Some(narrow) = self.narrow() else {
            return self.laid_out(table, &self.widths, (1, 1));
        };
        for row in rows.iter_mut().chain(&mut titles) {
            for (index, cell) in row.iter_mut().enumerate() {
                // One that keeps its width keeps its content.
                if narrow[index] < self.widths[index] {
                    *cell = shortened(cell, narrow[index], self.columns[index].in_the_middle);
                }
            }
        }
        self.laid_out(table_of(titles.as_deref(), &rows), &narrow, (0, 1))
    }

    /// Returns the widths with which the table fits into the terminal, if it is too wide for it.
    fn narrow(&self) -> Option<Vec<u16>> {
        let terminal = self.terminal?;
        // A blank on each side of a cell; the last one is not printed.
        let blanks = (2 * self.widths.len()).saturating_sub(1);
        let all: usize = self.widths.iter().copied().map(usize::from).sum();
        let is_too_wide = all + blanks > usize::from(terminal);
        is_too_wide.then(|| fitted(self.columns, &self.widths, terminal))
    }

    /// Returns the lines of a table whose columns have these widths, and these numbers of blanks around.
    fn laid_out(&self, mut table: Table, widths: &[u16], blanks: (u16, u16)) -> Vec<String> {
        for (index, column) in self.columns.iter().enumerate() {
            let Some(laid_out) = table.column_mut(index) else {
                continue;
            };
            // The width includes the blanks.
            let width = Width::Fixed(widths[index] + blanks.0 + blanks.1);
            laid_out.set_padding(blanks);
            laid_out.set_constraint(ColumnConstraint::LowerBoundary(width));
            if column.right {
                laid_out.set_cell_alignment(CellAlignment::Right);
            }
        }
        table.lines().collect()
    }
}

fn table_of(titles: Option<&[String]>, rows: &[Vec<String>]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    if let Some(titles) = titles {
        table.set_header(titles);
    }
    for row in rows {
        table.add_row(row);
    }
    table
}

/// Returns widths with which columns fit into so much room, with a blank between two of them: the widest become
/// narrower first.
fn fitted(columns: &[Column], widths: &[u16], room: u16) -> Vec<u16> {
    let mut fitted = widths.to_vec();
    loop {
        let with_blanks: usize = fitted.iter().map(|width| usize::from(*width) + 1).sum();
        // None is behind the last.
        if with_blanks <= usize::from(room) + 1 {
            return fitted;
        }
        let widest = fitted
            .iter_mut()
            .zip(columns)
            .filter(|(width, column)| **width > column.least)
            .max_by_key(|(width, _)| **width);
        match widest {
            Some((width, _)) => *width -= 1,
            // As narrow as it can be.
            None => return fitted,
        }
    }
}

/// Returns a text that takes at most `width` columns of a terminal; `…` stands for what is left out.
fn shortened(text: &str, width: u16, in_the_middle: bool) -> String {
    let width = usize::from(width);
    if text.chars().map(columns_of).sum::<usize>() <= width {
        return text.to_owned();
    }
    let kept = width.saturating_sub(1);
    // Ends differ more than beginnings do.
    let end = if in_the_middle { kept * 2 / 3 } else { 0 };
    let begin = fitting(text.chars(), kept - end);
    let end = fitting(text.chars().rev(), end);
    format!("{begin}…{}", end.chars().rev().collect::<String>())
}

/// Returns the first of these letters, as many as fit into so many columns.
fn fitting(letters: impl Iterator<Item = char>, room: usize) -> String {
    let mut used = 0;
    let fit = letters.take_while(|letter| {
        used += columns_of(*letter);
        used <= room
    });
    fit.collect()
}

/// Returns the number of columns that a letter takes at most on a terminal.
fn columns_of(letter: char) -> usize {
    // The first that take two are those of Korean.
    match letter {
        '\0'..'\u{1100}' | '…' => 1,
        _ => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: &[Column] = &[
        right("number"),
        time("time"),
        left("resource"),
        left("state"),
        whole("id"),
        sentence("error"),
    ];

    fn row(number: &str) -> Vec<String> {
        let row = [
            number,
            "2026-11-20T09:30:00.123Z",
            "admin/branches/0199e1f2-7c33-7d6a-8f8e-0242ac120002",
            "waiting",
            "4711-0",
            "it answered 503: the receiver is not there",
        ];
        row.map(str::to_owned).into()
    }

    fn lines(terminal: Option<u16>, rows: &[&str]) -> Vec<String> {
        let mut table = Growing {
            terminal,
            ..Growing::new(COLUMNS)
        };
        table.rows = rows.iter().map(|number| row(number)).collect();
        let lines = table.lines().into_iter();
        lines.map(|line| line.trim_end().to_owned()).collect()
    }

    #[test]
    fn a_table_is_whole_where_no_terminal_is_too_narrow_for_it() {
        for terminal in [None, Some(200)] {
            let lines = lines(terminal, &["7"]);
            for cell in row("7") {
                assert!(lines[1].contains(&cell), "{cell}: {lines:?}");
            }
        }
    }

    #[test]
    fn a_table_fits_into_a_terminal_whose_numbers_and_identifiers_stay_whole() {
        let shown = lines(Some(80), &["7", "12345678"]);
        for line in &shown {
            assert!(line.chars().count() <= 80, "{line}");
        }
        assert_eq!(shown.len(), 3, "{shown:?}");
        assert!(shown[0].contains("number") && shown[0].contains("error"));
        for part in [
            "12345678 2026-11-20T09:30",
            "…",
            "0002 waiting 4711-0 it answered ",
        ] {
            assert!(shown[2].contains(part), "{part}: {shown:?}");
        }
        // It is no narrower than can be read.
        let narrow = lines(Some(20), &["7"]);
        assert!(narrow[1].contains("2026-11-20T09:30…"), "{narrow:?}");
        assert!(narrow[1].contains("4711-0"), "{narrow:?}");
    }

    #[test]
    fn shortened_text_is_marked_at_its_end_or_in_its_middle() {
        for (text, width, in_the_middle, expected) in [
            ("it answered 500", 15, false, "it answered 500"),
            ("it answered 500", 14, false, "it answered 5…"),
            ("carebook.branch.created", 13, true, "care….created"),
            ("돌봄 예약 취소", 14, true, "돌봄 예약 취소"),
            ("돌봄 예약 취소", 8, true, "돌…취소"),
            ("abc", 0, true, "…"),
        ] {
            let found = shortened(text, width, in_the_middle);
            assert_eq!(found, expected, "{text} in {width}");
        }
    }
}
