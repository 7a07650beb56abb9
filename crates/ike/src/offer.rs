//! Configured proposals, and the choice among a peer's proposals.
//!
//! Guarantees: a choice was offered by both ends; our order decides, first among proposals and then within each type;
//! if nothing fits, the error names the type that came nearest, with our algorithms and the peer's.

use std::{fmt, str::FromStr};

use crate::{
    crypto::{Encryption, Integrity, KeyExchange, Prf},
    keys::KeyPlan,
    wire::{Proposal, Protocol, Transform, TransformType},
};

/// Number of additional key exchanges that RFC 9370 provides.
const MAX_ADDITIONAL: usize = 7;

/// One proposal: alternatives of each type, the preferred first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    protocol: Protocol,
    encryption: Vec<Encryption>,
    integrity: Vec<Integrity>,
    prf: Vec<Prf>,
    exchange: Vec<KeyExchange>,
    additional: Vec<Vec<KeyExchange>>,
    /// Whether extended sequence numbers are accepted, the preferred value first. Empty in proposals for IKE.
    extended: Vec<bool>,
}

/// A proposal that cannot be read, or lacks something.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OfferError {
    /// A word is not the name of an algorithm.
    #[error("{word:?} is no algorithm; known are {}", choices())]
    Unknown {
        /// The part of the proposal, between hyphens, that was not understood.
        word: String,
    },
    /// A type has no algorithm, or has one where none is allowed.
    #[error("{text:?} {problem}")]
    Incomplete {
        /// The proposal.
        text: String,
        /// The rest of a sentence that begins with the proposal.
        problem: &'static str,
    },
}

fn choices() -> String {
    let words = Encryption::ALL.iter().map(|a| a.name()).chain(Integrity::ALL.iter().map(|a| a.name()));
    let words =
        words.chain(Prf::ALL.iter().map(|a| a.name())).chain(KeyExchange::ALL.iter().map(|a| a.name()));
    words.chain(["ke1_mlkem768", "ke1_mlkem1024", "esn", "noesn"]).collect::<Vec<_>>().join(", ")
}

impl Offer {
    /// Reads a proposal for IKE itself, such as `aes256gcm16-prfsha384-x25519-ke1_mlkem768`: encryption, integrity
    /// unless the encryption provides it, function and key exchange, each at least once; without a function, those
    /// with the integrities' digests are used.
    ///
    /// # Errors
    /// Fails if a word is unknown, or if a type is missing.
    pub fn ike(text: &str) -> Result<Self, OfferError> {
        let mut offer = Self::parse(Protocol::Ike, text)?;
        if offer.prf.is_empty() {
            offer.prf = offer.integrity.iter().filter_map(|integrity| digest_of(*integrity)).collect();
        }
        let problem = if offer.prf.is_empty() {
            "has no pseudo-random function, such as prfsha256"
        } else if offer.exchange.is_empty() {
            "has no key exchange, such as x25519"
        } else if offer.exchange.iter().any(|method| method.is_only_additional()) {
            "begins with a key exchange whose values are too long for a first message; write ke1_ before it"
        } else if offer.integrity.contains(&Integrity::HmacSha1) {
            "has SHA-1, which IKE itself does not take here"
        } else if !offer.extended.is_empty() {
            "says how ESP counts, and is for IKE"
        } else {
            return Ok(offer);
        };
        Err(OfferError::Incomplete { text: text.to_owned(), problem })
    }

    /// Reads a proposal for ESP, such as `aes256gcm16-x25519` or `aes256-sha256-esn`. Without `esn` or `noesn` both
    /// lengths of sequence numbers are accepted.
    ///
    /// # Errors
    /// Fails if a word is unknown, or if a type is missing.
    pub fn esp(text: &str) -> Result<Self, OfferError> {
        Self::child(Protocol::Esp, text)
    }

    /// Reads a proposal for AH, such as `sha256-x25519`: integrities and key exchanges. Without `esn` or `noesn` both
    /// lengths of sequence numbers are accepted.
    ///
    /// # Errors
    /// Fails if a word is unknown, or if a type is missing.
    pub fn ah(text: &str) -> Result<Self, OfferError> {
        Self::child(Protocol::Ah, text)
    }

