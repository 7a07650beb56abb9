//! Runs `tests/scripts/*.tcp`: conversations with a scripted peer, in virtual time.
//!
//! A line is one of these; numbers are relative to the initial ones, as in a capture:
//!
//! | Line | Meaning |
//! | --- | --- |
//! | `config sack=on nagle=on …` | before the open; see `configure` for the names and the defaults |
//! | `connect`, `accept` | opens; `accept` takes the SYN that the next line says |
//! | `< FLAGS SEQ+BYTES ack N win N …` | this segment arrives; also `sack A-B …`, `ts V/E`, `mss N`, `ws N`, `sackok` |
//! | `> FLAGS SEQ+BYTES ack N …` | the next segment that was sent; what is not mentioned is not compared, but for SACK |
//! | `+SECONDS` | time passes, deadlines are met |
//! | `send N`, `consume N`, `close`, `abort` | the application asks |
//! | `event NAME`, `state NAME` | the next event; the state |
//! | `delivered N`, `acked N`, `refused N` | bytes delivered, messages acknowledged, payloads refused, in all |
//!
//! Every segment and event must be named, in order, before anything else happens.

use sealane_tcp::{
    Config, Congestion, Connection, Flags, Header, KeepAlive, Out, Payload, Secrets, Segment, Seq, Time,
    Timestamps, Transmit,
};
use std::collections::VecDeque;
use std::path::Path;
use std::time::Duration;

const OURS: Seq = Seq(u32::MAX - 2000);
const THEIRS: Seq = Seq(u32::MAX - 500);
const STAMP_OFFSET: u32 = 10_000;

struct Runner {
    config: Config,
    connection: Option<Connection>,
    out: Out,
    now: Time,
    sent: VecDeque<Transmit>,
    events: VecDeque<String>,
    delivered: u64,
    acked: u64,
    refused: u64,
    is_accepting: bool,
}

type Outcome = Result<(), String>;

fn ensure(is_so: bool, message: impl FnOnce() -> String) -> Outcome {
    if is_so { Ok(()) } else { Err(message()) }
}

fn number<T: std::str::FromStr>(text: Option<&str>) -> Result<T, String> {
    text.and_then(|text| text.parse().ok()).ok_or_else(|| format!("no number: {text:?}"))
}

fn flags(text: &str) -> Result<Flags, String> {
    text.chars().filter(|&letter| letter != '-').try_fold(Flags::NONE, |flags, letter| {
        let flag = match letter {
            'F' => Flags::FIN,
            'S' => Flags::SYN,
            'R' => Flags::RST,
            'P' => Flags::PSH,
            '.' => Flags::ACK,
            'U' => Flags::URG,
            other => return Err(format!("no flag: {other}")),
        };
        Ok(flags | flag)
    })
}

/// A segment as a script describes it.
struct Said {
    header: Header,
    bytes: u32,
    has_window: bool,
}

fn segment(words: &mut std::str::SplitWhitespace<'_>, from: Seq, to: Seq) -> Result<Said, String> {
    let flags = flags(words.next().unwrap_or(""))?;
    let (seq, bytes) = words.next().and_then(|text| text.split_once('+')).ok_or("SEQ+BYTES is missing")?;
    let mut said = Said {
        header: Header { seq: from + number::<u32>(Some(seq))?, flags, window: 10_000, ..Header::default() },
        bytes: number(Some(bytes))?,
        has_window: false,
    };
    let options = &mut said.header.options;
    while let Some(word) = words.next() {
        match word {
            "ack" => said.header.ack = to + number::<u32>(words.next())?,
            "win" => {
                said.header.window = number(words.next())?;
                said.has_window = true;
            }
            "mss" => options.mss = Some(number(words.next())?),
            "ws" => options.window_scale = Some(number(words.next())?),
            "sackok" => options.sack_permitted = true,
            "ts" => {
                let (value, echo) =
                    words.next().and_then(|text| text.split_once('/')).ok_or("V/E is missing")?;
                options.timestamps =
                    Some(Timestamps { value: number(Some(value))?, echo: number(Some(echo))? });
            }
            "sack" => {}
            block => {
                let (first, last) = block.split_once('-').ok_or_else(|| format!("what is {block}?"))?;
                options.sack.push(to + number::<u32>(Some(first))?, to + number::<u32>(Some(last))?);
            }
        }
    }
    Ok(said)
}

