//! Liars against the program itself: clients that lie to a daemon, and servers that lie to a client.
//!
//! After every lie the honest end is alive or has ended with an error, shows the expected result, has written nothing
//! outside the target, and has no wrong content under a final name.

use super::lies::{
    ANSWERS, CLAIMS, DEMANDS, Fate, LOST_LATE, Lie, OF_RECEIVERS, OF_SELECTORS, OF_SENDERS, TRUTH,
};
use super::offers::{OF_MIRRORS, OFFERS};
use super::relayed::{BARGAINS, FarLiar, RECEIVERS, RelayedLie, SENDERS};
use super::versions::{OF_COMPARERS, OF_OVERWRITERS, OF_SIGNERS, OLD_BYTES, claim};
use super::{Liar, PATIENCE, Verdict, request, verdict};
use crate::program::{sealane, text, utf8, write_script};
use crate::support::Chance;
use crate::support::daemon::Served;
use crate::support::run::Run;
use crate::support::tree;
use sealane_copy::proto::join::{JOIN_BYTES, JOINED_BYTES};
use sealane_copy::proto::message::{Message, Request, Role};
use sealane_copy::{Deletion, Delta, ErrorKind};
use sealane_peer::Identity;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Maximum amount of memory that a daemon may use, however many lies are told at once.
pub(crate) const MEMORY_BYTES_MAX: u64 = 256 << 20;
/// Time to wait after a lie that must do no harm.
const MOMENT: Duration = Duration::from_millis(500);

impl Fate {
    /// Returns the time to wait for the honest end's verdict.
    fn patience(self) -> Duration {
        if self == Self::Harmless { MOMENT } else { PATIENCE }
    }
}

/// A daemon, and a liar whose identity it knows.
pub(crate) struct Scene {
    pub(crate) served: Served,
    folder: TempDir,
    liar: Identity,
    /// The identity of a liar that may also delete.
    mirror: Identity,
    server: Identity,
    /// The key of the honest client.
    client: String,
    number: u32,
}

impl Scene {
    pub(crate) fn set() -> Self {
        let served = Served::start(None);
        let folder = tempfile::tempdir().expect("a folder");
        let liar = Identity::generate().expect("a key");
        served.authorise(&liar.public_key().to_string(), "liar");
        let mirror = Identity::generate().expect("a key");
        served.authorise_to(&mirror.public_key().to_string(), "mirror", "read,write,delete");
        let outside = Self::outside_of(&served);
        fs::create_dir(&outside).expect("a folder");
        fs::write(outside.join("secret"), "secret").expect("a file");
        fs::write(served.root().join("given"), Chance::new(8).bytes(3_000_000)).expect("a file");
        let output = sealane(&["id"]).env("HOME", folder.path()).output().expect("the program starts");
        let client = text(&output.stdout).trim().to_owned();
        let server = Identity::generate().expect("a key");
        Self { served, folder, liar, mirror, server, client, number: 0 }
    }

    fn outside_of(served: &Served) -> PathBuf {
        served.root().parent().expect("it has a parent").join("outside")
    }

    fn next(&mut self) -> u32 {
        self.number += 1;
        self.number
    }

    fn transfer(&self) -> [u8; 16] {
        let mut transfer = [9; 16];
        transfer[..4].copy_from_slice(&self.number.to_le_bytes());
        transfer
    }

    /// Checks the conditions that must hold at any time, at the daemon and in folders that clients write.
    pub(crate) fn check(&mut self) -> Result<(), String> {
        if !self.served.is_alive() {
            return Err(format!("the daemon has ended: {}", self.served.log()));
        }
        let outside = Self::outside_of(&self.served);
        let listed: Vec<_> = fs::read_dir(&outside).expect("a folder").flatten().collect();
        let secret = fs::read(outside.join("secret")).unwrap_or_default();
        if listed.len() != 1 || secret != b"secret" {
            return Err(format!("{listed:?} outside the folder that is served"));
        }
        for root in [self.served.root(), self.folder.path().to_owned()] {
            for (name, path) in tree::files(&root) {
                let name = name.to_string_lossy().into_owned();
                let true_or_not =
                    !name.ends_with(".true") || fs::read(&path).is_ok_and(|found| found == TRUTH);
                if name.ends_with(".lie") || !true_or_not {
                    return Err(format!("{} is there", path.display()));
                }
            }
        }
        if Path::new("/tmp/escaped.lie").exists() {
            return Err("a file was written where nobody asked for one".to_owned());
        }
        let peak = self.served.peak_bytes();
        if peak > MEMORY_BYTES_MAX {
            return Err(format!("the daemon has taken {} MiB", peak >> 20));
        }
        Ok(())
    }