    fn child(protocol: Protocol, text: &str) -> Result<Self, OfferError> {
        let mut offer = Self::parse(protocol, text)?;
        if offer.extended.is_empty() {
            offer.extended = vec![true, false];
        }
        if offer.prf.is_empty() {
            return Ok(offer);
        }
        let problem = "has a pseudo-random function, which only IKE itself needs";
        Err(OfferError::Incomplete { text: text.to_owned(), problem })
    }

    /// Returns the proposals for IKE that are used if none are configured: post-quantum key exchanges first, then the
    /// algorithms of gateways, phones and laptops of the last ten years, except for broken ones.
    ///
    /// # Panics
    /// Never panics: the texts are valid proposals.
    pub fn standard_ike() -> Vec<Self> {
        let texts = [
            "aes256gcm16-aes128gcm16-chacha20poly1305-prfsha384-prfsha512-prfsha256-x25519-ecp384-ecp256-ke1_mlkem768-ke1_mlkem1024",
            "aes256gcm16-aes128gcm16-chacha20poly1305-prfsha384-prfsha512-prfsha256-x25519-ecp384-ecp256-modp3072-modp2048-modp4096",
            "aes256-aes128-sha384-sha512-sha256-x25519-ecp384-ecp256-modp3072-modp2048-modp4096",
        ];
        texts.into_iter().map(|text| Self::ike(text).expect("a proposal")).collect()
    }

    /// Returns the proposals for ESP that are used if none are configured. Keys are renewed with or without a key
    /// exchange, as the other end prefers.
    ///
    /// # Panics
    /// Never panics: the texts are valid proposals.
    pub fn standard_esp() -> Vec<Self> {
        let texts = [
            "aes256gcm16-aes128gcm16-chacha20poly1305-x25519-ecp384-ecp256-modp3072-modp2048-modp4096",
            "aes256-aes128-sha384-sha512-sha256-x25519-ecp384-ecp256-modp3072-modp2048-modp4096",
        ];
        texts.into_iter().map(|text| Self::esp(text).expect("a proposal")).collect()
    }

    fn parse(protocol: Protocol, text: &str) -> Result<Self, OfferError> {
        let mut offer = Self {
            protocol,
            encryption: Vec::new(),
            integrity: Vec::new(),
            prf: Vec::new(),
            exchange: Vec::new(),
            additional: Vec::new(),
            extended: Vec::new(),
        };
        for word in text.split('-') {
            offer.take(word).ok_or_else(|| OfferError::Unknown { word: word.to_owned() })?;
        }
        let incomplete = |problem| Err(OfferError::Incomplete { text: text.to_owned(), problem });
        let combined = offer.encryption.iter().filter(|encryption| encryption.is_combined()).count();
        match (protocol, offer.encryption.is_empty()) {
            (Protocol::Ah, false) => return incomplete("has an encryption, and AH encrypts nothing"),
            (Protocol::Ah, true) if offer.integrity.is_empty() => {
                return incomplete("has no integrity, such as sha256");
            }
            (Protocol::Ah, true) => {}
            (_, true) => return incomplete("has no encryption"),
            (_, false) if combined != 0 && combined != offer.encryption.len() => {
                return incomplete("mixes encryptions with and without integrity; make two proposals");
            }
            (_, false) if (combined == 0) == offer.integrity.is_empty() => {
                return incomplete("needs an integrity exactly where its encryption has none");
            }
            (_, false) => {}
        }
        if offer.additional.iter().any(Vec::is_empty)
            || offer.exchange.is_empty() && !offer.additional.is_empty()
        {
            return incomplete("has an additional key exchange without the one before it");
        }
        Ok(offer)
    }

