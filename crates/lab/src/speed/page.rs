//! Measurements as one self-contained page, in the form of the lab's reports.
//!
//! Guarantees: as those of [`crate::report`]: it loads nothing, every text is escaped, and all figures are inside.

use super::table::Table;
use super::{Measurement, Row};
use crate::LabError;
use crate::machine::{self, Machine};
use crate::report::charts::{Chart, Series};
use crate::report::html::Frame;
use crate::report::number::quantity;
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
    rows: Vec<Row>,
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
    pub fn new(title: &str, seconds: f64, found: &[Measurement], sections: Vec<Section>) -> Self {
        Self {
            program: "sealane speed",
            summary: SUMMARY,
            title: title.to_owned(),
            created: machine::utc_now(),
            seconds,
            machine: Machine::describe(),
            rows: found.iter().map(|one| one.row.clone()).collect(),
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
    kind: &'static str,
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
        kind,
        title: title.to_owned(),
        x_label: x_label.to_owned(),
        y_label: y_label.to_owned(),
        labels,
        series: series.collect(),
    }
}

/// Every row, and rates over lengths where there are several.
pub fn rows(found: &[Measurement]) -> Option<Section> {
    const SERIES_MAX: usize = 24;
    if found.is_empty() {
        return None;
    }
    let mut table = Table::new(
        "Rates",
        &["MB/s of all lanes; ns a message and cycles a byte (of the time stamp counter) of one lane."],
        &[
            "algorithm",
            "way",
            "tier",
            "isa",
            "bytes",
            "lanes",
            "batch",
            "MB/s",
            "ns a message",
            "cycles a byte",
            "peer",
            "peer MB/s",
            "ratio",
            "table bytes",
            "working set",
        ],
        4,
    );
    let mut labels: Vec<usize> = Vec::new();
    for one in found {
        let row = &one.row;
        let facts = one.algorithm.facts();
        let or_dash = |value: Option<String>| value.unwrap_or_else(|| "–".to_owned());
        table.rows.push(vec![
            row.algorithm.clone(),
            row.direction.unwrap_or("–").to_owned(),
            row.tier.to_owned(),
            row.isa.to_owned(),
            row.bytes.to_string(),
            row.lanes.to_string(),
            row.batch.to_string(),
            quantity(row.mb_per_s),
            quantity(row.ns_per_message),
            or_dash(row.cycles_per_byte.map(|cycles| format!("{cycles:.3}"))),
            row.peer.unwrap_or("–").to_owned(),
            or_dash(row.peer_mb_per_s.map(quantity)),
            or_dash(row.ratio.map(|ratio| format!("{ratio:.2}"))),
            facts.table_bytes.to_string(),
            facts.working_set_bytes.to_string(),
        ]);
        if !labels.contains(&row.bytes) {
            labels.push(row.bytes);
        }
    }
    labels.sort_unstable();
    let mut series: Vec<(String, Vec<Option<f64>>)> = Vec::new();
    for one in found {
        let row = &one.row;
        let way = row.direction.filter(|way| matches!(*way, "decrypt" | "open")).unwrap_or("");
        let place = labels.iter().position(|bytes| *bytes == row.bytes);
        let mut put = |name: String, value: f64| {
            let at = match series.iter().position(|(found, _)| *found == name) {
                Some(at) => at,
                None => {
                    series.push((name, vec![None; labels.len()]));
                    series.len() - 1
                }
            };
            if let Some(place) = place {
                series[at].1[place] = Some(value);
            }
        };
        let lanes = if row.lanes > 1 { format!(" × {}", row.lanes) } else { String::new() };
        put(format!("{} {way} {}/{}{lanes} {}", row.algorithm, row.tier, row.isa, row.batch), row.mb_per_s);
        if let (Some(peer), Some(rate)) = (row.peer, row.peer_mb_per_s) {
            put(format!("{} {way} {peer}{lanes}", row.algorithm), rate);
        }
    }
    let charts = if labels.len() > 1 && series.len() <= SERIES_MAX {
        let labels = labels.iter().map(usize::to_string).collect();
        vec![chart("rates", "lines", ("Rates", "bytes of a message", "MB/s"), labels, series)]
    } else {
        Vec::new()
    };
    Some(Section::plotted(table, charts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_becomes_markup() {
        let mut table = Table::new("<b>&", &["<script>"], &["a<", "b"], 1);
        table.rows.push(vec!["</script><script>alert(1)".to_owned(), "1".to_owned()]);
        let page = SpeedPage::new("<i>", 1.0, &[], vec![Section::plain(table)]);
        let html = page.to_html().unwrap();
        for text in ["<b>&", "<i>", "<script>alert", "a<<"] {
            assert!(!html.contains(text), "{text}");
        }
        assert!(html.contains("class=\"n\">1<"));
        assert!(html.ends_with("</html>\n") || html.ends_with("</html>"));
    }
}
