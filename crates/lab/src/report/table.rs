//! Tables of text, the same for a terminal and for a page.

use comfy_table::{Cell, CellAlignment, ContentArrangement, LineStyle, TableStyle};

/// What is found, in rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// What it shows; may be empty.
    pub title: String,
    /// The columns.
    pub columns: Vec<Column>,
    /// Rows, as long as there are columns.
    pub rows: Vec<Row>,
}

/// A column.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Column {
    /// Its heading.
    pub name: String,
    /// Whether it holds numbers, which stand flush right.
    pub is_number: bool,
    /// Whether it was printed elsewhere.
    pub is_published: bool,
}

/// A row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// A text for each column.
    pub cells: Vec<Text>,
    /// Whether it is made of others.
    pub is_summary: bool,
    /// Whether it was printed elsewhere.
    pub is_published: bool,
}

/// A figure and the range it stands for, or any text; either may be empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text {
    /// The figure.
    pub value: String,
    /// Its range, which a page shows beneath and a terminal leaves out.
    pub range: String,
}

impl From<String> for Text {
    fn from(value: String) -> Self {
        Self { value, range: String::new() }
    }
}

impl From<&str> for Text {
    fn from(value: &str) -> Self {
        Self::from(value.to_owned())
    }
}

impl Column {
    /// A column of text, or of numbers.
    pub fn new(name: &str, is_number: bool) -> Self {
        Self { name: name.to_owned(), is_number, is_published: false }
    }
}

impl Table {
    /// For a terminal `width` columns wide (`None`: as wide as the content).
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
        table.set_header(self.columns.iter().map(|column| column.name.as_str()));
        for row in &self.rows {
            let numbers = self.columns.iter().map(|column| column.is_number);
            table
                .add_row(row.cells.iter().zip(numbers).map(|(text, is_number)| cell(&text.value, is_number)));
        }
        let table = table.to_string();
        let title = Some(self.title.as_str()).filter(|title| !title.is_empty());
        title.into_iter().chain(table.lines()).flat_map(|line| [line.trim_end(), "\n"]).collect()
    }

    /// Leaves out columns that are empty in every row.
    pub(crate) fn without_empty_columns(mut self) -> Self {
        let is_empty = |at: usize| self.rows.iter().all(|row| row.cells[at].value.is_empty());
        let kept: Vec<bool> = (0..self.columns.len()).map(|at| !is_empty(at)).collect();
        let mut of_columns = kept.iter();
        self.columns.retain(|_| *of_columns.next().unwrap_or(&true));
        for row in &mut self.rows {
            let mut of_cells = kept.iter();
            row.cells.retain(|_| *of_cells.next().unwrap_or(&true));
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(texts: [&str; 3]) -> Row {
        Row { cells: texts.map(Text::from).to_vec(), ..Row::default() }
    }

    #[test]
    fn numbers_stand_flush_right_and_empty_columns_go() {
        let table = Table {
            title: "Title".to_owned(),
            columns: vec![Column::new("name", false), Column::new("MB/s", true), Column::new("x", false)],
            rows: vec![row(["a", "1", ""]), row(["b", "1,000", ""])],
        };
        let table = table.without_empty_columns();
        assert_eq!((table.columns.len(), table.rows[0].cells.len()), (2, 2));
        let text = table.to_text(None);
        assert!(text.starts_with("Title\n"));
        let is_it = |line: &str| line.trim_start().starts_with('a') && line.ends_with("    1");
        assert!(text.lines().any(is_it), "{text}");
    }
}
