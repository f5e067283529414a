//! Tables for people: columns with blanks between them and no lines, so that they can be cut and
//! searched with the ordinary tools.

use std::fmt::Display;

use comfy_table::Table;
use comfy_table::presets::NOTHING;

/// An empty table with these heads.
pub fn table(heads: &[&str]) -> Table {
    let mut table = columns();
    table.set_header(heads.iter().copied());
    table
}

/// An empty table without heads.
pub fn columns() -> Table {
    let mut table = Table::new();
    table.load_style(NOTHING);
    table
}

/// A value, or a dash where there is none.
pub fn or_dash(value: Option<impl Display>) -> String {
    value.map_or_else(|| "-".into(), |value| value.to_string())
}

/// The table as text, without blanks at either end of a line.
pub fn text(table: &Table) -> String {
    let mut table = table.clone();
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.trim_fmt()
}