    fn judge(&mut self, name: &str, fate: Fate, verdict: &Verdict) -> Result<(), String> {
        // Silence ends a transfer too, but is not an answer to a lie.
        let is_answer = |kind| !matches!(kind, ErrorKind::TimedOut | ErrorKind::Disconnected);
        let refused = matches!(verdict, Verdict::Aborted(abort) if is_answer(abort.kind));
        if fate == Fate::Refused && !refused {
            return Err(format!("{name}: {verdict:?} instead of a refusal"));
        }
        self.check().map_err(|reason| format!("{name}: {reason}"))
    }

    /// Joins with this request, tells the lie, and returns what the honest end says to that.
    fn lie_as(
        &self,
        identity: &Identity,
        request: Request,
        &(name, fate, tell): &Lie,
    ) -> Result<Verdict, String> {
        let opened = Liar::client(self.served.address, identity, request);
        let mut liar = opened.map_err(|verdict| format!("{name}: {verdict:?} before the lie"))?;
        liar.prepare().map_err(|verdict| format!("{name}: {verdict:?} before the lie"))?;
        let mut line = liar.line().ok_or_else(|| format!("{name}: no stream was taken up"))?;
        tell(&mut liar, &mut line);
        Ok(verdict(&mut liar.channel, fate.patience()))
    }

    /// Runs a client that lies after it has joined.
    fn lying_client(&mut self, role: Role, lie @ &(name, fate, _): &Lie) -> Result<(), String> {
        let number = self.next();
        let path = match role {
            Role::Push => format!("into{number}"),
            Role::Pull => "given".to_owned(),
        };
        if role == Role::Push {
            fs::create_dir(self.served.root().join(&path)).expect("a folder");
        }
        let request = request(role, &path, self.transfer());
        let verdict = self.lie_as(&self.liar, request, lie)?;
        self.judge(name, fate, &verdict)
    }

    /// Runs a server that lies after its client has joined.
    fn lying_server(&mut self, role: Role, lie: &Lie) -> Result<(), String> {
        self.serve_lie(role, "asked", &["-r"], lie)
    }

    /// Runs a liar that is asked for a pattern, and for a list.
    fn lying_selector(&mut self, lie: &Lie) -> Result<(), String> {
        self.serve_lie(Role::Pull, "asked*", &[], lie)?;
        let list = self.folder.path().join("list");
        fs::write(&list, "asked/a\nasked1\n").expect("a file");
        self.serve_lie(Role::Pull, "asked", &["--files-from", utf8(&list)], lie)
    }

    fn serve_lie(
        &mut self,
        role: Role,
        asked: &str,
        options: &[&str],
        &(name, fate, tell): &Lie,
    ) -> Result<(), String> {
        let number = self.next();
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let far = format!("sealane://{}/{asked}", listener.local_addr().expect("an address"));
        let (from, to) = match role {
            Role::Push => (utf8(&self.served.root().join("given")).to_owned(), far),
            Role::Pull => (far, utf8(&self.folder.path().join(format!("into{number}"))).to_owned()),
        };
        if role == Role::Pull {
            fs::create_dir(&to).expect("a folder");
        }
        let honest = ["--accept-new", "--timeout", "3", "--streams", "1", &from, &to];
        let arguments = [options, &honest].concat();
        let run = Run::start(self.folder.path(), &arguments);
        let met = Liar::server(listener, &self.server, &self.client, |_| ());
        let mut liar = met.map_err(|error| format!("{name}: {error}"))?;
        liar.prepare().map_err(|verdict| format!("{name}: {verdict:?} before the lie"))?;
        let mut line = liar.line().ok_or_else(|| format!("{name}: no stream was opened"))?;
        tell(&mut liar, &mut line);
        let verdict = verdict(&mut liar.channel, fate.patience());
        drop((liar, line));
        let ended = run.end().map_err(|reason| format!("{name}: {reason}"))?;
        match ended.code {
            Some(0) if fate == Fate::Refused => return Err(format!("{name}: the client believes it")),
            Some(0) => {}
            _ if fate == Fate::Believed => return Err(format!("{name}: {ended:?}")),
            Some(0..=10) => {}
            _ => return Err(format!("{name}: {ended:?}")),
        }
        let shown = serde_json::Value::from(ended.events).to_string() + &ended.stderr;
        if shown.contains('\x1b') {
            return Err(format!("{name}: a terminal would obey {shown:?}"));
        }
        self.judge(name, fate, &verdict)
    }

