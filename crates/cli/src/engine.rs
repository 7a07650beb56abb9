//! `sealane engine`: runs the engine service, queries it and imports keys.

use crate::args::{
    EngineArgs, EngineCheckArgs, EngineCommand, EngineKeysCommand, EngineServeArgs, EngineSocketArgs,
    EngineStatsArgs, EngineStatusArgs,
};
use crate::exit::ExitStatus;
use crate::failure::{self, Failure};
use crate::signals::Interrupts;
use crate::{systemd, text};
use anyhow::{Context as _, anyhow};
use sealane_client::key::{MU_BYTES, is_name};
use sealane_client::setup::{CHAIN_MAX, ServiceStatus};
use sealane_client::{
    Client, ClientError, Hash, Key, KeyInfo, KeyKind, Operation, Refusal, SOCKET, Status, Uri,
};
use sealane_peer::open_trusted;
use sealane_service::policy::{Names, POLICY_BYTES_MAX};
use sealane_service::service::{bind_at, check_given};
use sealane_service::{
    Audit, Kernels, Policy, Service, ServiceError, Settings, Stop, Vault, VaultError, keyring, protect,
};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use std::thread;
use zeroize::Zeroizing;

/// The name of this program in its messages to the engine.
const PROGRAM: &str = "sealane engine";

/// The maximum length of a file with a private key, in bytes.
const KEY_FILE_BYTES_MAX: u64 = 60_000;
/// The label of a certificate in PEM.
const CERTIFICATE: &str = "CERTIFICATE";

/// The longest passphrase, in bytes.
const PASSPHRASE_BYTES_MAX: u64 = 1024;

/// Runs one of the commands.
pub(crate) fn run(arguments: EngineArgs) -> Result<(), Failure> {
    match arguments.command {
        EngineCommand::Serve(arguments) => serve(&arguments),
        EngineCommand::Status(arguments) => status(&arguments),
        EngineCommand::Stats(EngineStatsArgs { socket, keys }) => {
            print(&client(&socket)?.report().map_err(failed)?.prometheus(keys))
        }
        EngineCommand::Keys(arguments) => keys(arguments.command),
        EngineCommand::Check(arguments) => check(&arguments),
    }
}

fn usage(error: impl Into<anyhow::Error>) -> Failure {
    Failure::new(ExitStatus::Usage, error)
}

fn fault(error: impl Into<anyhow::Error>) -> Failure {
    Failure::new(ExitStatus::Io, error)
}

/// Returns the failure for a failed call: the user's mistake, or the engine's absence.
fn failed(error: ClientError) -> Failure {
    let status = match &error {
        ClientError::Refused(
            Refusal::BadName
            | Refusal::BadKey
            | Refusal::Unsupported { .. }
            | Refusal::Damaged { .. }
            | Refusal::Exists
            | Refusal::OtherCertificate
            | Refusal::NoSuchKey,
        ) => ExitStatus::Usage,
        ClientError::Refused(Refusal::Storage { .. }) | ClientError::Job(_) => ExitStatus::Io,
        _ => ExitStatus::Connection,
    };
    Failure::new(status, error)
}

/// Prints lines, which may contain text of other users.
fn print(text: &str) -> Result<(), Failure> {
    failure::print(&text::lines(text))
}

fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    let line = serde_json::to_string(value).map_err(fault)?;
    failure::print(&format!("{}\n", text::json(&line)))
}

fn client(socket: &EngineSocketArgs) -> Result<Client, Failure> {
    Client::connect(&socket.socket, PROGRAM).map_err(failed)
}