    fn take(&mut self, word: &str) -> Option<()> {
        if let Some(algorithm) = Encryption::from_name(word) {
            self.encryption.push(algorithm);
        } else if let Some(algorithm) = Integrity::from_name(word) {
            self.integrity.push(algorithm);
        } else if let Some(algorithm) = Prf::from_name(word) {
            self.prf.push(algorithm);
        } else if let Some(algorithm) = KeyExchange::from_name(word) {
            self.exchange.push(algorithm);
        } else if let Some((place, name)) = word.strip_prefix("ke").and_then(|rest| rest.split_once('_')) {
            let place: usize = place.parse().ok().filter(|place| (1..=MAX_ADDITIONAL).contains(place))?;
            let method = KeyExchange::from_name(name)?;
            if self.additional.len() < place {
                self.additional.resize(place, Vec::new());
            }
            self.additional[place - 1].push(method);
        } else {
            match word {
                "esn" => self.extended.push(true),
                "noesn" => self.extended.push(false),
                _ => return None,
            }
        }
        Some(())
    }

    /// Returns the key exchange that is tried first.
    pub fn first_exchange(&self) -> Option<KeyExchange> {
        self.exchange.first().copied()
    }

    /// Returns whether `method` is one of the first key exchanges of the proposal.
    pub fn has_exchange(&self, method: KeyExchange) -> bool {
        self.exchange.contains(&method)
    }

    /// Returns whether the proposal has additional key exchanges.
    pub fn has_additional(&self) -> bool {
        !self.additional.is_empty()
    }

    /// Returns the suites of ESP or AH in the proposal.
    pub fn child_suites(&self) -> Vec<ChildSuite> {
        let integrities: Vec<Option<Integrity>> = match self.integrity.is_empty() {
            true => vec![None],
            false => self.integrity.iter().copied().map(Some).collect(),
        };
        let encryptions: Vec<Option<Encryption>> = match self.encryption.is_empty() {
            true => vec![None],
            false => self.encryption.iter().copied().map(Some).collect(),
        };
        let of = |&encryption: &Option<Encryption>| {
            let beside = integrities.iter().flat_map(move |&integrity| {
                self.extended.iter().map(move |&extended| ChildSuite { encryption, integrity, extended })
            });
            beside.collect::<Vec<_>>()
        };
        encryptions.iter().flat_map(of).collect()
    }

    /// Returns the proposal without any key exchange, as IKE_AUTH sends it.
    pub fn without_exchange(&self) -> Self {
        Self { exchange: Vec::new(), additional: Vec::new(), ..self.clone() }
    }

    /// Returns the proposal as it is sent.
    pub fn to_wire(&self, number: u8, spi: Vec<u8>) -> Proposal {
        let mut transforms: Vec<Transform> = self.encryption.iter().map(|a| a.transform()).collect();
        transforms.extend(self.integrity.iter().map(|a| a.transform()));
        transforms.extend(self.prf.iter().map(|a| a.transform()));
        transforms.extend(self.exchange.iter().map(|a| a.transform(TransformType::KEY_EXCHANGE)));
        for (index, methods) in self.additional.iter().enumerate() {
            let kind = TransformType::additional_key_exchange(index);
            transforms.extend(methods.iter().map(|method| method.transform(kind)));
        }
        transforms.extend(self.extended.iter().map(|&extended| sequence_numbers(extended)));
        Proposal { number, protocol: self.protocol, spi, transforms }
    }
}

fn digest_of(integrity: Integrity) -> Option<Prf> {
    match integrity {
        Integrity::HmacSha512 => Some(Prf::HmacSha512),
        Integrity::HmacSha384 => Some(Prf::HmacSha384),
        Integrity::HmacSha256 => Some(Prf::HmacSha256),
        Integrity::HmacSha1 => None,
    }
}

fn sequence_numbers(extended: bool) -> Transform {
    Transform::new(TransformType::SEQUENCE_NUMBERS, extended.into(), None)
}

impl fmt::Display for Offer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words: Vec<String> = self.encryption.iter().map(|a| a.name().to_owned()).collect();
        words.extend(self.integrity.iter().map(|a| a.name().to_owned()));
        words.extend(self.prf.iter().map(|a| a.name().to_owned()));
        words.extend(self.exchange.iter().map(|a| a.name().to_owned()));
        for (index, methods) in self.additional.iter().enumerate() {
            words.extend(methods.iter().map(|method| format!("ke{}_{}", index + 1, method.name())));
        }
        words.extend(self.extended.iter().map(|&extended| if extended { "esn" } else { "noesn" }.to_owned()));
        f.write_str(&words.join("-"))
    }
}