    /// Runs a daemon that lies in its answer.
    fn lying_offer(&mut self, role: Role, number: usize) -> Result<(), String> {
        let (name, fate, edit) = OFFERS[number];
        let number = self.next();
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let far = format!("sealane://{}/asked", listener.local_addr().expect("an address"));
        let (from, to) = match role {
            Role::Push => (utf8(&self.served.root().join("given")).to_owned(), far),
            Role::Pull => (far, utf8(&self.folder.path().join(format!("into{number}"))).to_owned()),
        };
        let honest = ["-a", "--accept-new", "--timeout", "3", "--streams", "1", &from, &to];
        let run = Run::start(self.folder.path(), &honest);
        let met = Liar::server(listener, &self.server, &self.client, edit);
        let mut liar = met.map_err(|error| format!("{name}: {error}"))?;
        let verdict = match fate {
            // A client that believes the answer continues as after any other.
            Fate::Harmless => {
                let prepared = liar.prepare();
                prepared.map_or_else(|verdict| verdict, |()| verdict(&mut liar.channel, fate.patience()))
            }
            Fate::Refused | Fate::Believed => verdict(&mut liar.channel, fate.patience()),
        };
        drop(liar);
        let ended = run.end().map_err(|reason| format!("{name}: {reason}"))?;
        let shown = serde_json::Value::from(ended.events.clone()).to_string() + &ended.stderr;
        match ended.code {
            Some(1..=10) if !shown.contains('\x1b') => self.judge(name, fate, &verdict),
            _ => Err(format!("{name} ({role:?}): {ended:?}")),
        }
    }

    /// Runs a client that may delete, and lies about the contents of its source.
    fn lying_mirror(&mut self, lie @ &(name, fate, _): &Lie) -> Result<(), String> {
        let path = format!("into{}", self.next());
        let target = self.served.root().join(&path);
        fs::create_dir_all(target.join("asked/full/deep")).expect("a folder");
        fs::write(target.join("beside.true"), TRUTH).expect("a file");
        fs::write(target.join("asked/keep"), "kept").expect("a file");
        fs::write(target.join("asked/full/inside"), "kept").expect("a file");
        let outside = Self::outside_of(&self.served);
        std::os::unix::fs::symlink(&outside, target.join("asked/out")).expect("a link");
        let mut request = request(Role::Push, &path, self.transfer());
        request.wishes.upkeep.delete = Some(Deletion::default());
        let verdict = self.lie_as(&self.mirror, request, lie)?;
        if !target.join("beside.true").exists() {
            return Err(format!("{name}: what lies beside the source's name was deleted"));
        }
        self.judge(name, fate, &verdict)
    }

    /// Runs a client that lies about what it compares.
    fn lying_comparer(&mut self, lie @ &(name, fate, _): &Lie) -> Result<(), String> {
        let path = format!("into{}", self.next());
        let target = self.served.root().join(&path);
        fs::create_dir_all(target.join("asked")).expect("a folder");
        let old = Chance::new(9).bytes(OLD_BYTES as usize);
        fs::write(target.join("asked/old.bin"), &old).expect("a file");
        std::os::unix::fs::symlink(Self::outside_of(&self.served), target.join("asked/out")).expect("a link");
        let mut request = request(Role::Push, &path, self.transfer());
        request.wishes.delta = Delta::Always;
        let verdict = self.lie_as(&self.liar, request, lie)?;
        if fs::read(target.join("asked/old.bin")).is_ok_and(|found| found != old) {
            return Err(format!("{name}: the version was replaced"));
        }
        self.judge(name, fate, &verdict)
    }