fn serve(arguments: &EngineServeArgs) -> Result<(), Failure> {
    protect::forbid_dumps().map_err(|error| fault(anyhow!(error).context("forbidding core dumps")))?;
    let memory_locked = match protect::lock_memory() {
        Ok(()) => true,
        Err(_) if arguments.allow_swap => false,
        Err(error) => {
            let context = "memory cannot be locked, so keys could be swapped out: raise the limit \
                           (LimitMEMLOCK=infinity in a unit, `ulimit -l unlimited`), or run with --allow-swap";
            return Err(fault(anyhow!(error).context(context)));
        }
    };
    let policy = match &arguments.policy {
        Some(path) => read_policy(path)?,
        None => Policy::of_users(&[0, rustix::process::geteuid().as_raw()]),
    };
    warn(&policy);
    let (passphrase, sealed_by) = passphrase(arguments)?;
    let vault = Vault::open(&arguments.keys, &passphrase).map_err(|error| match error {
        VaultError::Passphrase { .. } | VaultError::NoPassphrase => usage(error),
        _ => fault(error),
    })?;
    let audit = arguments.audit.as_deref().map_or_else(|| Ok(Audit::nowhere()), audit_at)?;
    let listeners = listeners(&arguments.socket.socket)?;
    let workers =
        arguments.workers.map_or_else(|| thread::available_parallelism().map_or(1, usize::from), usize::from);
    let stop = Stop::new().map_err(fault)?;
    let users = policy.users();
    let (audits_uses, kernels) = (arguments.audit_uses, Kernels::best());
    let settings =
        Settings { listeners, vault, policy, workers, kernels, audit, audits_uses, memory_locked, sealed_by };
    let service = Service::start(settings, &stop).map_err(|error| match error {
        ServiceError::Vault(VaultError::Damaged { .. }) => Failure::new(ExitStatus::Integrity, error),
        error => fault(error),
    })?;
    let (running, policy_path) = (stop.clone(), arguments.policy.clone());
    let reload = move || reload(&running, policy_path.as_deref());
    let _interrupts = Interrupts::listen_beside_hangup(move |_| stop.stop(), reload).map_err(fault)?;
    let shown = arguments.socket.socket.display();
    let names = names();
    let users: Vec<_> = users.into_iter().map(|user| names.name_of_user(user)).collect();
    let keys = match service.keys() {
        1 => "1 key".to_owned(),
        count => format!("{count} keys"),
    };
    let users = users.join(", ");
    text::say(&format!("the engine has {keys} and listens at {shown}; its policy lets in {users}"));
    if !memory_locked {
        text::complain(format_args!("memory is not locked: keys may reach the swap device"));
    }
    systemd::tell_ready().map_err(|error| fault(anyhow!(error).context("telling the service manager")))?;
    service.run().map_err(fault)
}

/// Returns the audit log that is appended to this file.
fn audit_at(path: &Path) -> Result<Audit, Failure> {
    let own = path.to_owned();
    let open = move || {
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(&own)?;
        Ok(Box::new(file) as Box<dyn io::Write + Send>)
    };
    Audit::new(open).with_context(|| format!("opening the audit log {}", path.display())).map_err(fault)
}

/// Returns the sockets that the service manager hands over, or else one at `path`.
fn listeners(path: &Path) -> Result<Vec<OwnedFd>, Failure> {
    let given = systemd::given_sockets();
    let given = given.context("taking the service manager's sockets").map_err(fault)?;
    check_given(&given).map_err(fault)?;
    match given.is_empty() {
        false => Ok(given),
        true => Ok(vec![bind_at(path).map_err(fault)?]),
    }
}

/// Opens the log of a running engine again, and reads its policy again if that is a file.
fn reload(engine: &Stop, policy: Option<&Path>) {
    engine.reopen_log();
    match policy.map(read_policy) {
        None => {}
        Some(Ok(policy)) => {
            warn(&policy);
            engine.change_policy(policy);
            text::say("the engine has read its policy again");
        }
        Some(Err(failure)) => {
            text::complain(format_args!("the policy stays the old one: {}", reason(failure)));
        }
    }
}

/// Returns the passphrase of the keys, and its description for `status`.
fn passphrase(arguments: &EngineServeArgs) -> Result<(Zeroizing<Vec<u8>>, String), Failure> {
    if let Some(name) = &arguments.keyring {
        let found = keyring::passphrase(name);
        let context = || {
            format!(
                "the kernel's keyring has no passphrase {name:?} for this process: `keyctl padd user {name} @u` adds it"
            )
        };
        return Ok((found.with_context(context).map_err(usage)?, format!("the kernel's keyring ({name})")));
    }
    let path = arguments.passphrase_file.as_ref().ok_or_else(|| usage(anyhow!("no passphrase")))?;
    Ok((secret_file(path)?, "a passphrase".to_owned()))
}

