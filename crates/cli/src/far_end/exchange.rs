//! A program that gets input from this process, and its answer.
//!
//! Guarantees: no more of an answer is read than a bound, and a program that neither reads, writes nor exits for the
//! given time is killed. Processes that it has started itself are not waited for.

use anyhow::{Context, anyhow};
use std::io::{Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

/// More than any honest answer.
const ANSWER_BYTES_MAX: u64 = 64 << 10;
/// Bytes that are written at once.
const CHUNK_BYTES: usize = 64 << 10;
/// The interval between checks whether the program has exited.
const PULSE: Duration = Duration::from_millis(10);
/// The time that the output of an exited program may still take to arrive.
const AFTERWARDS: Duration = Duration::from_secs(2);

/// The answer of a program.
pub(super) struct Answer {
    pub(super) status: ExitStatus,
    pub(super) output: String,
    pub(super) errors: String,
}

/// A child process that is killed on drop.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // This fails only if the program has already exited.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a command with `input`, and gives up after `patience` without a sign of life.
pub(super) fn run(mut command: Command, input: Vec<u8>, patience: Duration) -> anyhow::Result<Answer> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let program = command.get_program().to_string_lossy().into_owned();
    let mut child = Running(command.spawn().with_context(|| format!("cannot start {program}"))?);
    let (alive, signs) = channel();
    let output = child.0.stdout.take().map(read);
    let errors = child.0.stderr.take().map(read);
    if let Some(mut pipe) = child.0.stdin.take() {
        thread::spawn(move || {
            for chunk in input.chunks(CHUNK_BYTES) {
                // A program that stops reading reports the reason in its output.
                if pipe.write_all(chunk).is_err() || alive.send(()).is_err() {
                    return;
                }
            }
        });
    }
    let mut heard = Instant::now();
    let status = loop {
        if let Some(status) = child.0.try_wait().context("waiting for ssh")? {
            break status;
        }
        if signs.try_iter().count() > 0 {
            heard = Instant::now();
        }
        if heard.elapsed() > patience {
            return Err(anyhow!("no answer for {} s", patience.as_secs()));
        }
        if [&output, &errors].into_iter().flatten().any(Pipe::is_over_full) {
            return Err(too_long());
        }
        thread::sleep(PULSE);
    };
    let text = |pipe: Option<Pipe>| pipe.map_or(Ok(String::new()), Pipe::text);
    Ok(Answer { status, output: text(output)?, errors: text(errors)? })
}

fn too_long() -> anyhow::Error {
    anyhow!("the answer has more than {ANSWER_BYTES_MAX} bytes, so it is not a valid one")
}

/// The bytes of a pipe, read by a thread of its own.
struct Pipe {
    bytes: Receiver<Vec<u8>>,
    over_full: Receiver<()>,
}

fn read(pipe: impl Read + Send + 'static) -> Pipe {
    let (done, bytes) = channel();
    let (over, over_full) = channel();
    thread::spawn(move || {
        let mut text = Vec::new();
        let mut bounded = pipe.take(ANSWER_BYTES_MAX + 1);
        // The bytes before a failure are the answer.
        let _ = bounded.read_to_end(&mut text);
        if text.len() as u64 > ANSWER_BYTES_MAX {
            let _ = over.send(());
        }
        // The receiver is gone if the program was given up.
        let _ = done.send(text);
    });
    Pipe { bytes, over_full }
}

impl Pipe {
    fn is_over_full(&self) -> bool {
        self.over_full.try_recv().is_ok()
    }

    fn text(self) -> anyhow::Result<String> {
        let bytes = self.bytes.recv_timeout(AFTERWARDS).unwrap_or_default();
        // A program that continues to write to the closed pipe ends because of that.
        if bytes.len() as u64 > ANSWER_BYTES_MAX {
            return Err(too_long());
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, input: &[u8], patience: Duration) -> anyhow::Result<Answer> {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        run(command, input.to_vec(), patience)
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn what_goes_in_and_comes_out() {
        let input = vec![b'x'; 300_000];
        let answer = shell("wc -c; echo bad >&2; exit 3", &input, LONG).expect("an answer");
        assert_eq!((answer.output.trim(), answer.errors.as_str()), ("300000", "bad\n"));
        assert_eq!(answer.status.code(), Some(3));
        // A program that does not read its input has not failed.
        assert!(shell("exit 0", &input, LONG).expect("an answer").status.success());
    }

    #[test]
    fn an_answer_without_end_and_a_silence_are_given_up() {
        for script in ["yes", "yes >&2", "sleep 1000 & yes"] {
            let error = shell(script, b"", LONG).err().expect("it is given up").to_string();
            assert!(error.contains("more than 65536 bytes"), "{script}: {error}");
        }
        let error = shell("exec sleep 1000", b"", Duration::from_millis(50)).err().expect("it is given up");
        assert!(error.to_string().contains("no answer"), "{error}");
    }
}
