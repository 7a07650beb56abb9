//! A NATS server for one test, on a free port of this host.

use sealane_fleet::journal::Journal;
use sealane_fleet::nats::{Keeping, NatsCoordinatorQueue, NatsQueue, Server};
use sealane_fleet::{CoordinatorQueue, Queue};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Leases of a lost worker end soon, because the tests wait for that.
pub(crate) const KEEPING: Keeping = Keeping { jobs: 50, ack_wait: Duration::from_secs(2) };

pub(crate) struct Served {
    server: Child,
    folder: tempfile::TempDir,
    address: Server,
    queue: Option<NatsCoordinatorQueue>,
}

impl Served {
    /// Starts a server with an empty queue.
    pub(crate) fn start() -> Result<Self, String> {
        let mut served = Self::with("")?;
        let journal = Journal::open(&served.folder.path().join("results"), |_| true).expect("a journal");
        let queue = NatsCoordinatorQueue::open(&served.address, None, "run", journal, KEEPING);
        served.queue = Some(queue.map_err(|error| error.to_string())?);
        Ok(served)
    }

    /// The coordinator's side of the queue.
    #[allow(dead_code, reason = "each test uses a part of this")]
    pub(crate) fn coordinator(&self) -> &dyn CoordinatorQueue {
        self.queue.as_ref().expect("it was opened")
    }

    /// Starts a server with TLS, which lets in whoever has one of these certificates, with the rights of these users.
    #[allow(dead_code, reason = "each test uses a part of this")]
    pub(crate) fn protected(
        identity: &Path,
        certificate: &str,
        clients: &str,
        users: &str,
    ) -> Result<Self, String> {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, text) in [("server.crt", certificate), ("clients.crt", clients)] {
            std::fs::write(folder.path().join(name), text).expect("a file");
        }
        let mut served = Self::with(&format!(
            "tls {{ cert_file: \"{at}/server.crt\", key_file: \"{}\", ca_file: \"{at}/clients.crt\", verify_and_map: true }}\n\
             authorization {{ users = [\n{users}] }}\n",
            identity.display(),
            at = folder.path().display(),
        ))?;
        served.address.is_protected = true;
        Ok(served)
    }

    fn with(more: &str) -> Result<Self, String> {
        let folder = tempfile::tempdir().expect("a folder");
        let config = folder.path().join("nats.conf");
        let text = format!(
            "listen: \"127.0.0.1:-1\"\nports_file_dir: \"{at}\"\njetstream {{ store_dir: \"{at}/store\", sync_interval: always }}\n{more}",
            at = folder.path().display()
        );
        std::fs::write(&config, text).expect("a file");
        let (server, port) = Self::spawn(&folder)?;
        let address = format!("nats://127.0.0.1:{port}").parse().expect("an address");
        Ok(Self { server, folder, address, queue: None })
    }

    /// One more worker.
    #[allow(dead_code, reason = "each test uses a part of this")]
    pub(crate) fn worker(&self) -> Box<dyn Queue> {
        Box::new(NatsQueue::connect(&self.address, None, "run", None).expect("a queue"))
    }

    /// Returns the server's address, as `--queue` takes it.
    #[allow(dead_code, reason = "each test uses a part of this")]
    pub(crate) fn address(&self) -> String {
        self.address.to_string()
    }

    /// Returns the server's address.
    #[allow(dead_code, reason = "each test uses a part of this")]
    pub(crate) fn server(&self) -> &Server {
        &self.address
    }

    /// Kills the server, and starts it again over what it has stored, at the same address.
    #[allow(dead_code, reason = "each test uses a part of this")]
    pub(crate) fn restart(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
        let config = self.folder.path().join("nats.conf");
        let text = std::fs::read_to_string(&config).expect("a configuration");
        let here = format!("listen: \"127.0.0.1:{}\"", self.address.address.port);
        std::fs::write(&config, text.replace("listen: \"127.0.0.1:-1\"", &here)).expect("a file");
        (self.server, _) = Self::spawn(&self.folder).expect("it starts again");
    }

    fn spawn(folder: &tempfile::TempDir) -> Result<(Child, u16), String> {
        let mut command = Command::new("nats-server");
        command.arg("-c").arg(folder.path().join("nats.conf")).stdout(Stdio::null()).stderr(Stdio::null());
        let mut server = command.spawn().map_err(|_| "nats-server is missing".to_owned())?;
        let ports = folder.path().join(format!("nats-server_{}.ports", server.id()));
        let give_up = Instant::now() + Duration::from_secs(20);
        loop {
            let text = std::fs::read_to_string(&ports).unwrap_or_default();
            let port =
                text.split("://127.0.0.1:").nth(1).and_then(|rest| rest.split('"').next()?.parse().ok());
            match port {
                Some(port) => return Ok((server, port)),
                None if Instant::now() > give_up => {
                    let _ = server.kill();
                    let _ = server.wait();
                    return Err("nats-server does not listen".into());
                }
                None => thread::sleep(Duration::from_millis(10)),
            }
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
        // Its files go with the folder.
        let _ = self.folder.path();
    }
}