/// Reads a passphrase from the first line of a file that only its owner may read.
fn secret_file(path: &Path) -> Result<Zeroizing<Vec<u8>>, Failure> {
    let file = open_trusted(path).map_err(usage)?;
    let facts = file.metadata().map_err(fault)?;
    // A service manager's credentials belong to root, and their groups' bits are those of an access list.
    let others = if facts.uid() == 0 { 0o007 } else { 0o077 };
    if facts.mode() & others != 0 {
        return Err(usage(anyhow!("{} can be read by others than its owner: chmod 600 it", path.display())));
    }
    let mut content = Zeroizing::new(Vec::new());
    file.take(PASSPHRASE_BYTES_MAX + 1).read_to_end(&mut content).map_err(fault)?;
    if content.len() as u64 > PASSPHRASE_BYTES_MAX {
        return Err(usage(anyhow!("{} holds more than a passphrase", path.display())));
    }
    let end = content.iter().position(|byte| *byte == b'\n').unwrap_or(content.len());
    content.truncate(end);
    Ok(content)
}

fn read_policy(path: &Path) -> Result<Policy, Failure> {
    let mut text = String::new();
    let file = open_trusted(path).map_err(usage)?;
    let read = file.take(POLICY_BYTES_MAX as u64 + 1).read_to_string(&mut text);
    read.with_context(|| format!("reading {}", path.display())).map_err(usage)?;
    if text.len() > POLICY_BYTES_MAX {
        return Err(usage(anyhow!("{} is longer than {POLICY_BYTES_MAX} bytes", path.display())));
    }
    Policy::parse(&text, &names()).with_context(|| path.display().to_string()).map_err(usage)
}

/// Returns the users and groups of this host.
fn names() -> Names {
    let file = |path| fs::read_to_string(path).unwrap_or_default();
    Names::of(&file("/etc/passwd"), &file("/etc/group"))
}

/// Returns the words of a failure.
fn reason(failure: Failure) -> String {
    match failure {
        Failure::Failed { error, .. } => format!("{error:#}"),
        Failure::BrokenPipe | Failure::Told { .. } => String::new(),
    }
}

/// Says what of a policy has no effect.
fn warn(policy: &Policy) {
    policy.warnings().iter().for_each(|warning| text::complain(format_args!("{warning}")));
}

fn status(arguments: &EngineStatusArgs) -> Result<(), Failure> {
    let report = client(&arguments.socket)?.report().map_err(failed)?;
    if arguments.json {
        print_json(&Flat { status: &report.status, counts: &report.counts, previous: &report.previous })
    } else {
        print(&report.text())
    }
}

/// A status as `--json` prints it.
#[derive(Serialize)]
struct Flat<'a> {
    #[serde(flatten)]
    status: &'a ServiceStatus,
    #[serde(flatten)]
    counts: &'a BTreeMap<String, u64>,
    previous: &'a BTreeMap<String, u64>,
}

/// A key as `--json` lists it.
#[derive(Serialize)]
struct Listed<'a> {
    name: &'a str,
    kind: String,
    public: String,
}