impl FromStr for Offer {
    type Err = OfferError;

    /// Reads a proposal for IKE; [`Offer::esp`] reads those for ESP.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ike(text)
    }
}

/// The chosen algorithms, which both ends accept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Encryption; `None` for AH.
    pub encryption: Option<Encryption>,
    /// Integrity, unless the encryption provides it.
    pub integrity: Option<Integrity>,
    /// The pseudo-random function; `None` for ESP and AH.
    pub prf: Option<Prf>,
    /// The key exchange; `None` for a child whose keys are derived from those of the IKE SA alone.
    pub exchange: Option<KeyExchange>,
    /// Additional key exchanges, in order.
    pub additional: Vec<KeyExchange>,
    /// Whether ESP or AH uses sequence numbers of 64 bits.
    pub extended: bool,
}

impl Choice {
    /// Returns the algorithms for which an IKE SA's keys are derived; `None` for ESP and AH.
    pub fn key_plan(&self) -> Option<KeyPlan> {
        Some(KeyPlan { encryption: self.encryption?, integrity: self.integrity, prf: self.prf? })
    }

    /// Returns the suite of ESP or AH.
    pub fn child_suite(&self) -> ChildSuite {
        ChildSuite { encryption: self.encryption, integrity: self.integrity, extended: self.extended }
    }
}

/// The algorithms with which an ESP or AH association protects packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChildSuite {
    /// Encryption; `None` for AH.
    pub encryption: Option<Encryption>,
    /// Integrity, unless the encryption provides it.
    pub integrity: Option<Integrity>,
    /// Whether sequence numbers have 64 bits.
    pub extended: bool,
}

impl ChildSuite {
    /// Returns the protocol of the association.
    pub fn protocol(self) -> Protocol {
        if self.encryption.is_some() { Protocol::Esp } else { Protocol::Ah }
    }

    /// Returns the length in bytes of the key material of one direction: encryption key, salt, integrity key.
    pub fn material_bytes(self) -> usize {
        let encryption =
            self.encryption.map_or(0, |algorithm| algorithm.key_bytes() + algorithm.salt_bytes());
        encryption + self.integrity.map_or(0, Integrity::key_bytes)
    }

    /// Returns the suite's name in crate `ipsec`, such as `aes-256-gcm`, `aes-256-cbc+hmac-sha256-128` or, for AH,
    /// `hmac-sha256-128`.
    pub fn name(self) -> String {
        let encryption = self.encryption.map(|encryption| match encryption {
            Encryption::Aes256Gcm => "aes-256-gcm",
            Encryption::Aes128Gcm => "aes-128-gcm",
            Encryption::ChaCha20Poly1305 => "chacha20-poly1305",
            Encryption::Aes256Ccm16 => "aes-256-ccm",
            Encryption::Aes128Ccm16 => "aes-128-ccm",
            Encryption::Aes256Ccm12 => "aes-256-ccm-96",
            Encryption::Aes128Ccm12 => "aes-128-ccm-96",
            Encryption::Aes256Ccm8 => "aes-256-ccm-64",
            Encryption::Aes128Ccm8 => "aes-128-ccm-64",
            Encryption::Aes256Cbc => "aes-256-cbc",
            Encryption::Aes128Cbc => "aes-128-cbc",
        });
        let integrity = self.integrity.map(|integrity| match integrity {
            Integrity::HmacSha512 => "hmac-sha512-256",
            Integrity::HmacSha384 => "hmac-sha384-192",
            Integrity::HmacSha256 => "hmac-sha256-128",
            Integrity::HmacSha1 => "hmac-sha1-96",
        });
        encryption.into_iter().chain(integrity).collect::<Vec<_>>().join("+")
    }
}

/// The reason why no proposal fits: the type in which the nearest pair differs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no common {}: taken here are {ours}, the peer offers {theirs}", kind.name())]
pub struct Mismatch {
    /// The type.
    pub kind: TransformType,
    /// Our algorithms, as words.
    pub ours: String,
    /// The peer's algorithms, as words if they are known here, else as numbers; the list is limited in length.
    pub theirs: String,
}

