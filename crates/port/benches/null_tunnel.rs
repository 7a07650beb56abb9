//! Measures TCP through the example `null_tunnel` between two namespaces, in alternation with another program if one
//! is given:
//!
//! ```sh
//! cargo build --release -p sealane-port --example null_tunnel
//! cargo bench -p sealane-port --bench null_tunnel -- [PROGRAM [LAST ARGUMENTS]]
//! ```
//!
//! `PROGRAM DEVICE OWN-ADDRESS PEER-ADDRESS [LAST ARGUMENTS]` must bring up `DEVICE` and block.

#[allow(dead_code)]
#[path = "../tests/namespaces/mod.rs"]
mod namespaces;

use namespaces::{Tunnel, missing, null_tunnel};

const ROUNDS: usize = 5;
const SECONDS: u32 = 4;

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    if let Some(why) = missing() {
        println!("skipped: {why}");
        return;
    }
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let own = null_tunnel().to_string_lossy().into_owned();
    let ours = |lanes: &'static str| {
        let own = own.clone();
        Tunnel::up(move |device, local, peer| {
            [&own, device, &format!("{local}:7100"), &format!("{peer}:7100"), lanes]
                .map(ToString::to_string)
                .to_vec()
        })
        .of_single_bursts()
    };
    let mut tunnels =
        vec![("a lane a direction".to_owned(), ours("1")), ("two lanes a direction".to_owned(), ours("2"))];
    if let Some((program, last)) = arguments.split_first() {
        let tunnel = Tunnel::up(|device, local, peer| {
            let first = [program, device, local, peer].map(ToString::to_string);
            first.into_iter().chain(last.iter().cloned()).collect()
        });
        tunnels.push((program.clone(), tunnel.of_single_bursts()));
    }
    let mut results = vec![Vec::new(); tunnels.len()];
    for _ in 0..ROUNDS {
        for ((_, tunnel), results) in tunnels.iter().zip(&mut results) {
            let before = tunnel.cpu_seconds();
            let (gigabits, again) = tunnel.iperf3(SECONDS);
            let gigabytes = gigabits / 8.0 * f64::from(SECONDS);
            results.push((gigabits, again, (tunnel.cpu_seconds() - before) / gigabytes));
        }
    }
    for ((name, _), results) in tunnels.iter().zip(&results) {
        let of = |pick: fn(&(f64, u64, f64)) -> f64| median(results.iter().map(pick).collect());
        let again: u64 = results.iter().map(|result| result.1).sum();
        println!(
            "{name}: {:.2} Gb/s, {:.2} CPU s/GB of both ends, {again} segments sent again in {ROUNDS} runs",
            of(|result| result.0),
            of(|result| result.2),
        );
    }
}
