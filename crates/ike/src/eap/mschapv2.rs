//! EAP-MSCHAPv2: a user's password, proved in both directions (RFC 2759; draft-kamath-pppext-eap-mschapv2-02; keys by
//! RFC 3079).
//!
//! The protocol rests on MD4 and DES, so anybody who sees a conversation can find the password. Inside of IKE only
//! the server sees it, and the server has proved itself before. Neither algorithm is in this workspace's own kernels
//! or in aws-lc-rs; RustCrypto provides them.
//!
//! Guarantees: both proofs are compared in constant time; password hashes and keys are wiped.

use aws_lc_rs::digest;
use des::{
    Des,
    cipher::{BlockCipherEncrypt as _, KeyInit as _},
};
use md4::{Digest as _, Md4};
use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

use super::{Step, Users, name};
use crate::{crypto::prf::Secret, random::Random};

const CHALLENGE: u8 = 1;
const RESPONSE: u8 = 2;
const SUCCESS: u8 = 3;
const FAILURE: u8 = 4;

/// Bytes of either end's challenge, and of the user's proof.
const CHALLENGE_BYTES: usize = 16;
const PROOF_BYTES: usize = 24;
/// Peer's challenge, 8 reserved bytes, proof, flags.
const VALUE_BYTES: usize = CHALLENGE_BYTES + 8 + PROOF_BYTES + 1;
/// Bytes of the server's proof: "S=" and 40 hexadecimal digits.
const SERVER_PROOF_BYTES: usize = 42;
/// The name that we send for ourselves; nothing depends on it.
const OUR_NAME: &[u8] = b"sealane";

/// MD4 of a password as UTF-16 (`NtPasswordHash`), which is as sensitive as the password itself.
#[derive(Clone, PartialEq, Eq)]
pub struct PasswordHash(Zeroizing<[u8; 16]>);

impl std::fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PasswordHash")
    }
}

impl PasswordHash {
    /// Returns the hash of a password.
    pub fn of(password: &str) -> Self {
        let wide: Zeroizing<Vec<u8>> =
            Zeroizing::new(password.encode_utf16().flat_map(u16::to_le_bytes).collect());
        Self(Zeroizing::new(Md4::digest(&*wide).into()))
    }

    fn hash(&self) -> Self {
        Self(Zeroizing::new(Md4::digest(*self.0).into()))
    }
}

fn sha1(parts: &[&[u8]]) -> [u8; 20] {
    let mut context = digest::Context::new(&digest::SHA1_FOR_LEGACY_USE_ONLY);
    parts.iter().for_each(|part| context.update(part));
    context.finish().as_ref().try_into().expect("SHA-1 has 20 bytes")
}

/// Returns the `ChallengeHash` of RFC 2759, section 8.2. `user` is without a domain.
pub fn challenge_hash(peer: &[u8; 16], server: &[u8; 16], user: &str) -> [u8; 8] {
    let [hash @ .., _, _, _, _, _, _, _, _, _, _, _, _] = sha1(&[peer, server, user.as_bytes()]);
    hash
}

/// Encrypts a block with DES. The key of 56 bits is spread over eight bytes whose last bit is parity.
fn des(key: &[u8; 7], block: [u8; 8]) -> [u8; 8] {
    let bits = key.iter().fold(0u64, |bits, byte| bits << 8 | u64::from(*byte));
    let spread: Zeroizing<[u8; 8]> =
        Zeroizing::new(std::array::from_fn(|index| ((bits >> (49 - 7 * index)) as u8 & 0x7f) << 1));
    let mut block = block.into();
    Des::new(&(*spread).into()).encrypt_block(&mut block);
    block.into()
}

/// Returns the user's proof: `GenerateNTResponse` of RFC 2759, section 8.1.
pub fn user_proof(server: &[u8; 16], peer: &[u8; 16], user: &str, hash: &PasswordHash) -> [u8; PROOF_BYTES] {
    let challenge = challenge_hash(peer, server, user);
    let mut padded = Zeroizing::new([0; 21]);
    padded[..16].copy_from_slice(&*hash.0);
    let mut proof = [0; PROOF_BYTES];
    let (keys, _) = padded.as_chunks::<7>();
    for (key, part) in keys.iter().zip(proof.chunks_exact_mut(8)) {
        part.copy_from_slice(&des(key, challenge));
    }
    proof
}

