//! EAP inside of IKE_AUTH (RFC 3748; RFC 7296, section 2.16), as server and as client: users with passwords
//! (MSCHAPv2) and with certificates (EAP-TLS).
//!
//! Guarantees: a conversation has at most [`MAX_ROUNDS`] rounds; it yields a key only after the method itself has
//! succeeded at this end, so that a Success packet alone proves nothing; a server answers unknown users as it answers
//! wrong passwords.

pub mod mschapv2;
mod tls;

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use zeroize::Zeroizing;

pub use self::tls::{EapTls, TlsIdentity};
use self::{mschapv2::PasswordHash, tls::Tls};
use crate::{certificate::Authorities, crypto::prf::Secret, identity::Identity, random::Random};

/// Maximum number of rounds in a conversation: a chain of certificates of 64 KiB in fragments of 1 KiB takes 64 in
/// each direction.
const MAX_ROUNDS: u16 = 200;
/// Longest name of a user, in bytes.
const MAX_NAME_BYTES: usize = 255;

const REQUEST: u8 = 1;
const RESPONSE: u8 = 2;
const SUCCESS: u8 = 3;
const FAILURE: u8 = 4;

const TYPE_IDENTITY: u8 = 1;
const TYPE_NOTIFICATION: u8 = 2;
const TYPE_NAK: u8 = 3;
const TYPE_TLS: u8 = 13;
const TYPE_MSCHAPV2: u8 = 26;

/// Names and password hashes of users.
#[derive(Clone, Default)]
pub struct Users(BTreeMap<String, PasswordHash>);

impl fmt::Debug for Users {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Users({})", self.0.len())
    }
}

impl Users {
    /// Adds a user; a user with the same name gets the new password.
    pub fn insert(&mut self, name: impl Into<String>, password: &str) {
        self.0.insert(name.into(), PasswordHash::of(password));
    }

    /// Returns whether there is a user with this name.
    pub fn contains(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Returns whether a user is here with the same password as in `other`.
    pub(crate) fn has_same(&self, other: &Self, name: &str) -> bool {
        self.0.get(name).is_some_and(|hash| other.0.get(name) == Some(hash))
    }

    /// Returns whether there are no users.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// How users prove their identity to us. Every configured method is offered: certificates before passwords.
#[derive(Clone, Debug, Default)]
pub struct EapServer {
    /// Users with passwords.
    pub users: Users,
    /// Users with certificates.
    pub tls: Option<EapTls>,
}

/// How we prove our identity to a server.
#[derive(Clone)]
pub enum EapClient {
    /// With a password.
    Password {
        /// Our name.
        user: String,
        /// The secret of EAP-MSCHAPv2, zeroized on drop.
        password: Zeroizing<String>,
    },
    /// With a certificate, to a server that proves itself with one too.
    Certificate {
        /// Our name, which the certificate contains.
        user: String,
        /// Our key and certificate, and the authorities that vouch for the server.
        tls: EapTls,
        /// The name that the server's certificate contains.
        server: Identity,
    },
}

impl EapClient {
    fn user(&self) -> &str {
        match self {
            Self::Password { user, .. } | Self::Certificate { user, .. } => user,
        }
    }

    fn method(&self) -> u8 {
        match self {
            Self::Password { .. } => TYPE_MSCHAPV2,
            Self::Certificate { .. } => TYPE_TLS,
        }
    }

    /// Returns whether the conversation also proves the server's identity and withstands guessing of passwords, as
    /// RFC 5998 requires.
    pub(crate) fn is_mutual(&self) -> bool {
        matches!(self, Self::Certificate { .. })
    }
}

impl fmt::Debug for EapClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EapClient({})", self.user())
    }
}

/// An EAP packet; `data` is without the type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Packet<'a> {
    code: u8,
    id: u8,
    kind: u8,
    data: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Reads a packet whose length field has been compared with its bytes. Requests and responses have a type; other
    /// packets have four bytes.
    fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (&[code, id, high, low], rest) = bytes.split_first_chunk::<4>()?;
        if usize::from(u16::from_be_bytes([high, low])) != bytes.len() {
            return None;
        }
        match code {
            REQUEST | RESPONSE => {
                let (&kind, data) = rest.split_first()?;
                Some(Self { code, id, kind, data })
            }
            SUCCESS | FAILURE if rest.is_empty() => Some(Self { code, id, kind: 0, data: rest }),
            _ => None,
        }
    }
}

fn packet(code: u8, id: u8, kind: u8, data: &[u8]) -> Vec<u8> {
    let length = u16::try_from(5 + data.len()).expect("methods write far less than 64 KiB");
    let mut bytes = vec![code, id];
    bytes.extend(length.to_be_bytes());
    bytes.push(kind);
    bytes.extend(data);
    bytes
}

fn verdict(code: u8, id: u8) -> Vec<u8> {
    vec![code, id, 0, 4]
}

/// Returns a user's name as a peer sent it: one line of text.
fn name(bytes: &[u8]) -> Option<String> {
    let text = str::from_utf8(bytes).ok().filter(|text| text.len() <= MAX_NAME_BYTES)?;
    (!text.contains(char::is_control)).then(|| text.to_owned())
}