fn keys(command: EngineKeysCommand) -> Result<(), Failure> {
    match command {
        EngineKeysCommand::List(arguments) => {
            let keys = client(&arguments.socket)?.keys().map_err(failed)?;
            for key in &keys {
                let kind = key.kind.to_string();
                match arguments.json {
                    true => print_json(&Listed { name: &key.name, kind, public: public_pem(key) })?,
                    false => print(&format!("{} {kind}\n", key.name))?,
                }
            }
            Ok(())
        }
        EngineKeysCommand::Generate { socket, name, kind } => {
            let info = client(&socket)?.generate(&name, kind).map_err(failed)?;
            print(&public_pem(&info))
        }
        EngineKeysCommand::Certificate { socket, name, file, remove } => {
            let mut client = client(&socket)?;
            match file {
                Some(file) => client.certify(&name, &chain_of(&file)?).map_err(failed),
                None if remove => client.certify(&name, &[]).map_err(failed),
                None => print_certificates(&mut client, &name),
            }
        }
        EngineKeysCommand::Import { socket, name, file, passphrase_file, replace, certificate } => {
            let chain = certificate.as_deref().map(chain_of).transpose()?;
            let bytes = key_file(&file)?;
            let passphrase = passphrase_file.as_deref().map(secret_file).transpose()?;
            let passphrase = passphrase.as_ref().map(|bytes| std::str::from_utf8(bytes)).transpose();
            let passphrase = passphrase.context("the passphrase is not UTF-8").map_err(usage)?;
            let mut client = client(&socket)?;
            let imported = match replace {
                true => client.replace(&name, &bytes, passphrase),
                false => client.import(&name, &bytes, passphrase),
            };
            let info = imported.map_err(failed)?;
            if let Some(chain) = chain {
                client.certify(&name, &chain).map_err(|error| {
                    text::complain(format_args!("the key {name} is imported, its certificates are not"));
                    failed(error)
                })?;
            }
            print(&public_pem(&info))
        }
        EngineKeysCommand::Public { socket, name } => {
            let key = client(&socket)?.open(&name).map_err(failed)?;
            print(&public_pem(&key.info))
        }
        EngineKeysCommand::Reference { socket, name } => print(&reference(name, &socket.socket)?.to_pem()),
        EngineKeysCommand::Test { socket, name, user: Some(user) } => test_as(&socket, &name, &user),
        EngineKeysCommand::Test { socket, name, user: None } => {
            let mut client = client(&socket)?;
            let key = client.open(&name).map_err(failed)?;
            attempt(&mut client, &key).map_err(failed)?;
            print(&format!("{name} {} works\n", key.info.kind))
        }
        EngineKeysCommand::Remove { socket, name, previous: true } => {
            client(&socket)?.remove_previous(&name).map_err(failed)
        }
        EngineKeysCommand::Remove { socket, name, previous: false } => {
            client(&socket)?.remove(&name).map_err(failed)
        }
    }
}

/// Prints the certificates that are kept beside a key.
fn print_certificates(client: &mut Client, name: &str) -> Result<(), Failure> {
    let chain = client.certificates_of(name).map_err(failed)?;
    if chain.is_empty() {
        // Whoever may not use the key is told so.
        client.open(name).map_err(failed)?;
        return Err(usage(anyhow!("no certificate is kept beside {name}")));
    }
    print(&chain.iter().map(|der| sealane_client::key::pem(CERTIFICATE, der)).collect::<String>())
}

/// Returns what a server takes in place of a file with a key, and says who may use that key.
fn reference(name: String, socket: &Path) -> Result<Uri, Failure> {
    if !is_name(&name) {
        return Err(failed(Refusal::BadName.into()));
    }
    // A reference may be made before the key, and without the engine.
    if let Ok(found) = Client::connect(socket, PROGRAM).and_then(|mut client| client.users_of(&name)) {
        text::say(&users_text(&name, &found));
    }
    // The server that reads the reference runs elsewhere.
    let other = (socket != Path::new(SOCKET)).then(|| std::path::absolute(socket));
    let socket = other.transpose().context("cannot find out the working folder").map_err(fault)?;
    Ok(Uri { name, socket })
}

/// Says which users may use a key.
fn users_text(name: &str, (users, groups): &(Vec<u32>, Vec<u32>)) -> String {
    let names = names();
    let users = users.iter().map(|user| names.name_of_user(*user));
    let groups = groups.iter().map(|group| format!("processes of group {}", names.name_of_group(*group)));
    let all: Vec<_> = users.chain(groups).collect();
    match all.is_empty() {
        true => format!("nobody may use {name}: the engine's policy has no entry for it"),
        false => format!("{name} may be used by {}", all.join(", ")),
    }
}

/// Tries a key in a process of another user.
fn test_as(socket: &EngineSocketArgs, name: &str, user: &str) -> Result<(), Failure> {
    let number = user.parse().ok().map(|number: u32| (number, number));
    let found = names().user(user).or(number);
    let (user, group) = found.ok_or_else(|| usage(anyhow!("this host has no user {user}")))?;
    // The program may lie where that user may not look.
    let own = "/proc/self/exe";
    let mut command = Command::new(own);
    command.args(["engine", "keys", "test", name, "--socket"]).arg(&socket.socket).uid(user).gid(group);
    let status =
        command.status().with_context(|| format!("starting a process as user {user}")).map_err(usage)?;
    match status.code() {
        Some(0) => Ok(()),
        code => Err(Failure::new(
            code.map_or(ExitStatus::Io, ExitStatus::of_code),
            anyhow!("user {user} cannot use {name}: `sealane engine check --policy` says who may"),
        )),
    }
}

