//! Tests statistically whether an operation's time depends on its secrets: `dudect [--seconds N] [--tier TIER] [NAME]`.
//!
//! For every operation whose name contains NAME, and every tier, it times inputs with one secret and inputs with other
//! secrets, in random order, and prints the largest |t| of Welch's test over several croppings. Above 10 the times
//! differ beyond doubt, which is printed as a leak and makes the exit code 1; below, nothing was found in so many
//! measurements. The batch tier runs eight operations of one class side by side. A machine that does other things at
//! the same time needs more seconds, and does not make leaks. The first line is a control: a comparison that ends at the
//! first difference, which the test must find. The native tier is AWS-LC's code, whose leaks are shown and do not
//! change the exit code.

mod entries;
mod welch;

use std::process::ExitCode;
use std::time::Duration;

use sealane_transform::{ASYMMETRIC_WAYS, AsymmetricJob, Kernels, Tier};
use welch::{Class, LEAK, Verdict, measure};

fn main() -> ExitCode {
    let mut seconds = 5.0;
    let mut tiers = vec![Tier::Reference, Tier::Native, Tier::Batch];
    let mut wanted = String::new();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().unwrap_or_default();
        match argument.as_str() {
            "--seconds" => seconds = value().parse().expect("--seconds takes a number"),
            "--tier" => tiers = vec![value().parse().expect("--tier takes the name of a tier")],
            _ => wanted = argument,
        }
    }
    let budget = Duration::from_secs_f64(seconds);
    let control = control(budget.min(Duration::from_secs(1)));
    print("control: a comparison that ends early", "-", &control);
    if !control.is_leak() {
        println!("the control's leak was not found: this machine is too noisy, or the time too short");
        return ExitCode::FAILURE;
    }
    let mut leaks = 0;
    for entry in entries::all().into_iter().filter(|entry| entry.name.contains(&wanted)) {
        for &tier in &tiers {
            let Ok(kernels) = Kernels::select(Some(tier), None) else { continue };
            let ways = if tier == Tier::Batch { ASYMMETRIC_WAYS } else { 1 };
            let verdict = measure(
                budget,
                |class| -> Vec<_> { (0..ways).map(|_| (entry.secret)(class)).collect() },
                |secrets| -> Vec<_> {
                    secrets.iter().map(|secret| AsymmetricJob::new((entry.build)(secret))).collect()
                },
                |jobs| {
                    kernels.asymmetric(jobs);
                },
            );
            print(&entry.name, tier.name(), &verdict);
            leaks += usize::from(verdict.is_leak() && tier != Tier::Native);
        }
    }
    if leaks == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Tests a comparison of 4096 bytes that ends at the first difference: a random secret differs at once.
fn control(budget: Duration) -> Verdict {
    let secret = vec![1u8; 4096];
    measure(
        budget,
        |class| vec![u8::from(class == Class::Fixed); 4096],
        Vec::clone,
        |input| {
            let equal = input.iter().zip(&secret).take_while(|(a, b)| std::hint::black_box(a == b)).count();
            std::hint::black_box(equal);
        },
    )
}

fn print(name: &str, tier: &str, verdict: &Verdict) {
    let t = verdict.t.map_or_else(|| "too few".to_owned(), |t| format!("{t:.2}"));
    let says = match verdict.t {
        Some(t) if t > LEAK => "leak",
        Some(_) => "nothing found",
        None => "no verdict",
    };
    let Verdict { measurements, mean, difference, .. } = *verdict;
    println!(
        "{name:40} {tier:10} |t| {t:>8}  {says:14} {measurements:>8} times, mean {mean:.0}, {difference:+.1}"
    );
}