/// The next step of a server.
#[derive(Debug)]
pub(crate) enum ServerStep {
    /// Send this request.
    Send(Vec<u8>),
    /// The proof is wrong, which the user's side is to acknowledge: the request, the user's name, and the problem.
    Refuse { packet: Vec<u8>, user: String, problem: String },
    /// The user has proved its identity: the Success packet, the user's name, and the MSK.
    Success { packet: Vec<u8>, user: String, key: Secret },
    /// The user has not proved its identity: the Failure packet, and the reason.
    Failure { packet: Vec<u8>, user: String, problem: String },
}

/// The next step of a method.
enum Step {
    Send(Vec<u8>),
    Refuse { data: Vec<u8>, problem: String },
    Success { user: String, key: Secret },
    Failure(String),
}

enum Method {
    Identity,
    Mschapv2(mschapv2::Server),
    Tls(Box<Tls>),
}

/// A conversation with a user.
pub(crate) struct Server {
    config: Arc<EapServer>,
    id: u8,
    rounds: u16,
    /// The name that the user gave.
    name: String,
    method: Method,
    /// Methods that have been offered; the user may ask for another one.
    offered: Vec<u8>,
}

impl Server {
    /// Returns a conversation, and its first request, which asks for the user's name.
    pub(crate) fn begin(config: Arc<EapServer>, random: &mut Random) -> (Self, Vec<u8>) {
        let [id] = random.bytes();
        let server = Self {
            config,
            id,
            rounds: 0,
            name: String::new(),
            method: Method::Identity,
            offered: Vec::new(),
        };
        (server, packet(REQUEST, id, TYPE_IDENTITY, &[]))
    }

    /// Returns the name that the user gave.
    pub(crate) fn user(&self) -> &str {
        &self.name
    }

    /// Returns whether the user's next answer may be a proof by password.
    pub(crate) fn awaits_password(&self) -> bool {
        matches!(&self.method, Method::Mschapv2(server) if server.is_fresh())
    }

    /// Returns the certificates that the user has shown, its own first; empty for a user with a password.
    pub(crate) fn certificates(&self) -> Vec<Vec<u8>> {
        match &self.method {
            Method::Tls(tls) => tls.certificates(),
            Method::Identity | Method::Mschapv2(_) => Vec::new(),
        }
    }

    fn fail(&self, problem: impl Into<String>) -> ServerStep {
        ServerStep::Failure {
            packet: verdict(FAILURE, self.id),
            user: self.name.clone(),
            problem: problem.into(),
        }
    }

    /// Handles a user's answer. `unix_time` is the time since 1970.
    pub(crate) fn take(&mut self, bytes: &[u8], random: &mut Random, unix_time: Duration) -> ServerStep {
        self.rounds += 1;
        let answer = Packet::parse(bytes).filter(|packet| packet.code == RESPONSE && packet.id == self.id);
        let Some(Packet { kind, data, .. }) = answer else {
            return self.fail("its EAP answer is none to our request");
        };
        if self.rounds > MAX_ROUNDS {
            return self.fail("its EAP conversation does not end");
        }
        let step = match (&mut self.method, kind) {
            (Method::Identity, TYPE_IDENTITY) => {
                let Some(name) = name(data).filter(|name| !name.is_empty()) else {
                    return self.fail("its EAP identity is no name");
                };
                self.name = name;
                self.begin_method(&[TYPE_TLS, TYPE_MSCHAPV2], random, unix_time)
            }
            (Method::Mschapv2(server), TYPE_NAK) if server.is_fresh() => {
                self.begin_method(data, random, unix_time)
            }
            (Method::Tls(tls), TYPE_NAK) if tls.is_fresh() => self.begin_method(data, random, unix_time),
            (Method::Mschapv2(server), TYPE_MSCHAPV2) => server.take(data, &self.config.users, random),
            (Method::Tls(tls), TYPE_TLS) => {
                let authorities = self.config.tls.as_ref().map(|tls| tls.authorities.clone());
                tls.serve(data, &self.name, authorities.as_deref())
            }
            _ => Step::Failure("its EAP answer is of another method than our request".to_owned()),
        };
        self.id = self.id.wrapping_add(1);
        let kind = match self.method {
            Method::Identity => TYPE_IDENTITY,
            Method::Mschapv2(_) => TYPE_MSCHAPV2,
            Method::Tls(_) => TYPE_TLS,
        };
        match step {
            Step::Send(data) => ServerStep::Send(packet(REQUEST, self.id, kind, &data)),
            Step::Refuse { data, problem } => {
                let packet = packet(REQUEST, self.id, kind, &data);
                ServerStep::Refuse { packet, user: self.name.clone(), problem }
            }
            Step::Success { user, key } => {
                ServerStep::Success { packet: verdict(SUCCESS, self.id), user, key }
            }
            Step::Failure(problem) => self.fail(problem),
        }
    }

