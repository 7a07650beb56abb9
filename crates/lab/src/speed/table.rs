//! Tables of text, the same for a terminal and for a page.

use comfy_table::{Cell, CellAlignment, ContentArrangement, LineStyle, TableStyle};
use serde::Serialize;

/// What is found, in rows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Table {
    /// What it shows.
    pub title: String,
    /// How to read it, in sentences.
    pub notes: Vec<String>,
    /// The columns.
    pub columns: Vec<Column>,
    /// Rows, as long as there are columns.
    pub rows: Vec<Vec<String>>,
}

/// A column.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Column {
    /// Its heading.
    pub name: String,
    /// Whether it holds numbers, which stand flush right.
    pub is_number: bool,
}

impl Table {
    /// An empty table; the first `text` columns hold text.
    pub(crate) fn new(title: &str, notes: &[&str], columns: &[&str], text: usize) -> Self {
        let column =
            |(index, name): (usize, &&str)| Column { name: (*name).to_owned(), is_number: index >= text };
        Self {
            title: title.to_owned(),
            notes: notes.iter().map(|&note| note.to_owned()).collect(),
            columns: columns.iter().enumerate().map(column).collect(),
            rows: Vec::new(),
        }
    }

    /// For a terminal `width` columns wide.
    pub fn to_text(&self, width: Option<u16>) -> String {
        let mut table = comfy_table::Table::new();
        table.load_style(TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─')));
        table.set_content_arrangement(ContentArrangement::Dynamic);
        if let Some(width) = width {
            table.set_width(width);
        }
        let cell = |text: &str, is_number: bool| {
            let cell = Cell::new(text);
            if is_number { cell.set_alignment(CellAlignment::Right) } else { cell }
        };
        table.set_header(self.columns.iter().map(|column| cell(&column.name, column.is_number)));
        for row in &self.rows {
            let numbers = self.columns.iter().map(|column| column.is_number);
            table.add_row(row.iter().zip(numbers).map(|(text, is_number)| cell(text, is_number)));
        }
        let table = table.to_string();
        let lines = [self.title.as_str()].into_iter().chain(self.notes.iter().map(String::as_str));
        let lines = lines.chain([""]).chain(table.lines());
        lines.flat_map(|line| [line.trim_end(), "\n"]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_flush_right() {
        let mut table = Table::new("Title", &["A note."], &["name", "MB/s"], 1);
        table.rows.push(vec!["a".to_owned(), "1".to_owned()]);
        table.rows.push(vec!["b".to_owned(), "1,000".to_owned()]);
        let text = table.to_text(None);
        assert!(text.starts_with("Title\nA note.\n\n"));
        assert!(
            text.lines().any(|line| line.trim_start().starts_with('a') && line.ends_with("    1")),
            "{text}"
        );
    }
}
