//! The program on a pseudo-terminal of its own, as a user runs it: the text on the screen, and the effect of keys.

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread::{self, sleep};
use std::time::Duration;

use super::{Running, eventually, eventually_some};

/// The byte that Ctrl-C sends.
pub(crate) const CTRL_C: &[u8] = b"\x03";

/// A program in the foreground of a terminal. It is killed when dropped.
pub(crate) struct Terminal {
    child: Running,
    keyboard: File,
    output: Arc<Mutex<Vec<u8>>>,
}

impl Terminal {
    /// Starts `command` on a terminal with this number of columns. Its standard streams are the terminal.
    pub(crate) fn start(command: &Command, columns: u16) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        grantpt(&master).and_then(|()| unlockpt(&master)).expect("a terminal");
        let size = Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&master, size).expect("a size");
        let name = ptsname(&master, Vec::new()).expect("a name");
        let name = Path::new(std::ffi::OsStr::from_bytes(name.to_bytes()));
        let screen = || OpenOptions::new().read(true).write(true).open(name).expect("a terminal");
        // The command needs a session of its own, with standard input as its terminal: otherwise keys do not send
        // signals.
        let mut on_terminal = Command::new("setsid");
        on_terminal.arg("--ctty").arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => on_terminal.env(name, value),
                None => on_terminal.env_remove(name),
            };
        }
        on_terminal.env("TERM", "xterm").stdin(screen()).stdout(screen()).stderr(screen());
        let child = Running(on_terminal.spawn().expect("setsid of util-linux starts"));
        let keyboard = File::from(master);
        let output = Arc::new(Mutex::new(Vec::new()));
        let (mut reader, written) = (keyboard.try_clone().expect("a descriptor"), output.clone());
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            // Reading fails once nobody has the terminal open any more.
            while let Ok(length @ 1..) = reader.read(&mut buffer) {
                written.lock().expect("no thread panics holding it").extend_from_slice(&buffer[..length]);
            }
        });
        Self { child, keyboard, output }
    }

    pub(crate) fn press(&mut self, keys: &[u8]) {
        self.keyboard.write_all(keys).expect("a terminal");
    }

    /// Returns everything that was written to the terminal, including control sequences.
    pub(crate) fn written(&self) -> String {
        String::from_utf8_lossy(&self.output.lock().expect("no thread panics holding it")).into_owned()
    }

    /// Waits until `text` was written.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, text: &str) {
        let is_there = eventually(|| {
            let ended = self.child.try_wait().expect("its status");
            assert!(ended.is_none() || self.written().contains(text), "it ended: {:?}", self.written());
            self.written().contains(text)
        });
        assert!(is_there, "no {text:?} in {:?}", self.written());
    }

    /// Waits for the program's end. Returns its exit status and everything that was written.
    #[track_caller]
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        let status = eventually_some(|| self.child.try_wait().expect("its status"));
        let status = status.unwrap_or_else(|| panic!("it hangs after {:?}", self.written()));
        // The last bytes may still be on their way from the terminal to the reader.
        sleep(Duration::from_millis(100));
        (status.code(), self.written())
    }
}

/// Returns the lines that appeared, in order, without control sequences and without blanks at their ends.
pub(crate) fn lines(written: &str) -> Vec<String> {
    let mut plain = String::new();
    let mut rest = written.chars();
    while let Some(c) = rest.next() {
        match c {
            // A control sequence: `ESC [`, parameters, a letter. It ends the text on its line.
            '\x1b' => {
                rest.find(|c| c.is_ascii_alphabetic());
                plain.push('\n');
            }
            '\r' => plain.push('\n'),
            c => plain.push(c),
        }
    }
    plain.lines().map(|line| line.trim_end().to_owned()).filter(|line| !line.is_empty()).collect()
}
