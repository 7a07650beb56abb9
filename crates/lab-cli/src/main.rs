//! The `sealane-lab` program. It turns arguments into calls and outcomes into exit statuses, and does nothing else.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    sealane_lab_cli::main(std::env::args_os()).into()
}
