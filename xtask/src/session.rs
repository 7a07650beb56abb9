//! Records the README's picture of a session: a real copy, on a pseudo-terminal of 80 columns, drawn as SVG; and the
//! first hour on two hosts, which a test of the program runs and writes as a transcript. Only the commands in them
//! are written by hand.

use anyhow::{Context, Result, ensure};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;

const PICTURE: &str = "docs/session.svg";
const COLUMNS: usize = 80;
/// It lies in memory, so that no disk is measured.
const SCRATCH: &str = "/dev/shm";
const FILE_BYTES: u64 = 1 << 30;
const ARGUMENTS: &[&str] = &["cp", "--stats", "disk.img", "backup/"];

/// Runs the sessions of the documents, as root, and writes their transcripts.
pub(crate) fn write_transcript(root: &Path) -> Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let arguments = ["test", "--quiet", "--package", "sealane", "--test", "first_hour", "--test", "tunnels"];
    let mut command = Command::new(cargo);
    command
        .current_dir(root)
        .args(arguments)
        .env("SEALANE_WRITE_SESSION", "1")
        .env("SEALANE_REQUIRE_PEERS", "1");
    let status = command.status().context("running cargo")?;
    ensure!(status.success(), "the session has failed");
    Ok(())
}

/// Builds the program, records a copy, and writes the picture.
pub(crate) fn record(root: &Path) -> Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let arguments = ["build", "--quiet", "--release", "--package", "sealane"];
    let status = Command::new(cargo).current_dir(root).args(arguments).status().context("running cargo")?;
    ensure!(status.success(), "the program does not build");
    let folder = Path::new(SCRATCH).join(format!("sealane-session-{}", std::process::id()));
    fs::create_dir_all(folder.join("backup")).context("making a folder for the session")?;
    let frames = copy(&root.join("target/release/sealane"), &folder);
    fs::remove_dir_all(&folder).context("removing the session's folder")?;
    let path = root.join(PICTURE);
    fs::create_dir_all(root.join("docs")).context("making docs")?;
    fs::write(&path, picture(&frames?)?).with_context(|| format!("writing {}", path.display()))
}

/// Returns all states of the screen, one after the other.
fn copy(program: &Path, folder: &Path) -> Result<Vec<String>> {
    let mut random = File::open("/dev/urandom").context("opening /dev/urandom")?.take(FILE_BYTES);
    let mut file = File::create(folder.join("disk.img")).context("making a file")?;
    io::copy(&mut random, &mut file).context("filling a file")?;
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).context("opening a terminal")?;
    grantpt(&master).and_then(|()| unlockpt(&master)).context("opening a terminal")?;
    let size = Winsize { ws_row: 24, ws_col: COLUMNS as u16, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&master, size).context("setting the terminal's size")?;
    let name = ptsname(&master, Vec::new()).context("naming the terminal")?;
    let name = Path::new(OsStr::from_bytes(name.to_bytes()));
    let screen = || OpenOptions::new().read(true).write(true).open(name).context("opening a terminal");
    let mut command = Command::new(program);
    command.args(ARGUMENTS).current_dir(folder).env("TERM", "xterm");
    let mut child =
        command.stdin(screen()?).stdout(screen()?).stderr(screen()?).spawn().context("starting it")?;
    // Our end is closed with the command, so that reading ends when the program does.
    drop(command);
    let mut terminal = File::from(master);
    let (mut frames, mut shown) = (Vec::new(), Screen::default());
    let mut buffer = [0; 4096];
    // Reading fails once no process has the terminal open any more.
    while let Ok(length @ 1..) = terminal.read(&mut buffer) {
        shown.write(&String::from_utf8_lossy(&buffer[..length]));
        frames.push(shown.text());
    }
    let status = child.wait().context("waiting for the program")?;
    ensure!(status.success(), "the copy failed: {status}");
    Ok(frames)
}

/// The state of a terminal, for the few control sequences of a progress bar and lines of text.
#[derive(Debug, Default)]
struct Screen {
    rows: Vec<Vec<char>>,
    row: usize,
    column: usize,
}

