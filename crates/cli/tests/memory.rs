//! Memory of both ends of a copy with the maximum number of streams.

mod program;
mod support;

use std::fs;
use std::thread::sleep;
use std::time::Duration;
use support::Chance;
use support::daemon::Served;
use support::run::{Run, peak_bytes};

/// The limits are those of docs/measurements.md. Without optimisation, the pages of the program itself take some 24 MiB
/// more.
const END_BYTES_MAX: u64 = if cfg!(debug_assertions) { 56 } else { 32 } << 20;
const STREAMS: &str = "64";
const CONTENT_BYTES: usize = 96 << 20;

#[test]
fn neither_end_of_64_streams_takes_more_than_its_bound() {
    let served = Served::start(None);
    let (there, here) = (served.root().join("sent"), served.home().join("given"));
    fs::write(&here, Chance::new(1).bytes(CONTENT_BYTES)).expect("a file");
    let back = served.home().join("back");
    let utf8 = |path: &std::path::Path| path.to_str().expect("UTF-8").to_owned();
    for (from, to) in [(utf8(&here), served.place("sent")), (served.place("sent"), utf8(&back))] {
        // The rate is low enough that every stream is open before the end, and that the memory can be read.
        let arguments = ["--accept-new", "--streams", STREAMS, "--limit-rate", "100M", &from, &to];
        let mut run = Run::start(&served.home(), &arguments);
        let mut client_bytes = 0;
        while !run.has_ended() {
            // Before its first output, the process may still be the copy of this one that starts it.
            let has_begun = !run.events().is_empty();
            client_bytes = if has_begun { peak_bytes(run.number()) } else { 0 }.max(client_bytes);
            sleep(Duration::from_millis(5));
        }
        run.ends(0);
        assert!(client_bytes > 0, "it was seen");
        for (end, bytes) in [("the client", client_bytes), ("the daemon", served.peak_bytes())] {
            assert!(bytes <= END_BYTES_MAX, "{end} has taken {bytes} bytes from {from} to {to}");
        }
    }
    for copy in [there, back] {
        assert!(fs::read(copy).expect("a file") == fs::read(&here).expect("a file"));
    }
}