fn configure(config: &mut Config, setting: &str) -> Outcome {
    let (name, value) = setting.split_once('=').ok_or("NAME=VALUE is missing")?;
    let is_on = value == "on";
    let ms = || number::<u64>(Some(value)).map(Duration::from_millis);
    match name {
        "mss" => config.mss = number(Some(value))?,
        "sack" => config.sack = is_on,
        "nagle" => config.nagle = is_on,
        "join" => config.join_messages = is_on,
        "timestamps" => config.timestamps = is_on,
        "window" => config.receive_bytes = number(Some(value))?,
        "reassembly" => config.reassembly_segments = number(Some(value))?,
        "retries" => config.retries = number(Some(value))?,
        "syn_retries" => config.syn_retries = number(Some(value))?,
        "time_wait_ms" => config.time_wait = ms()?,
        "keep_alive_ms" => {
            config.keep_alive = Some(KeepAlive { idle: ms()?, interval: ms()? / 10, probes: 2 });
        }
        _ => return Err(format!("no setting: {name}")),
    }
    Ok(())
}

impl Runner {
    fn new() -> Self {
        let config = Config {
            mss: 1000,
            congestion: Congestion::NewReno,
            nagle: false,
            sack: false,
            timestamps: false,
            receive_bytes: 10_000,
            time_wait: Duration::from_secs(10),
            ..Config::default()
        };
        Self {
            out: Out::new(&config, 4),
            config,
            connection: None,
            now: Time::from_ns(1_000_000_000),
            sent: VecDeque::new(),
            events: VecDeque::new(),
            delivered: 0,
            acked: 0,
            refused: 0,
            is_accepting: false,
        }
    }

    fn drain(&mut self) {
        self.sent.extend(self.out.send.drain(..));
        self.events.extend(self.out.events.drain(..).map(|event| format!("{event:?}")));
        self.delivered += self.out.deliver.drain(..).map(|payload| u64::from(payload.bytes)).sum::<u64>();
        self.acked += self.out.acked.drain(..).count() as u64;
        self.refused += self.out.refused.drain(..).count() as u64;
        self.out.clear();
        if let Some(connection) = &self.connection {
            connection.assert_invariants();
        }
    }

    fn line(&mut self, line: &str) -> Outcome {
        let mut words = line.split_whitespace();
        let word = words.next().unwrap_or("");
        match word {
            ">" => return self.expect(&mut words),
            "event" => {
                let (seen, said) = (self.events.pop_front(), words.next().unwrap_or(""));
                return ensure(seen.as_deref() == Some(said), || format!("event {seen:?}"));
            }
            "delivered" | "acked" | "refused" => {
                let seen = [self.delivered, self.acked, self.refused];
                let seen = seen
                    [["delivered", "acked", "refused"].iter().position(|&name| name == word).unwrap_or(0)];
                let said = number(words.next())?;
                return ensure(seen == said, || format!("{word} {seen}"));
            }
            "state" => {
                let seen = format!("{:?}", self.connection.as_ref().map(Connection::state));
                let said = format!("Some({})", words.next().unwrap_or(""));
                return ensure(seen == said, || seen);
            }
            _ => {}
        }
        ensure(self.sent.is_empty() && self.events.is_empty(), || {
            format!("not named: {:?} {:?}", self.sent.iter().map(told).collect::<Vec<_>>(), self.events)
        })?;
        let secrets =
            Secrets { isn: OURS, timestamp_offset: STAMP_OFFSET.wrapping_sub(self.now.as_ms_wrapping()) };
        let now = self.now;
        match word {
            "config" => words.try_for_each(|setting| configure(&mut self.config, setting))?,
            "accept" => self.is_accepting = true,
            "connect" => {
                self.out = Out::new(&self.config, 4);
                self.connection = Some(Connection::connect(&self.config, secrets, now, &mut self.out));
            }
            "<" => {
                let said = segment(&mut words, THEIRS, OURS)?;
                if std::mem::take(&mut self.is_accepting) {
                    self.out = Out::new(&self.config, 4);
                    let connection =
                        Connection::accept(&self.config, secrets, &said.header, now, &mut self.out);
                    self.connection = Some(connection);
                } else {
                    let payload = Payload { slot: 0, start: 0, bytes: said.bytes };
                    let segment = Segment { header: said.header, payload };
                    let connection = self.connection.as_mut().ok_or("not open")?;
                    assert_eq!(connection.receive(&[segment], now, &mut self.out), 1);
                }
            }
            "send" => {
                let message = Payload { slot: 0, start: 0, bytes: number(words.next())? };
                let connection = self.connection.as_mut().ok_or("not open")?;
                let taken = connection.send(&[message], now, &mut self.out);
                ensure(taken == Ok(1), || format!("{taken:?}"))?;
            }
            "consume" => {
                let bytes = number(words.next())?;
                self.connection.as_mut().ok_or("not open")?.consume(bytes, now, &mut self.out);
            }
            "close" => self.connection.as_mut().ok_or("not open")?.close(now, &mut self.out),
            "abort" => self.connection.as_mut().ok_or("not open")?.abort(now, &mut self.out),
            _ => {
                let seconds: f64 = number(word.strip_prefix('+'))?;
                self.pass(now + Duration::from_secs_f64(seconds))?;
            }
        }
        self.drain();
        Ok(())
    }