    /// Begins the first of the wanted methods that is configured and has not been offered yet.
    fn begin_method(&mut self, wanted: &[u8], random: &mut Random, unix_time: Duration) -> Step {
        for &kind in wanted {
            if self.offered.contains(&kind) {
                continue;
            }
            let (method, data) = match kind {
                TYPE_TLS => match &self.config.tls {
                    Some(config) => match Tls::server(config, unix_time) {
                        Ok((tls, data)) => (Method::Tls(Box::new(tls)), data),
                        Err(problem) => return Step::Failure(problem),
                    },
                    None => continue,
                },
                TYPE_MSCHAPV2 if !self.config.users.is_empty() => {
                    let (server, data) = mschapv2::Server::begin(random);
                    (Method::Mschapv2(server), data)
                }
                _ => continue,
            };
            self.method = method;
            self.offered.push(kind);
            return Step::Send(data);
        }
        Step::Failure("it takes none of the EAP methods that are configured".to_owned())
    }
}

/// The next step of a client.
#[derive(Debug)]
pub(crate) enum ClientStep {
    /// Send this answer.
    Send(Vec<u8>),
    /// Both ends have the MSK.
    Success(Secret),
    /// The server refused us.
    Refused { user: String, problem: String },
    /// The server is not the expected one, or breaks the protocol.
    Failure(String),
}

enum ClientMethod {
    None,
    Mschapv2(Box<mschapv2::Client>),
    Tls(Box<Tls>),
}

/// A conversation with a server.
pub(crate) struct Client {
    config: EapClient,
    rounds: u16,
    method: ClientMethod,
    /// The reason why the method failed, until the server ends the conversation.
    problem: Option<String>,
}

impl Client {
    pub(crate) fn new(config: EapClient) -> Self {
        Self { config, rounds: 0, method: ClientMethod::None, problem: None }
    }

    fn refused(&mut self) -> ClientStep {
        let problem = self.problem.take();
        let problem =
            problem.unwrap_or_else(|| "the server refuses the user; compare what both ends have".to_owned());
        ClientStep::Refused { user: self.config.user().to_owned(), problem }
    }

    /// Handles a server's packet. `unix_time` is the time since 1970.
    pub(crate) fn take(&mut self, bytes: &[u8], random: &mut Random, unix_time: Duration) -> ClientStep {
        self.rounds += 1;
        let Some(Packet { code, id, kind, data }) = Packet::parse(bytes) else {
            return ClientStep::Failure("its EAP packet is none".to_owned());
        };
        if self.rounds > MAX_ROUNDS {
            return ClientStep::Failure("its EAP conversation does not end".to_owned());
        }
        match code {
            SUCCESS => {
                let key = match &self.method {
                    ClientMethod::None => None,
                    ClientMethod::Mschapv2(client) => client.key(),
                    ClientMethod::Tls(tls) => tls.client_key(),
                };
                return match key {
                    Some(key) => ClientStep::Success(key),
                    None => ClientStep::Failure(
                        "the server says that all is well before it has proved itself".to_owned(),
                    ),
                };
            }
            FAILURE => return self.refused(),
            REQUEST => {}
            _ => return ClientStep::Failure("its EAP packet is no request".to_owned()),
        }
        let answer = |kind: u8, data: &[u8]| ClientStep::Send(packet(RESPONSE, id, kind, data));
        match kind {
            TYPE_IDENTITY => answer(kind, self.config.user().as_bytes()),
            TYPE_NOTIFICATION => answer(kind, &[]),
            kind if kind == self.config.method() => match self.answer(data, random, unix_time) {
                Ok(data) => answer(kind, &data),
                Err(problem) => ClientStep::Failure(problem),
            },
            _ => answer(TYPE_NAK, &[self.config.method()]),
        }
    }

    /// Returns the method's answer.
    fn answer(&mut self, data: &[u8], random: &mut Random, unix_time: Duration) -> Result<Vec<u8>, String> {
        match (&self.config, &mut self.method) {
            (EapClient::Password { user, password }, ClientMethod::None) => {
                let (client, answer) = mschapv2::Client::begin(user, password, data, random)?;
                self.method = ClientMethod::Mschapv2(Box::new(client));
                Ok(answer)
            }
            (EapClient::Password { .. }, ClientMethod::Mschapv2(client)) => {
                let (answer, problem) = client.take(data)?;
                self.problem = problem.or_else(|| self.problem.take());
                Ok(answer)
            }
            (EapClient::Certificate { tls, server, .. }, ClientMethod::None) => {
                let (tls, answer) = Tls::client(tls, server, data, unix_time)?;
                self.method = ClientMethod::Tls(Box::new(tls));
                Ok(answer)
            }
            (EapClient::Certificate { .. }, ClientMethod::Tls(tls)) => {
                let (answer, problem) = tls.converse(data)?;
                self.problem = problem.or_else(|| self.problem.take());
                Ok(answer)
            }
            _ => Err("the server changes the EAP method".to_owned()),
        }
    }
}

/// Returns whether a certificate's names include `user`. The certificate has been found genuine.
fn has_user(authorities: &Authorities, certificate: &[u8], user: &str) -> bool {
    // Windows machines put this prefix before their name.
    authorities.names_user(certificate, user.strip_prefix("host/").unwrap_or(user))
}