/// Returns the server's proof as it is sent: `GenerateAuthenticatorResponse` of RFC 2759, section 8.7.
pub fn server_proof(
    server: &[u8; 16],
    peer: &[u8; 16],
    user: &str,
    hash: &PasswordHash,
    proof: &[u8; PROOF_BYTES],
) -> [u8; SERVER_PROOF_BYTES] {
    let first = sha1(&[&*hash.hash().0, proof, b"Magic server to client signing constant"]);
    let challenge = challenge_hash(peer, server, user);
    let digest = sha1(&[&first, &challenge, b"Pad to make it do more than one iteration"]);
    let mut text = [0; SERVER_PROOF_BYTES];
    text[..2].copy_from_slice(b"S=");
    for (byte, digits) in digest.iter().zip(text[2..].chunks_exact_mut(2)) {
        let digit = |value: u8| b"0123456789ABCDEF"[usize::from(value)];
        digits.copy_from_slice(&[digit(byte >> 4), digit(byte & 15)]);
    }
    text
}

/// Returns the MSK: the server's receiving and sending keys of RFC 3079, section 3.4, followed by zeros up to 64
/// bytes.
pub fn session_key(hash: &PasswordHash, proof: &[u8; PROOF_BYTES]) -> Secret {
    let master = Zeroizing::new(sha1(&[&*hash.hash().0, proof, b"This is the MPPE Master Key"]));
    let key = |sends: &str| {
        let magic = format!(
            "On the client side, this is the {} key; on the server side, it is the {} key.",
            if sends == "client" { "send" } else { "receive" },
            if sends == "client" { "receive" } else { "send" }
        );
        Zeroizing::new(sha1(&[&master[..16], &[0; 40], magic.as_bytes(), &[0xf2; 40]]))
    };
    let mut all = Zeroizing::new(vec![0; 64]);
    all[..16].copy_from_slice(&key("client")[..16]);
    all[16..32].copy_from_slice(&key("server")[..16]);
    all
}

/// Returns a message inside of an EAP packet; its length counts from its first byte.
fn message(kind: u8, id: u8, data: &[u8]) -> Vec<u8> {
    let length = u16::try_from(4 + data.len()).expect("names and texts are short");
    let mut bytes = vec![kind, id];
    bytes.extend(length.to_be_bytes());
    bytes.extend(data);
    bytes
}

/// Returns kind, number and data of a message.
fn read(bytes: &[u8]) -> Option<(u8, u8, &[u8])> {
    let (&[kind, id, high, low], data) = bytes.split_first_chunk::<4>()?;
    (usize::from(u16::from_be_bytes([high, low])) == bytes.len()).then_some((kind, id, data))
}

/// Returns a user's name without the domain that Windows puts before it. The proofs are computed over this name.
fn without_domain(user: &str) -> &str {
    user.rsplit_once('\\').map_or(user, |(_, user)| user)
}

enum Stage {
    Challenged([u8; CHALLENGE_BYTES]),
    Proved { user: String, key: Secret },
    Refused { user: String },
}

/// The end that knows all users' passwords.
pub(super) struct Server {
    id: u8,
    stage: Stage,
}

impl Server {
    /// Returns a conversation, and its challenge.
    pub(super) fn begin(random: &mut Random) -> (Self, Vec<u8>) {
        let challenge: [u8; CHALLENGE_BYTES] = random.bytes();
        let [id] = random.bytes();
        let mut data = vec![CHALLENGE_BYTES as u8];
        data.extend(challenge);
        data.extend(OUR_NAME);
        (Self { id, stage: Stage::Challenged(challenge) }, message(CHALLENGE, id, &data))
    }

    /// Returns whether the user has not answered yet.
    pub(super) fn is_fresh(&self) -> bool {
        matches!(self.stage, Stage::Challenged(_))
    }

    pub(super) fn take(&mut self, bytes: &[u8], users: &Users, random: &mut Random) -> Step {
        let broken = || Step::Failure("its MSCHAPv2 message is malformed".to_owned());
        match &self.stage {
            Stage::Challenged(challenge) => {
                let Some((RESPONSE, id, data)) = read(bytes) else { return broken() };
                let Some((value, user)) = proof_and_user(data) else { return broken() };
                if id != self.id {
                    return broken();
                }
                let (peer, proof) = value;
                // An unknown user is refused as late as one with a wrong password.
                let known = users.0.get_key_value(&user);
                let known = known.or_else(|| users.0.get_key_value(without_domain(&user)));
                let unknown = PasswordHash(Zeroizing::new(random.bytes()));
                let hash = known.map_or(&unknown, |(_, hash)| hash);
                let expected = user_proof(challenge, &peer, without_domain(&user), hash);
                let is_right = bool::from(expected.ct_eq(&proof));
                if let Some((known, _)) = known.filter(|_| is_right) {
                    let ours = server_proof(challenge, &peer, without_domain(&user), hash, &proof);
                    let text = [&ours[..], b" M=Welcome"].concat();
                    self.stage = Stage::Proved { user: known.clone(), key: session_key(hash, &proof) };
                    Step::Send(message(SUCCESS, self.id, &text))
                } else {
                    let again: [u8; 16] = random.bytes();
                    let digits: String = again.iter().map(|byte| format!("{byte:02X}")).collect();
                    let text = format!("E=691 R=0 C={digits} V=3 M=Access denied");
                    let problem = format!("there is no user {user:?}, or the password is another");
                    self.stage = Stage::Refused { user };
                    Step::Refuse { data: message(FAILURE, self.id, text.as_bytes()), problem }
                }
            }
            // The answer to Success and Failure consists of their number alone.
            Stage::Proved { user, key } if bytes.first() == Some(&SUCCESS) => {
                Step::Success { user: user.clone(), key: key.clone() }
            }
            Stage::Proved { .. } => Step::Failure("it does not take our proof of its password".to_owned()),
            Stage::Refused { user } => {
                Step::Failure(format!("there is no user {user:?}, or the password is another"))
            }
        }
    }
}