/// Reads the certificates of a PEM file.
fn chain_of(path: &Path) -> Result<Vec<Vec<u8>>, Failure> {
    let text = key_file(path)?;
    let text = std::str::from_utf8(&text).context("the file with certificates is not text").map_err(usage)?;
    let chain = sealane_client::key::all_of_pem(CERTIFICATE, text, CHAIN_MAX + 1);
    if chain.is_empty() {
        return Err(usage(anyhow!("{} has no certificate in PEM", path.display())));
    }
    Ok(chain)
}

fn key_file(path: &Path) -> Result<Zeroizing<Vec<u8>>, Failure> {
    let mut content = Zeroizing::new(Vec::new());
    let mut reader: Box<dyn io::Read> = match path.to_str() {
        Some("-") => Box::new(io::stdin().lock()),
        _ => {
            Box::new(File::open(path).with_context(|| format!("opening {}", path.display())).map_err(usage)?)
        }
    };
    let read = reader.by_ref().take(KEY_FILE_BYTES_MAX + 1).read_to_end(&mut content);
    read.with_context(|| format!("reading {}", path.display())).map_err(fault)?;
    if content.len() as u64 > KEY_FILE_BYTES_MAX {
        return Err(usage(anyhow!("{} is too long for a file with one key", path.display())));
    }
    Ok(content)
}

fn public_pem(key: &KeyInfo) -> String {
    sealane_client::key::pem("PUBLIC KEY", &key.public)
}

/// The result of a trial of one key.
#[derive(Serialize)]
struct Tried {
    name: String,
    kind: String,
    works: bool,
    told: String,
}

fn check(arguments: &EngineCheckArgs) -> Result<(), Failure> {
    if let Some(path) = &arguments.policy {
        let policy = read_policy(path)?;
        warn(&policy);
        let lines = policy.explain(&names()).into_iter().map(|line| line + "\n");
        return print(&format!("{}: good\n{}", path.display(), lines.collect::<String>()));
    }
    let mut client = client(&arguments.socket)?;
    let mut bad = 0;
    for info in client.keys().map_err(failed)? {
        let (name, kind) = (info.name.clone(), info.kind.to_string());
        let outcome = client.open(&name).and_then(|key| attempt(&mut client, &key));
        let (works, told) = match outcome {
            Ok(()) => (true, "works".to_owned()),
            Err(
                error @ (ClientError::Job(Status::NotAllowed) | ClientError::Refused(Refusal::NoSuchKey)),
            ) => (true, format!("not for you: {error}")),
            Err(error) => (false, error.to_string()),
        };
        bad += usize::from(!works);
        match arguments.json {
            true => print_json(&Tried { name, kind, works, told })?,
            false => print(&format!("{name} {kind} {told}\n"))?,
        }
    }
    match bad {
        0 => Ok(()),
        1 => Err(fault(anyhow!("1 key does not work"))),
        bad => Err(fault(anyhow!("{bad} keys do not work"))),
    }
}

/// Runs one operation with a key, and discards the result.
fn attempt(client: &mut Client, key: &Key) -> Result<(), ClientError> {
    let (operation, content) = match key.info.kind {
        KeyKind::Rsa { .. } => (Operation::SignPkcs1(Some(Hash::Sha256)), vec![0; 32]),
        KeyKind::RsaPss { limits, .. } => {
            let hash = limits.map_or(Hash::Sha256, |limits| limits.hash);
            (Operation::sign_pss(hash, limits), vec![0; hash.bytes()])
        }
        KeyKind::P256 | KeyKind::P384 | KeyKind::P521 => (Operation::SignEcdsa, vec![0; 32]),
        KeyKind::Ed25519 => (Operation::SignEd25519, b"sealane engine check".to_vec()),
        KeyKind::MlDsa(_) => (Operation::SignMlDsa { is_deterministic: false }, vec![0; MU_BYTES]),
        // The base point.
        KeyKind::X25519 => (Operation::Derive, [&[9][..], &[0; 31]].concat()),
    };
    client.call(key, operation, &content).map(drop)
}
