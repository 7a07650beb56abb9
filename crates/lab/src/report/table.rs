//! Tables of text, the same for a terminal and for a page.

use comfy_table::{Cell, CellAlignment, ColumnConstraint, ContentArrangement, LineStyle, TableStyle, Width};

/// Findings, in rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// The caption; may be empty.
    pub title: String,
    /// The columns, from left to right.
    pub columns: Vec<Column>,
    /// Rows, each with as many texts as there are columns.
    pub rows: Vec<Row>,
}

/// The heading of a column, and how its texts are set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Column {
    /// Its heading.
    pub name: String,
    /// Whether it holds numbers, which are aligned right.
    pub is_number: bool,
    /// Whether the figures are published ones.
    pub is_published: bool,
}

/// One finding: a text for each column.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// A text for each column.
    pub cells: Vec<Text>,
    /// Whether it summarises other rows.
    pub is_summary: bool,
    /// Whether the figures are published ones.
    pub is_published: bool,
}

/// A figure and its range, or any text; either may be empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text {
    /// The figure.
    pub value: String,
    /// The range, which a page shows beneath and a terminal omits.
    pub range: String,
    /// Whether the figure stands on disturbed runs, which a mark tells.
    pub is_doubtful: bool,
}

impl From<String> for Text {
    fn from(value: String) -> Self {
        Self { value, range: String::new(), is_doubtful: false }
    }
}

impl From<&str> for Text {
    fn from(value: &str) -> Self {
        Self::from(value.to_owned())
    }
}

impl Column {
    /// Returns a column of text, or of numbers.
    pub fn new(name: &str, is_number: bool) -> Self {
        Self { name: name.to_owned(), is_number, is_published: false }
    }
}

/// The mark of figures that stand on disturbed runs.
pub(crate) const DOUBTFUL: &str = "†";
/// The meaning of the mark.
pub(crate) const DOUBTFUL_WORDS: &str =
    "† Other work disturbed more than a third of the runs behind this figure; no claim is decided by it.";

impl Text {
    /// Returns the figure with its mark.
    fn marked(&self) -> String {
        format!("{}{}", self.value, if self.is_doubtful { DOUBTFUL } else { "" })
    }
}

/// The width of a cell beside its text: a space on either side.
const PADDING: u16 = 2;
/// The width of a cell beside its text, with the separator to the next column.
const BESIDE: u16 = PADDING + 1;
/// A longer word may be broken, such as a path or a list without spaces.
const WORD_MAX: u16 = 32;

/// Returns the width of a text without its line breaks.
fn width_of(text: &str) -> u16 {
    u16::try_from(text.chars().count()).unwrap_or(u16::MAX)
}

/// Returns the width of the longest word.
fn word_width(text: &str) -> u16 {
    text.split_whitespace().map(width_of).max().unwrap_or(0)
}

/// Returns a text in lines of a width, broken between words.
pub(crate) fn wrapped(text: &str, width: Option<u16>) -> String {
    let Some(width) = width else { return text.to_owned() };
    let (mut wrapped, mut column) = (String::new(), 0_u16);
    for word in text.split(' ') {
        let word_width = width_of(word);
        if column > 0 && column.saturating_add(1).saturating_add(word_width) > width {
            wrapped.push('\n');
            column = 0;
        } else if column > 0 {
            wrapped.push(' ');
            column += 1;
        }
        wrapped.push_str(word);
        column = column.saturating_add(word_width);
    }
    wrapped
}