/// Returns the peer's challenge and proof of a response, and the user's name.
#[expect(clippy::type_complexity, reason = "two arrays that belong together")]
fn proof_and_user(data: &[u8]) -> Option<(([u8; CHALLENGE_BYTES], [u8; PROOF_BYTES]), String)> {
    let (&length, data) = data.split_first()?;
    if usize::from(length) != VALUE_BYTES {
        return None;
    }
    let (value, user) = data.split_at_checked(VALUE_BYTES)?;
    let (peer, rest) = value.split_first_chunk::<CHALLENGE_BYTES>()?;
    let proof = rest.get(8..8 + PROOF_BYTES)?.try_into().ok()?;
    Some(((*peer, proof), name(user).filter(|user| !user.is_empty())?))
}

/// The end that has the password of one user.
pub(super) struct Client {
    id: u8,
    expected: [u8; SERVER_PROOF_BYTES],
    key: Secret,
    is_proved: bool,
}

impl Client {
    /// Answers a challenge.
    pub(super) fn begin(
        user: &str,
        password: &str,
        bytes: &[u8],
        random: &mut Random,
    ) -> Result<(Self, Vec<u8>), String> {
        let challenge = read(bytes).filter(|(kind, ..)| *kind == CHALLENGE).and_then(|(_, id, data)| {
            let (&length, data) = data.split_first()?;
            let challenge = data.first_chunk::<CHALLENGE_BYTES>()?;
            (usize::from(length) == CHALLENGE_BYTES).then_some((id, *challenge))
        });
        let (id, server) = challenge.ok_or("the server's MSCHAPv2 challenge is malformed")?;
        let (hash, peer) = (PasswordHash::of(password), random.bytes());
        let plain = without_domain(user);
        let proof = user_proof(&server, &peer, plain, &hash);
        let mut data = vec![VALUE_BYTES as u8];
        data.extend(peer);
        data.extend([0; 8]);
        data.extend(proof);
        data.push(0);
        data.extend(user.as_bytes());
        let expected = server_proof(&server, &peer, plain, &hash, &proof);
        let client = Self { id, expected, key: session_key(&hash, &proof), is_proved: false };
        Ok((client, message(RESPONSE, id, &data)))
    }

    /// Answers the server's proof or refusal. Returns the answer, and the reason for a refusal.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<(Vec<u8>, Option<String>), String> {
        let malformed = || "the server's MSCHAPv2 message is malformed".to_owned();
        let (kind, id, data) = read(bytes).ok_or_else(malformed)?;
        if id != self.id {
            return Err(malformed());
        }
        match kind {
            SUCCESS => {
                let given = data.get(..SERVER_PROOF_BYTES).ok_or_else(malformed)?;
                if !bool::from(given.ct_eq(&self.expected)) {
                    return Err("the server does not know the password either".to_owned());
                }
                self.is_proved = true;
                Ok((vec![SUCCESS], None))
            }
            FAILURE => {
                let text = String::from_utf8_lossy(&data[..data.len().min(256)]);
                let problem = if text.starts_with("E=691") {
                    "the server refuses the user; compare name and password".to_owned()
                } else if text.starts_with("E=648") {
                    "the password has expired".to_owned()
                } else {
                    format!("the server refuses the user: {}", text.escape_default())
                };
                Ok((vec![FAILURE], Some(problem)))
            }
            _ => Err(malformed()),
        }
    }

    /// Returns the MSK if the server has proved that it knows the password.
    pub(super) fn key(&self) -> Option<Secret> {
        self.is_proved.then(|| self.key.clone())
    }
}
