//! Tables for terminals: columns of equal width, separated by spaces. Escapes nothing.

use std::fmt::Write as _;

/// Aligns the columns of these rows, of which the first is usually the header.
pub(crate) fn aligned<const COLUMNS: usize>(rows: &[[String; COLUMNS]]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<_> = (0..COLUMNS).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths);
        let line: String = cells
            .map(|(cell, width)| format!("{cell:<width$}   "))
            .collect();
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}