/// Maximum number of the peer's algorithms in an error; a stranger can send as many as fit a datagram.
const MAX_NAMED: usize = 16;

struct Selection<'a> {
    theirs: &'a Proposal,
    chosen: Vec<Transform>,
}

impl Selection<'_> {
    /// Returns the first of our algorithms that the peer has too. If we have none, the peer must have none either, or
    /// "none" among its algorithms.
    fn pick<T: Copy>(
        &mut self,
        kind: TransformType,
        ours: &[T],
        transform: impl Fn(T) -> Transform,
        name: impl Fn(T) -> String,
    ) -> Result<Option<T>, Mismatch> {
        let none = Transform::new(kind, 0, None);
        if ours.is_empty() {
            let mut theirs = self.theirs.of(kind).peekable();
            if theirs.peek().is_none() {
                return Ok(None);
            }
            if theirs.any(|theirs| *theirs == none) {
                self.chosen.push(none);
                return Ok(None);
            }
        }
        for &candidate in ours {
            let wanted = transform(candidate);
            if self.theirs.of(kind).any(|theirs| *theirs == wanted) {
                self.chosen.push(wanted);
                return Ok(Some(candidate));
            }
        }
        let named = |list: Vec<String>| if list.is_empty() { "none".to_owned() } else { list.join(", ") };
        let theirs = self.theirs.of(kind).take(MAX_NAMED).map(word).collect();
        Err(Mismatch {
            kind,
            ours: named(ours.iter().map(|&one| name(one)).collect()),
            theirs: named(theirs),
        })
    }
}

/// Returns the name of a peer's transform.
fn word(transform: &Transform) -> String {
    let known = match transform.kind {
        TransformType::ENCRYPTION => {
            Encryption::ALL.iter().find(|a| a.transform() == *transform).map(|a| a.name())
        }
        TransformType::INTEGRITY => {
            Integrity::ALL.iter().find(|a| a.transform() == *transform).map(|a| a.name())
        }
        TransformType::PRF => Prf::ALL.iter().find(|a| a.transform() == *transform).map(|a| a.name()),
        TransformType::SEQUENCE_NUMBERS => None,
        _ => KeyExchange::from_number(transform.id).map(|a| a.name()),
    };
    match (known, transform.key_bits) {
        (Some(name), _) => name.to_owned(),
        (None, None) => format!("number {}", transform.id),
        (None, Some(bits)) => format!("number {} of {bits} bits", transform.id),
    }
}

/// Whether a key exchange must be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exchanges {
    /// One of ours must be chosen: the proposals are for IKE.
    Required,
    /// A key exchange is chosen or not, as the peer prefers: the proposals are for a child that is added or rekeyed.
    /// A peer whose configuration differs in this shows it only at the first rekeying, hours after the tunnel was
    /// established, so both are accepted.
    Optional,
    /// No key exchange is chosen: the first child's keys are derived from those of the IKE SA.
    None,
}