    fn pass(&mut self, until: Time) -> Outcome {
        let connection = self.connection.as_mut().ok_or("not open")?;
        while let Some(deadline) = connection.deadline().filter(|&deadline| deadline <= until) {
            self.now = self.now.max(deadline);
            connection.on_deadline(self.now, &mut self.out);
        }
        self.now = until;
        Ok(())
    }

    fn expect(&mut self, words: &mut std::str::SplitWhitespace<'_>) -> Outcome {
        let said = segment(words, OURS, THEIRS)?;
        let seen = self.sent.pop_front().ok_or("nothing was sent")?;
        let (want, got) = (&said.header, &seen.header);
        let options = (&want.options, &got.options);
        let is_ack = want.flags.has(Flags::ACK);
        let is_same = want.flags == got.flags
            && want.seq == got.seq
            && said.bytes == seen.parts.bytes()
            && (!is_ack || want.ack == got.ack)
            && (!said.has_window || want.window == got.window)
            && options.0.sack == options.1.sack
            && (options.0.mss.is_none() || options.0.mss == options.1.mss)
            && (options.0.window_scale.is_none() || options.0.window_scale == options.1.window_scale)
            && (!options.0.sack_permitted || options.1.sack_permitted)
            && (options.0.timestamps.is_none() || options.0.timestamps == options.1.timestamps);
        ensure(is_same, || format!("sent {}", told(&seen)))
    }
}

/// Returns a segment in the words of a script.
fn told(transmit: &Transmit) -> String {
    let Header { seq, ack, flags, window, options } = transmit.header;
    let mut text =
        format!("{flags:?} {}+{} ack {}", seq.since(OURS), transmit.parts.bytes(), ack.since(THEIRS));
    text += &format!(" win {window}");
    for &(from, to) in options.sack.iter() {
        text += &format!(" sack {}-{}", from.since(THEIRS), to.since(THEIRS));
    }
    if let Some(Timestamps { value, echo }) = options.timestamps {
        text += &format!(" ts {value}/{echo}");
    }
    text
}

fn run(script: &str) -> Outcome {
    let mut runner = Runner::new();
    for (index, line) in (1..).zip(script.lines()) {
        let line = line.split('#').next().unwrap_or("").trim();
        if !line.is_empty() {
            runner.line(line).map_err(|what| format!("line {index}: {line}\n    {what}"))?;
        }
    }
    let rest: Vec<String> = runner.sent.iter().map(told).collect();
    ensure(rest.is_empty() && runner.events.is_empty(), || {
        format!("at the end: {rest:?} {:?}", runner.events)
    })
}

#[test]
fn every_script() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts");
    let mut failures = Vec::new();
    let mut scripts = 0;
    for entry in std::fs::read_dir(folder).expect("the folder of scripts") {
        let path = entry.expect("a script").path();
        let script = std::fs::read_to_string(&path).expect("a script that can be read");
        scripts += 1;
        if let Err(what) = run(&script) {
            failures.push(format!("{}: {what}", path.file_name().unwrap_or_default().display()));
        }
    }
    failures.sort_unstable();
    assert!(failures.is_empty(), "{} of {scripts} scripts failed\n{}", failures.len(), failures.join("\n"));
    assert!(scripts >= 25, "{scripts} scripts");
}

#[test]
fn a_script_that_is_wrong_fails() {
    assert_eq!(run("connect\n> S 0+0"), Ok(()));
    for wrong in [
        "connect\n> S 1+0",
        "connect\n> S. 0+0",
        "connect\n> S 0+1",
        "connect",
        "connect\n> S 0+0\nstate Closed",
    ] {
        assert!(run(wrong).is_err(), "{wrong}");
    }
}