    /// Runs a client that lies about what it writes over.
    fn lying_overwriter(&mut self, lie @ &(name, fate, _): &Lie) -> Result<(), String> {
        let path = format!("into{}", self.next());
        let target = self.served.root().join(&path);
        fs::create_dir_all(target.join("asked/folder")).expect("a folder");
        let old = Chance::new(9).bytes(OLD_BYTES as usize);
        for name in ["asked/old.bin", "asked/other.bin"] {
            fs::write(target.join(name), &old).expect("a file");
        }
        let outside = Self::outside_of(&self.served);
        std::os::unix::fs::symlink(&outside, target.join("asked/out")).expect("a link");
        std::os::unix::fs::symlink(outside.join("secret"), target.join("asked/secret")).expect("a link");
        let mut request = request(Role::Push, &path, self.transfer());
        request.wishes.delta = Delta::Always;
        request.wishes.upkeep.in_place = true;
        let verdict = self.lie_as(&self.liar, request, lie)?;
        // One that is being written over is neither old nor new.
        if fs::read(target.join("asked/other.bin")).ok() != Some(old) {
            return Err(format!("{name}: a file was written that nobody writes over"));
        }
        self.judge(name, fate, &verdict)
    }

    /// Runs a server that lies about the version of a file that its client sends with these options.
    fn lying_signer(&mut self, options: &[&str], &(name, fate, tell): &Lie) -> Result<(), String> {
        self.next();
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let far = format!("sealane://{}/asked", listener.local_addr().expect("an address"));
        let from = self.served.root().join("given");
        let honest =
            ["--delta=always", "--accept-new", "--timeout", "3", "--streams", "1", utf8(&from), &far];
        let run = Run::start(self.folder.path(), &[options, &honest].concat());
        let met = Liar::server(listener, &self.server, &self.client, |_| ());
        let mut liar = met.map_err(|error| format!("{name}: {error}"))?;
        let number = claim(&mut liar);
        let mut line = liar.line().ok_or_else(|| format!("{name}: no stream was opened"))?;
        if number != 0 {
            return Err(format!("{name}: the first file has the number {number}"));
        }
        tell(&mut liar, &mut line);
        let verdict = verdict(&mut liar.channel, fate.patience());
        drop((liar, line));
        let ended = run.end().map_err(|reason| format!("{name}: {reason}"))?;
        match ended.code {
            Some(1..=10) => self.judge(name, fate, &verdict),
            _ => Err(format!("{name}: {ended:?}")),
        }
    }

    /// Runs a far end that lies to a client between two far ends, of which the other is honest.
    fn lying_between(
        &mut self,
        role: Role,
        name: &str,
        fate: Fate,
        tell: impl FnOnce(&mut FarLiar) -> bool,
    ) -> Result<(), String> {
        let number = self.next();
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let run = Run::of(self.between(role, number, &listener));
        let mut liar = FarLiar::meet(&listener).map_err(|error| format!("{name}: {error}"))?;
        tell(&mut liar);
        liar.end();
        let ended = run.end().map_err(|reason| format!("{name}: {reason}"))?;
        let shown = serde_json::Value::from(ended.events.clone()).to_string() + &ended.stderr;
        match (fate, ended.code) {
            (_, Some(1..=10)) if !shown.contains('\x1b') => {}
            _ => return Err(format!("{name} ({role:?}): {ended:?}")),
        }
        // The client reports the error, not only that an end is gone.
        if fate == Fate::Refused && !shown.contains("protocol") && !shown.contains("refused") {
            return Err(format!("{name} ({role:?}): {ended:?}"));
        }
        self.check().map_err(|reason| format!("{name}: {reason}"))
    }

    /// Returns a copy between two far ends, one of which is the liar at `listener`.
    fn between(&self, role: Role, number: u32, listener: &TcpListener) -> Command {
        let ssh = self.folder.path().join(format!("ssh{number}"));
        let port = listener.local_addr().expect("an address").port();
        let program = crate::program::path().into_string().expect("UTF-8");
        // The liar is reached through a program that forwards bytes; the other end is the one that ssh would start.
        let script = format!(
            "#!/bin/sh\nif [ \"$1\" = -G ]; then echo 'hostname 127.0.0.1'; exit 0; fi\n\
             case \" $* \" in *' -N '*) exit 1;; esac\n\
             for last; do case \"$last\" in liar) exec {program} serve --relay {port};; esac; done\n\
             exec sh -c \"$last\"\n"
        );
        write_script(&ssh, &script);
        let into = self.folder.path().join(format!("into{number}"));
        fs::create_dir(&into).expect("a folder");
        let (from, to) = match role {
            Role::Pull => ("liar:asked".to_owned(), format!("honest:{}", utf8(&into))),
            Role::Push => {
                (format!("honest:{}", utf8(&self.served.root().join("given"))), "liar:asked".to_owned())
            }
        };
        let mut command =
            sealane(&["cp", "--json", "-r", "--timeout", "3", "--streams", "1", "--remote-program"]);
        command.args([program, from, to]).env("SEALANE_SSH", &ssh).env("HOME", self.folder.path());
        command
    }

