//! Sends a file or tree from this process to another one: `two_processes SOURCE TARGET`.
//!
//! The library starts the far end as a child of the same program, called with `serve --stdio`; over ssh or with
//! a daemon the call is the same, with another [`Location`].

use std::{env, path::PathBuf, process::ExitCode, sync::Arc};

use sealane_copy::{Location, Notice, Options, Progress, StdioOptions, Wishes, copy, serve_stdio};

fn main() -> ExitCode {
    let arguments: Vec<PathBuf> = env::args_os().skip(1).map(PathBuf::from).collect();
    let outcome = match arguments.as_slice() {
        [serve, ..] if serve.as_os_str() == "serve" => serve_stdio(StdioOptions::default()),
        [source, target] => {
            let (source, target) = (Location::Local(source.clone()), Location::Local(target.clone()));
            let wishes = Wishes { recursive: true, ..Wishes::default() };
            let options = Options { wishes, ..Options::default() };
            let mut show = |notice: Notice| eprintln!("{notice:?}");
            copy(&[source], &target, &options, &Arc::new(Progress::default()), &mut show).map(|summary| {
                let suite = summary.suite.map_or_else(|| "no suite".to_owned(), |suite| suite.to_string());
                println!("{} bytes in {:.3} s, {suite}", summary.bytes, summary.seconds);
            })
        }
        _ => {
            eprintln!("usage: two_processes SOURCE TARGET");
            return ExitCode::from(2);
        }
    };
    if let Err(error) = &outcome {
        eprintln!("{error}");
    }
    if outcome.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
