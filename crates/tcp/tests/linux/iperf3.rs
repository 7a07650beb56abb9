//! iperf3's server as the foreign end, both ways. Our end is its client: one connection agrees on the test, and
//! another one carries it.
//!
//! The protocol is the one that iperf3's `iperf_api.h` names: states of one byte from either side, and objects of
//! JSON behind their length as four bytes. A cookie of 37 bytes identifies the client of a connection.

use super::common::ip::Address;
use super::common::node::Node;
use super::{BYTES, KERNEL, OURS, carry_all, config, skip, with_tun};
use sealane_tcp::Time;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PORT: u16 = 5201;
const COOKIE: &[u8; 37] = b"abcdefghijklmnopqrstuvwxyz2345677777\0";

const TEST_START: u8 = 1;
const TEST_RUNNING: u8 = 2;
const TEST_END: u8 = 4;
const PARAMETERS: u8 = 9;
const CREATE_STREAMS: u8 = 10;
const RESULTS: u8 = 13;
const DISPLAY: u8 = 14;
const DONE: u8 = 16;

/// Which end sends.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Sender {
    Ours,
    Theirs,
}

/// The state of the agreement.
struct Agreement {
    sender: Sender,
    /// Bytes of the control connection that have been processed.
    read: usize,
    /// The time since which all sent data has been acknowledged.
    quiet_since: Option<Instant>,
    is_running: bool,
    has_ended: bool,
    has_told_results: bool,
    /// The server's count.
    counted: Option<u64>,
}

fn object(text: &str) -> Vec<u8> {
    [&(text.len() as u32).to_be_bytes()[..], text.as_bytes()].concat()
}

/// Returns the first number with this name.
fn number(json: &str, name: &str) -> u64 {
    let (_, rest) = json.split_once(&format!("\"{name}\":")).unwrap_or_else(|| panic!("{name} in {json}"));
    let digits: String = rest.trim_start().chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or_else(|_| panic!("{name} in {json}"))
}