    /// Checks that a far end that never pauses does not prevent the client from being interrupted.
    pub(crate) fn interrupt_a_flood(&mut self) -> Result<(), String> {
        let number = self.next();
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let run = Run::of(self.between(Role::Pull, number, &listener));
        let mut liar = FarLiar::meet(&listener).map_err(|error| error.to_string())?;
        liar.agree(|_| ());
        let found = Message::Found { bytes: 1, files: 1, complete: false };
        let mut told = 0;
        let give_up = Instant::now() + 2 * PATIENCE;
        while liar.tell(&found) && Instant::now() < give_up {
            told += 1;
            if told == 10_000 {
                run.interrupt();
            }
        }
        let ended = run.end()?;
        if ended.code == Some(130) { Ok(()) } else { Err(format!("{ended:?}")) }
    }

    /// Runs a client that lies about the data that it has.
    fn claiming_client(&mut self, number: usize) -> Result<(), String> {
        let (name, fate, tell) = CLAIMS[number];
        self.next();
        let request = request(Role::Pull, "given", self.transfer());
        let opened = Liar::client(self.served.address, &self.liar, request);
        let mut liar = opened.map_err(|verdict| format!("{name}: {verdict:?} before the lie"))?;
        tell(&mut liar);
        let verdict = verdict(&mut liar.channel, fate.patience());
        drop(liar);
        self.judge(name, fate, &verdict)
    }

    /// Runs a client that lies about which folders differ.
    fn answering_client(&mut self, number: usize) -> Result<(), String> {
        let (name, fate, tell) = ANSWERS[number];
        let path = format!("into{}", self.next());
        let target = self.served.root().join(&path);
        fs::create_dir_all(target.join("asked/one")).expect("a folder");
        fs::write(target.join("asked/one/kept.true"), TRUTH).expect("a file");
        let mut request = request(Role::Push, &path, self.transfer());
        request.wishes.skip_same = true;
        let opened = Liar::client(self.served.address, &self.liar, request);
        let mut liar = opened.map_err(|verdict| format!("{name}: {verdict:?} before the lie"))?;
        let told = liar.folders().map_err(|verdict| format!("{name}: {verdict:?} before the lie"))?;
        if told != 2 {
            return Err(format!("{name}: {told} folders are told before the lie"));
        }
        tell(&mut liar);
        let verdict = verdict(&mut liar.channel, fate.patience());
        drop(liar);
        self.judge(name, fate, &verdict)
    }

    /// Runs a client that asks for something impossible.
    fn demanding_client(&mut self, role: Role, number: usize) -> Result<(), String> {
        let (name, fate, edit) = DEMANDS[number];
        let into = self.next();
        let path = if role == Role::Push { format!("into{into}") } else { "given".to_owned() };
        let mut request = request(role, &path, self.transfer());
        edit(&mut request);
        let verdict = match Liar::client(self.served.address, &self.liar, request) {
            Err(verdict) => verdict,
            Ok(mut liar) => match liar.prepare() {
                Err(verdict) => verdict,
                Ok(()) => verdict(&mut liar.channel, fate.patience()),
            },
        };
        self.judge(&format!("{name} ({role:?})"), fate, &verdict)
    }

    /// Returns the number of different lies.
    pub(crate) fn lies() -> usize {
        let both_ways = OF_SENDERS.len() + OF_RECEIVERS.len() + DEMANDS.len() + OFFERS.len() + BARGAINS.len();
        let one_way = OF_SELECTORS.len() + OF_MIRRORS.len() + SENDERS.len() + RECEIVERS.len() + CLAIMS.len();
        2 * both_ways
            + one_way
            + ANSWERS.len()
            + OF_COMPARERS.len()
            + OF_OVERWRITERS.len()
            + 2 * OF_SIGNERS.len()
    }

