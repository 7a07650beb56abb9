//! The rival: a SoftHSM token with the same key. Behind p11-kit's server the key is in another process than its users; the
//! module alone has it in theirs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

/// The token's password.
pub(crate) const PIN: &str = "1234";

/// A server with a token. It ends when this value is dropped.
pub(crate) struct Server {
    process: Child,
    /// The address that clients get in `P11_KIT_SERVER_ADDRESS`.
    pub(crate) address: String,
    /// The file that users of the module alone get in `SOFTHSM2_CONF`.
    pub(crate) config: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Returns the module by which clients reach a server of p11-kit, or the name of what is missing here.
pub(crate) fn module() -> Result<PathBuf, &'static str> {
    let has = |program: &str| Command::new(program).arg("--version").output().is_ok();
    for program in ["softhsm2-util", "p11-kit", "openssl"] {
        if !has(program) {
            return Err(program);
        }
    }
    let place = format!("/usr/lib/{}-linux-gnu/pkcs11/p11-kit-client.so", std::env::consts::ARCH);
    let place = PathBuf::from(place);
    if place.exists() { Ok(place) } else { Err("p11-kit-client.so") }
}

/// SoftHSM's module.
pub(crate) const MODULE: &str = "/usr/lib/softhsm/libsofthsm2.so";

/// Runs a program that must succeed.
fn run(command: &mut Command) {
    let output = command.output().expect("a program");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Makes a token in `folder` with the key of its file `key.der`, and serves it.
pub(crate) fn serve(folder: &Path) -> Server {
    let (tokens, config, pem) = (folder.join("tokens"), folder.join("softhsm2.conf"), folder.join("key.pem"));
    fs::create_dir_all(&tokens).expect("a folder");
    let text = format!(
        "directories.tokendir = {}\nobjectstore.backend = file\nlog.level = ERROR\n",
        tokens.display()
    );
    fs::write(&config, text).expect("a file");
    run(Command::new("openssl")
        .args(["pkey", "-inform", "DER", "-in"])
        .arg(folder.join("key.der"))
        .arg("-out")
        .arg(&pem));
    let util = |arguments: &[&str]| {
        let mut command = Command::new("softhsm2-util");
        command.env("SOFTHSM2_CONF", &config).args(arguments);
        command
    };
    run(&mut util(&["--init-token", "--free", "--label", "sealane", "--so-pin", PIN, "--pin", PIN]));
    run(util(&["--token", "sealane", "--label", "bench", "--id", "01", "--pin", PIN, "--import"]).arg(&pem));
    let socket = folder.join("p11-kit");
    let mut command = Command::new("p11-kit");
    command.args(["server", "--foreground", "--provider", MODULE, "--name"]);
    command.arg(&socket).arg("pkcs11:token=sealane").env("SOFTHSM2_CONF", &config);
    let process = command.stdout(Stdio::null()).spawn().expect("a server");
    let (address, config) = (format!("unix:path={}", socket.display()), config.display().to_string());
    let server = Server { process, address, config };
    for _ in 0..200 {
        if socket.exists() {
            return server;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("p11-kit's server did not start");
}
