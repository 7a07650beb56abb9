//! The round trips of a copy of an unchanged tree, counted: a line between client and daemon carries bytes in one direction at a
//! time, and turns round only when the end that may speak has nothing more to say.

mod program;
mod support;

use program::write;
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use support::daemon::Served;
use support::run::run_to_end;

/// An end that is silent for this long waits for the other.
const SILENCE: Duration = Duration::from_millis(400);

/// One direction of one connection: where its bytes go, the bytes that wait, and whether no more will come.
struct Half {
    is_up: bool,
    to: TcpStream,
    waiting: Vec<u8>,
    has_ended: bool,
}

struct State {
    halves: Vec<Half>,
    /// The direction that carries.
    is_up: bool,
    last: Instant,
    /// The number of times that the line turned round with something to carry.
    turns: u64,
}

/// A line that carries in one direction at a time.
struct Line {
    address: SocketAddr,
    state: Arc<(Mutex<State>, Condvar)>,
}

impl Line {
    fn lead_to(daemon: SocketAddr) -> Self {
        let address = SocketAddr::from((Ipv4Addr::new(127, 0, 0, 3), daemon.port()));
        let listener = TcpListener::bind(address).expect("the same port of another address is free");
        let state = State { halves: Vec::new(), is_up: true, last: Instant::now(), turns: 0 };
        let state = Arc::new((Mutex::new(state), Condvar::new()));
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let far = TcpStream::connect(daemon).expect("the daemon listens");
                for (is_up, from, to) in [(true, &client, &far), (false, &far, &client)] {
                    let (from, to) = (from.try_clone().expect("a socket"), to.try_clone().expect("a socket"));
                    let mut state = shared.0.lock().expect("nothing panics here");
                    let index = state.halves.len();
                    state.halves.push(Half { is_up, to, waiting: Vec::new(), has_ended: false });
                    let shared = Arc::clone(&shared);
                    thread::spawn(move || read(&shared, index, from));
                }
            }
        });
        let shared = Arc::clone(&state);
        thread::spawn(move || carry(&shared));
        Self { address, state }
    }

    /// Returns the number of round trips since this was last asked: what goes there and back counts as one.
    fn round_trips(&self) -> u64 {
        let mut state = self.state.0.lock().expect("nothing panics here");
        std::mem::take(&mut state.turns).div_ceil(2)
    }
}

fn read(shared: &(Mutex<State>, Condvar), index: usize, mut from: TcpStream) {
    let mut buffer = vec![0; 1 << 16];
    loop {
        let read = from.read(&mut buffer).unwrap_or(0);
        let mut state = shared.0.lock().expect("nothing panics here");
        let is_up = state.is_up;
        let half = &mut state.halves[index];
        half.waiting.extend_from_slice(&buffer[..read]);
        half.has_ended |= read == 0;
        if half.is_up == is_up {
            state.last = Instant::now();
        }
        shared.1.notify_all();
        if read == 0 {
            return;
        }
    }
}

/// Delivers what waits in the direction that carries, and turns round when nothing more comes there and something waits for
/// the other direction.
fn carry(shared: &(Mutex<State>, Condvar)) {
    let mut state = shared.0.lock().expect("nothing panics here");
    loop {
        let is_up = state.is_up;
        for half in state.halves.iter_mut().filter(|half| half.is_up == is_up) {
            // An end that is gone needs nothing more.
            let _ = half.to.write_all(&half.waiting);
            half.waiting.clear();
            if half.has_ended {
                let _ = half.to.shutdown(Shutdown::Write);
            }
        }
        let others = |half: &Half| half.is_up != is_up && !half.waiting.is_empty();
        if state.last.elapsed() >= SILENCE && state.halves.iter().any(others) {
            state.is_up = !is_up;
            state.last = Instant::now();
            state.turns += 1;
            continue;
        }
        state = shared.1.wait_timeout(state, Duration::from_millis(20)).expect("nothing panics here").0;
    }
}

#[test]
fn an_unchanged_tree_costs_few_round_trips() {
    let served = Served::start(None);
    served.grant("read,write,delete");
    let line = Line::lead_to(served.address);
    let root = served.root();
    for number in 0..2000 {
        let folder = root.join(format!("source/{}", number % 40));
        fs::create_dir_all(&folder).expect("a folder");
        write(&folder.join(number.to_string()), format!("content {number}").as_bytes());
    }
    let near = |name: &str| root.join(name).to_str().expect("UTF-8").to_owned();
    let far = |name: &str| format!("sealane://{}/{name}", line.address);
    let ways =
        [(near("source"), far("pushed"), PUSH_TRIPS_MAX), (far("source"), near("pulled"), PULL_TRIPS_MAX)];
    for (from, to, most) in ways {
        for options in [&["-aT"][..], &["-aT", "--delete"]] {
            let arguments = [options, &["--accept-new", &from, &to]].concat();
            let mut fewest = u64::MAX;
            for round in 0..4 {
                line.round_trips();
                let ended = run_to_end(&served.home(), &arguments).expect("it ends");
                assert_eq!(ended.code, Some(0), "{arguments:?}: {ended:?}");
                let trips = line.round_trips();
                if round == 0 {
                    continue;
                }
                assert_eq!((ended.done("files"), ended.done("bytes")), (0, 0), "{ended:?}");
                // Whatever else runs on this machine only adds to the count.
                fewest = fewest.min(trips);
                if fewest <= most {
                    break;
                }
            }
            assert!(fewest <= most, "{arguments:?}: {fewest} round trips");
        }
    }
}

/// One for TLS, one for the request and what the receiver has, and one for what differs and the end.
const PUSH_TRIPS_MAX: u64 = 3;
/// The receiver knows the keys, and can tell what it has, only once it has an answer; the last word is its own as well.
const PULL_TRIPS_MAX: u64 = 4;
