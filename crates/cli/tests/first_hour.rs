//! The first hour, as shown in `docs/first-hour.md`: two hosts with an sshd and a daemon between them, commands that
//! work and commands that are refused. `cargo xtask session` writes the document.

mod program;
mod session;

use session::Session;

#[test]
fn the_first_hour_is_as_documented() {
    let session = Session {
        document: "first-hour.md",
        script: "first_hour/session.sh",
        head: "# The first hour\n\n\
               A session on two hosts, `laptop` and `server`. `cargo xtask session` writes this file, and a test repeats the \
               session\nand compares the output. The progress bar is left out.\n",
        tail: "",
        tools: &["unshare", "ip", "sshd", "ssh", "ssh-keygen", "timeout", "cmp"],
    };
    session.holds();
}
