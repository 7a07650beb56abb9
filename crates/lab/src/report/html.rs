//! The page: one file with its style, its script, the plotting library and all data inside.
//!
//! Guarantees: every text passes the template's escaping; the data is embedded in a form that no content can end; the
//! page's own policy forbids it to load or send anything.

use super::Report;
use super::charts::Chart;
use super::number::duration;
use super::page::{self, Fact, Section};
use crate::LabError;
use crate::experiment::{ClaimResult, Profile, Verdict};
use crate::machine::Machine;
use crate::studies::Study;
use askama::Template;
use serde::Serialize;

const UPLOT_SCRIPT: &str = include_str!("../../assets/uplot/uPlot.iife.min.js");
const UPLOT_STYLE: &str = include_str!("../../assets/uplot/uPlot.min.css");
const UPLOT_LICENSE: &str = include_str!("../../assets/uplot/LICENSE");
const PAGE_SCRIPT: &str = include_str!("../../assets/report.js");
const PAGE_STYLE: &str = include_str!("../../assets/report.css");

/// Scripts, styles and a licence that are part of every page.
pub(crate) struct Assets {
    pub(crate) uplot_script: &'static str,
    pub(crate) uplot_style: &'static str,
    pub(crate) uplot_license: &'static str,
    pub(crate) page_script: &'static str,
    pub(crate) page_style: &'static str,
}

const ASSETS: Assets = Assets {
    uplot_script: UPLOT_SCRIPT,
    uplot_style: UPLOT_STYLE,
    uplot_license: UPLOT_LICENSE,
    page_script: PAGE_SCRIPT,
    page_style: PAGE_STYLE,
};

/// The input of `page.html`, the same for all pages.
pub(crate) struct Frame<'a> {
    pub(crate) program: &'a str,
    pub(crate) title: &'a str,
    pub(crate) created: &'a str,
    /// The duration of the measurements, if it is known.
    pub(crate) took: Option<String>,
    pub(crate) machine: &'a Machine,
    pub(crate) facts: Vec<Fact>,
    pub(crate) charts_json: String,
    /// Whether the page needs the plotting library.
    pub(crate) has_charts: bool,
    /// The raw data, if the page holds them.
    pub(crate) report_json: Option<String>,
    pub(crate) assets: Assets,
}

impl<'a> Frame<'a> {
    /// Returns the frame of a page by `program` that took `seconds` to measure; 0 if nobody knows.
    pub(crate) fn new(
        program: &'a str,
        (title, created, seconds): (&'a str, &'a str, f64),
        machine: &'a Machine,
        charts: &[&Chart],
    ) -> Result<Self, LabError> {
        Ok(Self {
            program,
            title,
            created,
            took: (seconds > 0.0).then(|| duration(seconds)),
            machine,
            facts: page::facts(machine),
            charts_json: embeddable_json(&charts)?,
            has_charts: !charts.is_empty(),
            report_json: None,
            assets: ASSETS,
        })
    }

    /// Returns the frame of a page that holds `data`.
    pub(crate) fn with_data(self, data: &impl Serialize) -> Result<Self, LabError> {
        Ok(Self { report_json: Some(embeddable_json(data)?), ..self })
    }
}

#[derive(Template)]
#[template(path = "report.html")]
struct Page<'a> {
    frame: Frame<'a>,
    report: &'a Report,
    profile: Option<&'static str>,
    sections: Vec<Section>,
    verdicts: Vec<(&'static str, &'static str, usize)>,
    studies: Vec<&'static Study>,
}

/// Renders `report` as one self-contained HTML file.
pub fn to_html(report: &Report) -> Result<String, LabError> {
    let sections = page::sections(report);
    let charts: Vec<&Chart> = sections.iter().flat_map(|section| &section.charts).collect();
    let headline = (report.title.as_str(), report.created.as_str(), report.seconds);
    let page = Page {
        frame: Frame::new(&report.program, headline, &report.machine, &charts)?.with_data(report)?,
        report,
        profile: report.profile.map(Profile::name),
        verdicts: verdicts(report.outcomes.iter().flat_map(|outcome| &outcome.claims)),
        studies: page::mentioned(&sections),
        sections,
    };
    page.render().map_err(|error| LabError::Render(error.to_string()))
}

/// Returns class, words and number of each verdict that occurs, in the grammar of its number.
pub(crate) fn verdicts<'a>(
    claims: impl IntoIterator<Item = &'a ClaimResult>,
) -> Vec<(&'static str, &'static str, usize)> {
    let found: Vec<Verdict> = claims.into_iter().map(|claim| claim.verdict).collect();
    let all = [
        Verdict::Holds,
        Verdict::DoesNotHold,
        Verdict::NotDecidable,
        Verdict::MachineBusy,
        Verdict::ByConstruction,
        Verdict::NotMeasured,
        Verdict::NotJudged,
    ];
    all.into_iter()
        .map(|verdict| {
            let class = page::class_of(verdict);
            let count = found.iter().filter(|found| **found == verdict).count();
            let words = match (verdict, count) {
                (Verdict::Holds, 2..) => "hold",
                (Verdict::DoesNotHold, 2..) => "do not hold",
                _ => verdict.words(),
            };
            (class, words, count)
        })
        .filter(|(_, _, count)| *count > 0)
        .collect()
}

/// Returns JSON that may stand inside a `script` element: no `<` survives, so no content can close the element or
/// open a comment in it, and no line separator that older JavaScript treated as the end of a line.
fn embeddable_json(value: &impl Serialize) -> Result<String, LabError> {
    let text = serde_json::to_string(value).map_err(|error| LabError::Render(error.to_string()))?;
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                safe.push_str(&format!("\\u{:04x}", u32::from(character)));
            }
            _ => safe.push(character),
        }
    }
    Ok(safe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn embedded_json_cannot_end_its_element_and_reads_back() {
        let hostile = ["</script><script>alert(1)</script>", "<!--", "a & b", "\u{2028}\u{2029}"];
        let safe = embeddable_json(&hostile).unwrap();
        assert!(!safe.contains(['<', '>', '&', '\u{2028}', '\u{2029}']));
        let back: Vec<String> = serde_json::from_str(&safe).unwrap();
        assert_eq!(back, hostile);
    }

    /// These are the checksums in `assets/uplot/README.md`.
    #[test]
    fn the_plotting_library_is_the_published_one() {
        let sum = |text: &str| {
            let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, text.as_bytes());
            digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect::<String>()
        };
        let promised = include_str!("../../assets/uplot/README.md");
        assert!(promised.contains(&sum(UPLOT_SCRIPT)));
        assert!(promised.contains(&sum(UPLOT_STYLE)));
        assert!(!UPLOT_SCRIPT.contains("</script"));
    }
}