    /// Runs the lie `number`.
    pub(crate) fn tell(&mut self, number: usize) -> Result<(), String> {
        let mut at = number;
        let mut is_in = |count: usize| {
            let found = (at < count).then_some(at);
            at = at.saturating_sub(count);
            found
        };
        if let Some(at) = is_in(OF_SENDERS.len()) {
            return self.lying_client(Role::Push, &OF_SENDERS[at]);
        }
        if let Some(at) = is_in(OF_SENDERS.len()) {
            return self.lying_server(Role::Pull, &OF_SENDERS[at]);
        }
        if let Some(at) = is_in(OF_RECEIVERS.len()) {
            return self.lying_client(Role::Pull, &OF_RECEIVERS[at]);
        }
        if let Some(at) = is_in(OF_RECEIVERS.len()) {
            return self.lying_server(Role::Push, &OF_RECEIVERS[at]);
        }
        if let Some(at) = is_in(ANSWERS.len()) {
            return self.answering_client(at);
        }
        if let Some(at) = is_in(DEMANDS.len()) {
            return self.demanding_client(Role::Push, at);
        }
        if let Some(at) = is_in(DEMANDS.len()) {
            return self.demanding_client(Role::Pull, at);
        }
        if let Some(at) = is_in(OF_SELECTORS.len()) {
            return self.lying_selector(&OF_SELECTORS[at]);
        }
        for role in [Role::Push, Role::Pull] {
            if let Some(at) = is_in(OFFERS.len()) {
                return self.lying_offer(role, at);
            }
            if let Some(at) = is_in(BARGAINS.len()) {
                let (name, edit) = BARGAINS[at];
                return self.lying_between(role, name, Fate::Refused, |liar| liar.agree(edit));
            }
        }
        if let Some(at) = is_in(OF_COMPARERS.len()) {
            return self.lying_comparer(&OF_COMPARERS[at]);
        }
        if let Some(at) = is_in(OF_OVERWRITERS.len()) {
            return self.lying_overwriter(&OF_OVERWRITERS[at]);
        }
        for options in [&[][..], &["--in-place"]] {
            if let Some(at) = is_in(OF_SIGNERS.len()) {
                return self.lying_signer(options, &OF_SIGNERS[at]);
            }
        }
        if let Some(at) = is_in(OF_MIRRORS.len()) {
            return self.lying_mirror(&OF_MIRRORS[at]);
        }
        for (role, lies) in [(Role::Pull, SENDERS), (Role::Push, RECEIVERS)] {
            if let Some(at) = is_in(lies.len()) {
                let (name, fate, tell): RelayedLie = lies[at];
                return self.lying_between(role, name, fate, |liar| {
                    let agreed = liar.agree(|_| ());
                    tell(liar);
                    agreed
                });
            }
        }
        self.claiming_client(at)
    }

    /// Lets a client push to a far end that does not answer its join: what comes behind the join says nothing, and
    /// below the level `private` nothing comes. The far end then answers as somebody else would.
    pub(crate) fn listen_without_an_answer(&self) -> Result<(), String> {
        let secret = self.folder.path().join("secret");
        fs::write(&secret, b"unmistakable".repeat(1000)).expect("a file");
        for (level, goes_ahead) in [("private", true), ("safe", false), ("authenticated", false)] {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
            let far = format!("sealane://{}/asked", listener.local_addr().expect("an address"));
            let honest =
                ["--level", level, "--accept-new", "--timeout", "3", "--streams", "1", utf8(&secret), &far];
            let run = Run::start(self.folder.path(), &honest);
            let met = Liar::server(listener, &self.server, &self.client, |_| ());
            let mut liar = met.map_err(|error| format!("{level}: {error}"))?;
            liar.prepare().map_err(|verdict| format!("{level}: {verdict:?} before the join"))?;
            let (mut socket, message, _) = liar.joiner().ok_or("the client does not join")?;
            let mut ahead = vec![0; 4096];
            let patience = if goes_ahead { PATIENCE } else { MOMENT };
            socket.set_read_timeout(Some(patience)).expect("a timeout");
            let length = socket.read(&mut ahead).unwrap_or(0);
            if (length > 0) != goes_ahead || ahead.windows(12).any(|part| part == b"unmistakable") {
                return Err(format!("{level}: {length} bytes came behind the join"));
            }
            let mut forged = liar.answer(&message);
            forged[JOINED_BYTES - 1] ^= 1;
            let _ = socket.write_all(&forged);
            let verdict = verdict(&mut liar.channel, PATIENCE);
            drop((liar, socket));
            let ended = run.end().map_err(|reason| format!("{level}: {reason}"))?;
            let is_noticed =
                matches!(&verdict, Verdict::Aborted(abort) if abort.kind == ErrorKind::Integrity);
            if !is_noticed || ended.code == Some(0) {
                return Err(format!("{level}: {verdict:?}, {ended:?}"));
            }
        }
        Ok(())
    }

