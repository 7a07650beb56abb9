//! The settings of a strongSwan daemon in the form of strongswan.conf(5). Tests, and the lab, which measures that daemon
//! too, include this file with `#[path]`.
//!
//! Guarantees: the daemon is controlled by a socket and logs into a file, both of the caller's choice, and not into the
//! system's log.

/// The settings of one daemon.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings<'a> {
    /// The names of the plugins to load, in order.
    pub(crate) load: &'a str,
    /// The path of the control socket.
    pub(crate) socket: &'a str,
    /// The path of the log.
    pub(crate) log: &'a str,
    /// The levels of the log, by subsystem.
    pub(crate) levels: &'a str,
    /// Sections of plugins.
    pub(crate) plugins: &'a str,
    /// Other settings and sections.
    pub(crate) more: &'a str,
}

impl Settings<'_> {
    /// Returns the file's text.
    pub(crate) fn text(&self) -> String {
        let Self { load, socket, log, levels, plugins, more } = self;
        format!(
            "charon-systemd {{
    load = {load}
    plugins {{
        vici {{
            socket = unix://{socket}
        }}
        {plugins}
    }}
    journal {{
        default = -1
    }}
    filelog {{
        f {{
            path = {log}
            flush_line = yes
            {levels}
        }}
    }}
    {more}
}}
"
        )
    }
}