impl Screen {
    fn write(&mut self, text: &str) {
        let mut rest = text.chars();
        while let Some(c) = rest.next() {
            match c {
                '\r' => self.column = 0,
                '\n' => self.row += 1,
                '\x1b' => self.control(&mut rest),
                c => {
                    if self.column == COLUMNS {
                        (self.row, self.column) = (self.row + 1, 0);
                    }
                    let column = self.column;
                    let row = self.current();
                    row.resize(row.len().max(column + 1), ' ');
                    row[column] = c;
                    self.column += 1;
                }
            }
        }
    }

    fn current(&mut self) -> &mut Vec<char> {
        self.rows.resize_with(self.rows.len().max(self.row + 1), Vec::new);
        &mut self.rows[self.row]
    }

    /// `ESC [`, a number, a letter.
    fn control(&mut self, rest: &mut std::str::Chars<'_>) {
        let mut number = String::new();
        for c in rest.by_ref() {
            match c {
                '0'..='9' => number.push(c),
                c if c.is_ascii_alphabetic() => {
                    let count = number.parse().unwrap_or(1);
                    match c {
                        'A' => self.row = self.row.saturating_sub(count),
                        'B' => self.row += count,
                        'K' => self.current().clear(),
                        _ => {}
                    }
                    return;
                }
                _ => {}
            }
        }
    }

    fn text(&self) -> String {
        let lines = self.rows.iter().map(|row| row.iter().collect::<String>().trim_end().to_owned());
        lines.collect::<Vec<_>>().join("\n").trim_end().to_owned()
    }
}

/// Returns the command, the screen midway, and the screen at the end.
fn picture(frames: &[String]) -> Result<String> {
    let bars: Vec<&String> = frames.iter().filter(|frame| frame.contains("[#")).collect();
    let midway = bars.get(bars.len() * 2 / 3).context("there was no bar: too quick to be recorded")?;
    let end = frames.last().context("nothing was shown")?;
    let command = format!("$ sealane {}", ARGUMENTS.join(" "));
    let lines: Vec<&str> = [command.as_str()]
        .into_iter()
        .chain(midway.lines())
        .chain(["", "  ... and at its end:", ""])
        .chain(end.lines())
        .collect();
    Ok(svg(&lines))
}

fn svg(lines: &[&str]) -> String {
    const LINE: usize = 18;
    let (width, height) = (COLUMNS * 8 + 32, lines.len() * LINE + 32);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"A terminal: sealane cp with its progress bar, and \
         its statistics\">\n<rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#16202c\"/>\n\
         <g font-family=\"ui-monospace, Menlo, Consolas, monospace\" font-size=\"13\" fill=\"#d6dee8\">\n"
    );
    for (index, line) in lines.iter().enumerate() {
        let line = line.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        let colour = match index {
            0 => " fill=\"#8fd18f\"",
            _ => "",
        };
        let y = 28 + index * LINE;
        // Writing to a string succeeds.
        let _ = writeln!(svg, "<text x=\"16\" y=\"{y}\" xml:space=\"preserve\"{colour}>{line}</text>");
    }
    svg + "</g>\n</svg>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_drawn_over_itself_and_gone_at_the_end() {
        let mut screen = Screen::default();
        screen.write("one\r\n[#---]");
        assert_eq!(screen.text(), "one\n[#---]");
        screen.write("\x1b[1A\r\x1b[2Kone\r\n\x1b[2K[##--]");
        assert_eq!(screen.text(), "one\n[##--]");
        screen.write("\r\x1b[2K\x1b[1A\r\x1b[2Kbytes 1\r\n");
        assert_eq!(screen.text(), "bytes 1");
    }

    #[test]
    fn a_picture_has_the_bar_and_the_end() {
        let frames = ["f\n1 B [#-]", "f\n2 B [##]", "bytes <2>"].map(str::to_owned);
        let svg = picture(&frames).expect("there is a bar");
        for part in ["$ sealane cp", "2 B [##]", "bytes &lt;2&gt;"] {
            assert!(svg.contains(part), "no {part} in {svg}");
        }
        assert!(picture(&frames[2..]).is_err());
    }
}