    /// Sends content behind joins that prove nothing, without waiting for an answer: it is not read, and honest
    /// streams are taken up beside it.
    pub(crate) fn push_ahead(&mut self) -> Result<(), String> {
        let number = self.next();
        fs::create_dir(self.served.root().join(format!("into{number}"))).expect("a folder");
        let asked = request(Role::Push, &format!("into{number}"), self.transfer());
        let opened = Liar::client(self.served.address, &self.liar, asked);
        let mut liar = opened.map_err(|verdict| format!("{verdict:?} before the lie"))?;
        liar.prepare().map_err(|verdict| format!("{verdict:?} before the lie"))?;
        let mut strangers = Vec::new();
        for joins in 0..8 {
            let mut stranger = TcpStream::connect(self.served.address).expect("the daemon is alive");
            stranger.set_write_timeout(Some(MOMENT)).expect("a timeout");
            let mut join = [0; JOIN_BYTES];
            join[..4].copy_from_slice(&sealane_copy::proto::join::MAGIC);
            join[4..20].copy_from_slice(&liar.request.transfer);
            // Some say all of their join, and some not even that.
            let said = if joins % 2 == 0 { JOIN_BYTES } else { JOIN_BYTES - 1 };
            let _ = stranger.write_all(&join[..said]);
            if said == JOIN_BYTES {
                let _ = stranger.write_all(&vec![7; 8 << 20]);
            }
            strangers.push(stranger);
        }
        liar.line().ok_or("the truth was refused beside the lies")?;
        self.check()
    }

    /// Runs messages that are late, but true.
    pub(crate) fn tell_late(&mut self) -> Result<(), String> {
        self.lying_server(Role::Pull, &LOST_LATE)
    }

    /// Lies about the stream that is joined, and about the number of times; then joins honestly.
    pub(crate) fn lie_about_joins(&mut self) -> Result<(), String> {
        use sealane_copy::proto::join::Join;
        let number = self.next();
        fs::create_dir(self.served.root().join(format!("into{number}"))).expect("a folder");
        for (role, path) in [(Role::Push, format!("into{number}")), (Role::Pull, "given".to_owned())] {
            self.next();
            let transfer = self.transfer();
            let opened = Liar::client(self.served.address, &self.liar, request(role, &path, transfer));
            let mut liar = opened.map_err(|verdict| format!("{verdict:?} before the lie"))?;
            liar.prepare().map_err(|verdict| format!("{verdict:?} before the lie"))?;
            let honest = Join { transfer, stream: 0, generation: 1, last: 0, taken: 0 };
            let refused = [
                Join { stream: 2, ..honest },
                Join { stream: u16::MAX, ..honest },
                Join { generation: 0, ..honest },
                Join { transfer: [0; 16], ..honest },
            ];
            for join in refused {
                if liar.join(&join).is_some_and(|(_, joined)| joined.accepted) {
                    return Err(format!("{join:?} was taken up"));
                }
            }
            // The message claims more data than was ever sent, of an opening that never happened.
            let odd = Join { stream: 1, generation: u32::MAX, last: u32::MAX, taken: u64::MAX, ..honest };
            liar.join(&odd).filter(|(_, joined)| joined.accepted).ok_or("an odd opening was refused")?;
            if liar.join(&odd).is_some_and(|(_, joined)| joined.accepted) {
                return Err("an opening was taken up twice".to_owned());
            }
            liar.line().ok_or("the truth was refused after the lies")?;
            drop(liar);
            self.check()?;
        }
        Ok(())
    }
}
