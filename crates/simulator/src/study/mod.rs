//! The paper's experiments, and its sentences over a sweep of guesses.

mod bench;
mod claims;
mod coverage;
mod figures;
mod guesses;

pub use bench::{Bench, Cell, Found, built_in, works};
pub use claims::{Bound, Checked, TOLERANCE, check};
pub use figures::{Figure, Kind, all, one};
pub use guesses::{Listed, VARIANTS, Variant, listed};

use crate::machine::Machine;
use serde::Serialize;

/// The result for a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Under every set of guesses.
    Holds,
    /// It holds under no set of guesses.
    Fails,
    /// Under some.
    Depends,
}

/// A sentence of the paper and the result for it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Claim {
    /// The place of the sentence in the paper.
    pub source: &'static str,
    /// The sentence.
    pub sentence: &'static str,
    /// The definition of our figure.
    pub measure: &'static str,
    /// The required range of the figure.
    pub bound: Bound,
    /// Our figure under the guesses of the machines' files.
    pub value: f64,
    /// The least and the greatest figure over all guesses.
    pub range: (f64, f64),
    /// The result.
    pub verdict: Verdict,
    /// The guesses that turn it.
    pub turned_by: Vec<String>,
}

/// All that the study says.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Study {
    /// The machines, as their files have them.
    pub machines: Vec<Machine>,
    /// Tables and figures.
    pub figures: Vec<Figure>,
    /// The paper's sentences.
    pub claims: Vec<Claim>,
    /// Every guess.
    pub guesses: Vec<Listed>,
    /// Parts that are not available.
    pub absent: Vec<&'static str>,
}

/// Parts of the paper that the study does not have, with the reason.
const ABSENT: [&str; 4] = [
    "Absolute rates and the bars of the paper's figures: the plots are lost.",
    "Code in Microengine C and Intel's SDKs, and so lines of code (Table V's last row) and the compilers of Figs 6 and 7; \
     with --compilers this host's run instead.",
    "SHA-1 on the IXP1200, which the paper's compiler refused; our kernel runs there, and no sentence about it counts it.",
    "Block-level parallelism of MD5, SHA-1 and RC4, whose blocks are a chain.",
];

/// Runs everything. `step` is called after each set of guesses, with the number of sets done and of all sets.
pub fn run(mut step: impl FnMut(usize, usize)) -> Study {
    let (works, machines) = (works(), built_in());
    let total = VARIANTS.len() + 1;
    let mut bench = Bench::new(machines.to_vec(), &works);
    let base = check(&mut bench);
    let figures = all(&mut bench);
    step(1, total);
    let mut others = Vec::new();
    for (number, variant) in VARIANTS.iter().enumerate() {
        let mut machines = machines.to_vec();
        machines.iter_mut().for_each(variant.apply);
        others.push((variant, check(&mut Bench::new(machines, &works))));
        step(number + 2, total);
    }
    let claims = base.iter().enumerate().map(|(at, base)| claim(at, base, &others)).collect();
    Study {
        guesses: listed(&machines),
        machines: machines.to_vec(),
        figures,
        claims,
        absent: ABSENT.to_vec(),
    }
}

fn claim(at: usize, base: &Checked, others: &[(&Variant, Vec<Checked>)]) -> Claim {
    let holds = |one: &Checked| one.bound.holds(one.value);
    let turned: Vec<String> = others
        .iter()
        .filter(|(_, found)| holds(&found[at]) != holds(base))
        .map(|(variant, _)| format!("{}: {}", variant.guess, variant.value))
        .collect();
    let values = || others.iter().map(|(_, found)| found[at].value).chain([base.value]);
    Claim {
        source: base.source,
        sentence: base.sentence,
        measure: base.measure,
        bound: base.bound,
        value: base.value,
        range: (values().fold(f64::INFINITY, f64::min), values().fold(f64::NEG_INFINITY, f64::max)),
        verdict: match (turned.is_empty(), holds(base)) {
            (true, true) => Verdict::Holds,
            (true, false) => Verdict::Fails,
            (false, _) => Verdict::Depends,
        },
        turned_by: turned,
    }
}