fn select_from(
    ours: &Offer,
    theirs: &Proposal,
    exchanges: Exchanges,
) -> Result<(Choice, Proposal), (usize, Mismatch)> {
    let mut selection = Selection { theirs, chosen: Vec::new() };
    let name = |a: Encryption| a.name().to_owned();
    let encryption = selection.pick(TransformType::ENCRYPTION, &ours.encryption, Encryption::transform, name);
    let encryption = encryption.map_err(|mismatch| (0, mismatch))?;
    let integrity = selection
        .pick(TransformType::INTEGRITY, &ours.integrity, Integrity::transform, |a| a.name().to_owned());
    let integrity = integrity.map_err(|mismatch| (1, mismatch))?;
    let prf = selection.pick(TransformType::PRF, &ours.prf, Prf::transform, |a| a.name().to_owned());
    let prf = prf.map_err(|mismatch| (2, mismatch))?;
    let all: Vec<KeyExchange>;
    let has_theirs = theirs.of(TransformType::KEY_EXCHANGE).any(|transform| transform.id != 0);
    let methods: &[KeyExchange] = match exchanges {
        Exchanges::Required => &ours.exchange,
        Exchanges::Optional if !has_theirs => &[],
        Exchanges::Optional if ours.exchange.is_empty() => {
            all = KeyExchange::ALL.iter().copied().filter(|method| !method.is_only_additional()).collect();
            &all
        }
        Exchanges::Optional => &ours.exchange,
        Exchanges::None => &[],
    };
    let pick_exchange = |selection: &mut Selection<'_>, kind, methods: &[KeyExchange]| {
        selection.pick(kind, methods, |method| method.transform(kind), |method| method.name().to_owned())
    };
    let mut additional = Vec::new();
    let mut exchange = None;
    if exchanges != Exchanges::None {
        exchange = pick_exchange(&mut selection, TransformType::KEY_EXCHANGE, methods).map_err(|m| (3, m))?;
        if exchange.is_some() {
            for index in 0..MAX_ADDITIONAL {
                let kind = TransformType::additional_key_exchange(index);
                let methods = ours.additional.get(index).map_or(&[][..], Vec::as_slice);
                additional.extend(pick_exchange(&mut selection, kind, methods).map_err(|m| (4, m))?);
            }
        }
    }
    // A peer that sends nothing about sequence numbers uses 32 bits.
    let says_nothing = theirs.of(TransformType::SEQUENCE_NUMBERS).next().is_none();
    let ways: &[bool] = if says_nothing && ours.extended.contains(&false) { &[] } else { &ours.extended };
    let extended = selection.pick(TransformType::SEQUENCE_NUMBERS, ways, sequence_numbers, |extended| {
        if extended { "esn" } else { "noesn" }.to_owned()
    });
    let extended = extended.map_err(|mismatch| (5, mismatch))?.unwrap_or(false);
    let choice = Choice { encryption, integrity, prf, exchange, additional, extended };
    let reply = Proposal { spi: Vec::new(), transforms: selection.chosen, ..theirs.clone() };
    Ok((choice, reply))
}

/// Chooses among a peer's proposals. The returned proposal, which answers them, has no SPI yet.
///
/// # Errors
/// Fails if none of them fits any of ours.
pub fn select(
    ours: &[Offer],
    theirs: &[Proposal],
    exchanges: Exchanges,
) -> Result<(Choice, Proposal), Mismatch> {
    let mut nearest: Option<(usize, Mismatch)> = None;
    for offer in ours {
        for proposal in theirs.iter().filter(|proposal| proposal.protocol == offer.protocol) {
            match select_from(offer, proposal, exchanges) {
                Ok(chosen) => return Ok(chosen),
                Err(mismatch) if nearest.as_ref().is_none_or(|(best, _)| mismatch.0 > *best) => {
                    nearest = Some(mismatch);
                }
                Err(_) => {}
            }
        }
    }
    Err(nearest.map_or_else(
        || Mismatch {
            kind: TransformType::ENCRYPTION,
            ours: list(ours),
            theirs: "nothing for this protocol".to_owned(),
        },
        |(_, mismatch)| mismatch,
    ))
}

/// Returns proposals as words.
pub(crate) fn list(offers: &[Offer]) -> String {
    offers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Reads a peer's answer to our proposals: one proposal, all of whose transforms were offered.
///
/// # Errors
/// Fails if the answer is not one of our proposals.
pub fn accept(ours: &[Offer], answer: &[Proposal], exchanges: Exchanges) -> Result<Choice, Mismatch> {
    let [answer] = answer else {
        return select(ours, &[], exchanges).map(|(choice, _)| choice);
    };
    let number = usize::from(answer.number);
    let offered = number.checked_sub(1).and_then(|index| ours.get(index)).map(std::slice::from_ref);
    let (choice, chosen) = select(offered.unwrap_or_default(), std::slice::from_ref(answer), exchanges)?;
    if chosen.transforms.len() == answer.transforms.len() {
        return Ok(choice);
    }
    let theirs = answer.transforms.iter().take(MAX_NAMED).map(word).collect::<Vec<_>>().join(", ");
    Err(Mismatch { kind: TransformType::ENCRYPTION, ours: "one algorithm of each type".to_owned(), theirs })
}