impl Table {
    /// Returns the table for a terminal `width` columns wide (`None`: as wide as the content).
    ///
    /// Text is broken between words, a number never. Columns without room are omitted, the last ones first, and named
    /// below the table; the first column and the first column of numbers stay.
    pub fn to_text(&self, width: Option<u16>) -> String {
        let least: Vec<u16> = (0..self.columns.len()).map(|at| self.least_width(at)).collect();
        let is_kept = width.map_or_else(|| vec![true; least.len()], |width| self.kept(&least, width));
        let kept = || is_kept.iter().enumerate().filter(|(_, is_kept)| **is_kept).map(|(at, _)| at);
        let mut table = comfy_table::Table::new();
        table.load_style(TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─')));
        table.set_content_arrangement(ContentArrangement::Dynamic);
        if let Some(width) = width {
            // Columns that must stay are not broken even if they do not fit.
            let needed = kept().map(|at| least[at].saturating_add(BESIDE)).fold(0, u16::saturating_add);
            table.set_width(width.max(needed));
        }
        table.set_header(kept().map(|at| self.columns[at].name.as_str()));
        for row in &self.rows {
            let cell = |at: usize| {
                let cell = Cell::new(row.cells.get(at).map_or_else(String::new, Text::marked));
                if self.columns[at].is_number { cell.set_alignment(CellAlignment::Right) } else { cell }
            };
            table.add_row(kept().map(cell));
        }
        if width.is_some() {
            for (column, at) in table.column_iter_mut().zip(kept()) {
                column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(least[at] + PADDING)));
            }
        }
        let table = table.to_string();
        let title = Some(self.title.as_str()).filter(|title| !title.is_empty());
        let left_out = self.left_out(&is_kept, width);
        let doubtful =
            self.is_doubtful().then(|| format!(" {}", wrapped(DOUBTFUL_WORDS, width).replace('\n', "\n ")));
        title
            .into_iter()
            .chain(table.lines())
            .chain(left_out.as_deref().into_iter().flat_map(str::lines))
            .chain(doubtful.as_deref().into_iter().flat_map(str::lines))
            .flat_map(|line| [line.trim_end(), "\n"])
            .collect()
    }

    /// Returns whether a figure has the mark of disturbed runs.
    pub(crate) fn is_doubtful(&self) -> bool {
        self.rows.iter().flat_map(|row| &row.cells).any(|text| text.is_doubtful)
    }

    /// Returns the least width of a column: its longest number, or its longest word.
    fn least_width(&self, at: usize) -> u16 {
        let column = &self.columns[at];
        let texts = self.rows.iter().filter_map(|row| row.cells.get(at)).map(Text::marked);
        let of = |text: String| {
            if column.is_number { width_of(&text) } else { word_width(&text).min(WORD_MAX) }
        };
        texts.map(of).max().unwrap_or(0).max(word_width(&column.name).min(WORD_MAX))
    }

    /// Returns for each column whether there is room for it.
    fn kept(&self, least: &[u16], width: u16) -> Vec<bool> {
        let mut is_kept = vec![true; least.len()];
        let first_number = self.columns.iter().position(|column| column.is_number);
        let may_go = |at: &usize| *at > 0 && Some(*at) != first_number;
        let mut needed: u32 = least.iter().map(|least| u32::from(*least) + u32::from(BESIDE)).sum();
        for at in (0..least.len()).rev().filter(may_go) {
            // The last column has no separator after it.
            if needed <= u32::from(width) + 1 {
                break;
            }
            is_kept[at] = false;
            needed -= u32::from(least[at]) + u32::from(BESIDE);
        }
        is_kept
    }

    /// Names the omitted columns, in lines of a width.
    fn left_out(&self, is_kept: &[bool], width: Option<u16>) -> Option<String> {
        let is_gone = |(column, is_kept): &(&Column, &bool)| !**is_kept && !column.name.is_empty();
        let gone = self.columns.iter().zip(is_kept).filter(is_gone);
        let names: Vec<&str> = gone.map(|(column, _)| &*column.name).collect();
        let words = format!("without room for: {}", names.join(", "));
        let width = width.map(|width| width.saturating_sub(1));
        (!names.is_empty()).then(|| format!(" {}", wrapped(&words, width).replace('\n', "\n ")))
    }

    /// Omits columns that are empty in every row.
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

    #[test]
    fn numbers_are_never_broken_and_columns_without_room_are_named() {
        let names = ["stack of layers", "1 lane, Mb/s", "2 lanes, Mb/s", "times", "90 % interval", "remarks"];
        let columns = names.iter().enumerate().map(|(at, name)| Column::new(name, (1..5).contains(&at)));
        let cells =
            ["aes-128-gcm/tcp/ip/fddi", "123,456", "234,567", "1.90", "1.85–1.95", "two runs were disturbed"];
        let row = Row { cells: cells.map(Text::from).to_vec(), ..Row::default() };
        let table = Table { title: String::new(), columns: columns.collect(), rows: vec![row] };
        for width in 20..=120 {
            let text = table.to_text(Some(width));
            let (shown, left_out) = text.split_once("without room for:").unwrap_or((&text, ""));
            // The stack's name and the first number stay.
            let widest = shown.lines().map(|line| width_of(line.trim_end())).max();
            assert!(widest <= Some(width.max(36)), "{width}: {text}");
            assert!(left_out.lines().all(|line| width_of(line) <= width), "{width}: {text}");
            let left_out = left_out.split_whitespace().collect::<Vec<_>>().join(" ");
            for (name, number) in names.iter().zip(cells).skip(1).take(4) {
                assert_ne!(shown.contains(number), left_out.contains(name), "{width}: {number}: {text}");
            }
            assert!(
                shown.contains("123,456") && shown.contains("aes-128-gcm/tcp/ip/fddi"),
                "{width}: {text}"
            );
        }
        assert!(table.to_text(Some(120)).contains("two runs were disturbed"));
    }
}