impl Agreement {
    /// Answers the messages that have come; returns true once the server has reported its count.
    fn go_on(&mut self, nodes: &mut Vec<Node>, now: Time) -> bool {
        let Some(&state) = nodes[0].received.get(self.read) else {
            self.end_when_all_has_come(nodes);
            return false;
        };
        match state {
            PARAMETERS => {
                let reverse = if self.sender == Sender::Theirs { r#","reverse":true"# } else { "" };
                let wish =
                    format!(r#"{{"tcp":true,"omit":0,"time":0,"num":{BYTES},"blockcount":0,"parallel":1,"#);
                let wish =
                    format!(r#"{wish}"len":131072,"pacing_timer":1000,"client_version":"3.12"{reverse}}}"#);
                nodes[0].stream.extend(object(&wish));
            }
            CREATE_STREAMS => {
                let local = Address { port: OURS.port + 1, ..OURS };
                let mut data = Node::connect(&config(), local, Address { ip: KERNEL, port: PORT }, now);
                data.stream = COOKIE.to_vec();
                nodes.push(data);
            }
            TEST_START => {}
            TEST_RUNNING => {
                self.is_running = true;
                if self.sender == Sender::Ours {
                    nodes[1].stream.extend(super::stream(1));
                }
            }
            RESULTS => {
                self.exchange_results(nodes);
                return false;
            }
            DISPLAY => {
                nodes[0].stream.push(DONE);
                self.read += 1;
                return true;
            }
            other => panic!("the server is in state {}", other as i8),
        }
        self.read += 1;
        false
    }

    /// Ends the test: the client does so once it has received all it wanted, or has no more to send. The server does
    /// not count bytes that it has not read by then.
    fn end_when_all_has_come(&mut self, nodes: &mut [Node]) {
        let [control, data] = nodes else { return };
        let has_all = match self.sender {
            Sender::Ours => data.pool.in_use() == 0,
            Sender::Theirs => data.received.len() as u64 >= BYTES,
        };
        if !self.is_running || self.has_ended || !has_all {
            self.quiet_since = None;
            return;
        }
        let since = *self.quiet_since.get_or_insert_with(Instant::now);
        if self.sender == Sender::Theirs || since.elapsed() > Duration::from_millis(500) {
            control.stream.push(TEST_END);
            self.has_ended = true;
        }
    }

    /// Sends our results, which the server does not look at, and reads its own once they are complete.
    fn exchange_results(&mut self, nodes: &mut [Node]) {
        if !self.has_told_results {
            let result = format!(
                r#"{{"cpu_util_total":0,"cpu_util_user":0,"cpu_util_system":0,"sender_has_retransmits":0,"streams":[{{"id":1,"bytes":{BYTES},"retransmits":0,"jitter":0,"errors":0,"packets":0,"start_time":0,"end_time":1}}]}}"#
            );
            nodes[0].stream.extend(object(&result));
            self.has_told_results = true;
        }
        let Some((length, rest)) = nodes[0].received[self.read + 1..].split_first_chunk() else { return };
        let length = u32::from_be_bytes(*length) as usize;
        assert!(length < 1 << 16, "the server's results have {length} bytes");
        let Some(json) = rest.get(..length) else { return };
        self.counted = Some(number(std::str::from_utf8(json).expect("JSON"), "bytes"));
        self.read += 1 + 4 + length;
    }
}

/// Returns a server for one test, in this thread's network. Returns `None` if iperf3 is not installed.
fn server() -> Option<Child> {
    let arguments = ["-s", "-1", "--forceflush", "-p", &PORT.to_string()];
    let mut server = Command::new("iperf3").args(arguments).stdout(Stdio::piped()).spawn().ok()?;
    let mut lines = BufReader::new(server.stdout.take().expect("it was piped")).lines();
    lines.find(|line| line.as_ref().expect("text").contains("listening")).expect("it listens").expect("text");
    // A process that writes to a pipe without a reader ends.
    std::thread::spawn(move || lines.for_each(drop));
    Some(server)
}

fn measure(sender: Sender) {
    with_tun(move |mut tun| {
        let Some(mut server) = server() else {
            return skip::skip("iperf3 is not installed");
        };
        let start = Instant::now();
        let mut agreement = Agreement {
            sender,
            read: 0,
            quiet_since: None,
            is_running: false,
            has_ended: false,
            has_told_results: false,
            counted: None,
        };
        let mut control = Node::connect(&config(), OURS, Address { ip: KERNEL, port: PORT }, Time::ZERO);
        control.stream = COOKIE.to_vec();
        let mut nodes = vec![control];
        let mut is_over = false;
        while !is_over {
            let now = Time::from_ns(start.elapsed().as_nanos() as u64);
            is_over = agreement.go_on(&mut nodes, now);
            let (mut turns, known) = (0, nodes[0].received.len());
            carry_all(&mut nodes, &mut tun, start, 10, |nodes| {
                turns += 1;
                turns > 20 || nodes[0].received.len() > known
            });
        }
        nodes.iter_mut().for_each(|node| node.closes = true);
        carry_all(&mut nodes, &mut tun, start, 10, |nodes| {
            nodes.iter().all(|node| node.is_peer_closed || node.ended.is_some())
                && server.try_wait().expect("it was started").is_some()
        });
        assert!(server.wait().expect("it was started").success());
        let counted = agreement.counted.expect("the server's results");
        match sender {
            Sender::Ours => {
                assert!((BYTES * 9 / 10..=BYTES).contains(&counted), "it counted {counted} bytes")
            }
            Sender::Theirs => {
                let received = nodes[1].received.len() as u64;
                assert!(received >= BYTES && received <= counted, "it sent {counted} bytes, {received} came");
            }
        }
    });
}

#[test]
fn iperf3_is_sent_to() {
    measure(Sender::Ours);
}

#[test]
fn iperf3_sends() {
    measure(Sender::Theirs);
}
