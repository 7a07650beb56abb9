//! The paper's experiments, and its sentences over a sweep of guesses.

mod bench;
mod claims;
mod coverage;
mod figure;
mod figures;
mod guesses;
mod public_key;

pub use bench::{Bench, Cell, Found, built_in, works};
pub use claims::{Bound, Checked, Sentence, TOLERANCE, check};
pub use figure::{Figure, Kind};
pub use figures::{all, one};
pub use guesses::{COMBINATIONS, Listed, VARIANTS, Variant, listed};
pub use public_key::PublicKey;

use crate::machine::Machine;
use serde::Serialize;

/// All that the study says.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Study {
    /// The machines, as their files have them.
    pub machines: Vec<Machine>,
    /// Tables and figures.
    pub figures: Vec<Figure>,
    /// The paper's sentences.
    pub sentences: Vec<Sentence>,
    /// Our own sentences about public-key operations, which the paper names as its future work.
    pub public_key: Vec<Sentence>,
    /// The figures that combinations of guesses give beyond that.
    pub combined: Vec<Combined>,
    /// Every guess.
    pub guesses: Vec<Listed>,
    /// Parts that are not available.
    pub absent: Vec<&'static str>,
}

/// A figure that several guesses give together, and none of them alone.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Combined {
    /// The guesses that are made together, in words.
    pub guesses: &'static str,
    /// The statement of the paper that the figure is about, in our words.
    pub sentence: &'static str,
    /// The meaning of the figure.
    pub measure: &'static str,
    /// The figure.
    pub value: f64,
    /// The least and the greatest figure over all guesses, each changed alone.
    pub alone: [f64; 2],
}

/// Parts of the paper that the study does not have, with the reason.
const ABSENT: [&str; 4] = [
    "Absolute rates and the bars of the paper's figures: the plots are lost.",
    "Code in Microengine C and Intel's SDKs, and so lines of code (Table V's last row) and the compilers of Figs 6 and 7; \
     with --compilers this host's run instead.",
    "SHA-1 on the IXP1200, which the paper's compiler refused; our kernel runs there, and no sentence about it counts it.",
    "Block-level parallelism of MD5, SHA-1 and RC4, whose blocks are a chain.",
];

/// Runs everything, with every sentence under the machines' own guesses and under each of `variants`, which alone make its range. Of
/// `combinations` the figures beyond that range are listed. `step` is called after each set of guesses, with the number of sets done
/// and of all sets.
pub fn run(variants: &[Variant], combinations: &[Variant], mut step: impl FnMut(usize, usize)) -> Study {
    let (works, machines) = (works(), built_in());
    let public = PublicKey::new(&works);
    let total = variants.len() + combinations.len() + 1;
    let mut bench = Bench::new(machines.to_vec(), &works);
    let base = check(&mut bench);
    let mut figures = all(&mut bench);
    figures.extend(public.figures(&machines));
    step(1, total);
    let mut sentences: Vec<Sentence> = base.into_iter().map(Sentence::from).collect();
    let mut public_key: Vec<Sentence> = public.check(&machines).into_iter().map(Sentence::from).collect();
    for (number, variant) in variants.iter().enumerate() {
        let mut machines = machines.to_vec();
        machines.iter_mut().for_each(variant.apply);
        let name = format!("{}: {}", variant.guess, variant.value);
        let ours = public.check(&machines);
        let found = check(&mut Bench::new(machines, &works));
        let all = sentences.iter_mut().zip(found).chain(public_key.iter_mut().zip(ours));
        for (sentence, checked) in all {
            sentence.values.push((name.clone(), checked.value));
        }
        step(number + 2, total);
    }
    let mut combined = Vec::new();
    for (number, combination) in combinations.iter().enumerate() {
        let mut machines = machines.to_vec();
        machines.iter_mut().for_each(combination.apply);
        let found = check(&mut Bench::new(machines, &works));
        combined.extend(beyond(combination.value, &sentences, &found));
        step(variants.len() + number + 2, total);
    }
    Study {
        combined,
        guesses: listed(&machines),
        machines: machines.to_vec(),
        figures,
        sentences,
        public_key,
        absent: ABSENT.to_vec(),
    }
}

/// Returns the figures of a combination that lie beyond those of the same sentences by single guesses.
fn beyond(guesses: &'static str, sentences: &[Sentence], found: &[Checked]) -> Vec<Combined> {
    let of = |(sentence, checked): (&Sentence, &Checked)| {
        let [_, low, high] = sentence.range()?;
        let Checked { value, sentence, measure, .. } = *checked;
        let is_beyond = value < low || value > high;
        is_beyond.then_some(Combined { guesses, sentence, measure, value, alone: [low, high] })
    };
    sentences.iter().zip(found).filter_map(of).collect()
}
