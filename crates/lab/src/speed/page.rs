//! Measurements as one self-contained page, in the form of the lab's reports.
//!
//! Guarantees: as those of [`crate::report`]: it loads nothing, every text is escaped, and all figures are inside.

use super::table::Table;
use crate::LabError;
use crate::experiment::Drawn;
use crate::machine::{self, Machine};
use crate::report::charts::{Chart, Series};
use crate::report::html::Frame;
use askama::Template;
use serde::Serialize;
use std::fs;
use std::path::Path;

/// What the page of `sealane speed` says of itself.
const SUMMARY: &str = "Ciphers, digests and MACs in tiers, in the memory of one process. Kernels that stand side by side \
    took turns in short slices of one run; medians count.";

/// What a page shows.
#[derive(Clone, Debug, Serialize)]
pub struct SpeedPage {
    #[serde(skip)]
    program: &'static str,
    #[serde(skip)]
    summary: &'static str,
    title: String,
    created: String,
    seconds: f64,
    machine: Machine,
    sections: Vec<Section>,
}

/// A table, with plots of it.
#[derive(Clone, Debug, Serialize)]
pub struct Section {
    table: Table,
    #[serde(skip)]
    charts: Vec<Chart>,
}

impl Section {
    /// A table without plots.
    pub fn plain(table: Table) -> Self {
        Self { table, charts: Vec::new() }
    }

    pub(crate) fn plotted(table: Table, charts: Vec<Chart>) -> Self {
        Self { table, charts }
    }

    /// The table.
    pub fn table(&self) -> &Table {
        &self.table
    }
}

#[derive(Template)]
#[template(path = "speed.html")]
struct Html<'a> {
    frame: Frame<'a>,
    page: &'a SpeedPage,
}

impl SpeedPage {
    /// A page about this machine, now.
    pub fn new(title: &str, seconds: f64, sections: Vec<Section>) -> Self {
        Self {
            program: "sealane speed",
            summary: SUMMARY,
            title: title.to_owned(),
            created: machine::utc_now(),
            seconds,
            machine: Machine::describe(),
            sections,
        }
    }

    /// The same page, by another command.
    pub(crate) fn by(self, program: &'static str, summary: &'static str) -> Self {
        Self { program, summary, ..self }
    }

    /// Renders the page.
    ///
    /// # Errors
    /// When the template fails.
    pub fn to_html(&self) -> Result<String, LabError> {
        let charts: Vec<&Chart> = self.sections.iter().flat_map(|section| &section.charts).collect();
        let headline = (self.title.as_str(), self.created.as_str(), self.seconds);
        let html =
            Html { frame: Frame::new(self.program, headline, &self.machine, &charts, self)?, page: self };
        html.render().map_err(|error| LabError::Render(error.to_string()))
    }

    /// Writes the page.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), LabError> {
        fs::write(path, self.to_html()?).map_err(LabError::file("cannot write", path))
    }
}

/// A chart over labels, one series for each `(name, values)`.
pub(crate) fn chart(
    id: &str,
    kind: &str,
    (title, x_label, y_label): (&str, &str, &str),
    labels: Vec<String>,
    series: Vec<(String, Vec<Option<f64>>)>,
) -> Chart {
    let series = series.into_iter().map(|(name, median)| Series {
        name,
        low: median.clone(),
        high: median.clone(),
        median,
    });
    Chart {
        id: id.to_owned(),
        kind: match kind {
            "lines" => Drawn::Lines,
            "stacked" => Drawn::Stacked,
            _ => Drawn::Bars,
        },
        title: title.to_owned(),
        x_label: x_label.to_owned(),
        y_label: y_label.to_owned(),
        labels,
        series: series.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_becomes_markup() {
        let mut table = Table::new("<b>&", &["<script>"], &["a<", "b"], 1);
        table.rows.push(vec!["</script><script>alert(1)".to_owned(), "1".to_owned()]);
        let page = SpeedPage::new("<i>", 1.0, vec![Section::plain(table)]);
        let html = page.to_html().unwrap();
        for text in ["<b>&", "<i>", "<script>alert", "a<<"] {
            assert!(!html.contains(text), "{text}");
        }
        assert!(html.contains("class=\"n\">1<"));
        assert!(html.ends_with("</html>\n") || html.ends_with("</html>"));
    }
}
