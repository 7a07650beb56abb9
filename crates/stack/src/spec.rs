//! Stacks in the notation of the papers: `des/tcp/md5/ip/fddi`.
//!
//! Guarantees: a text that parses is printed the same; the error for a text says what is wrong with it. No more is
//! allocated than [`LAYERS_MAX`] times [`ARGUMENTS_MAX`] short words.

use std::{fmt, str::FromStr, sync::Arc};

use sealane_engine::{Implementations, KeyError};

use crate::{Layer, Overhead, Way};
use sealane_engine::record::Secret;

/// The maximum number of layers of a stack.
pub const LAYERS_MAX: usize = 16;
/// The maximum number of arguments of a layer.
pub const ARGUMENTS_MAX: usize = 8;
/// The maximum length of a stack's text in bytes.
const TEXT_BYTES_MAX: usize = 1024;

/// A stack's layers by name, from the application's side to the wire's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    layers: Vec<LayerSpec>,
}

/// A layer's name and its arguments: `esp(aes-128-gcm)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerSpec {
    /// The name: lower-case letters, digits, `-` and `.`.
    pub name: String,
    /// The arguments in parentheses: the same characters, upper-case letters, `_`, `=` and `:`.
    pub arguments: Vec<String>,
}

/// The error for a text that is not a stack.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// The stack is too long.
    #[error("a stack of more than {LAYERS_MAX} layers")]
    TooLong,
    /// A text that is not a layer.
    #[error("{word:?} is no layer: write name or name(argument,argument)")]
    Malformed {
        /// The text between slashes.
        word: String,
    },
    /// A name that is not in the catalogue.
    #[error("unknown layer {word:?}; choose one of {known}")]
    Unknown {
        /// The name.
        word: String,
        /// The known names.
        known: String,
    },
    /// Arguments that the layer does not accept.
    #[error("layer {layer} takes {takes}")]
    Arguments {
        /// The layer as it was written.
        layer: String,
        /// The arguments that it accepts.
        takes: String,
    },
    /// Keys that the layer's protection does not accept.
    #[error("layer {layer}: {error}")]
    Key {
        /// The layer as it was written.
        layer: String,
        /// The reason.
        error: KeyError,
    },
}

impl fmt::Display for LayerSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        if self.arguments.is_empty() { Ok(()) } else { write!(f, "({})", self.arguments.join(",")) }
    }
}

impl FromStr for LayerSpec {
    type Err = SpecError;

    fn from_str(word: &str) -> Result<Self, SpecError> {
        let malformed = || SpecError::Malformed { word: word.chars().take(80).collect() };
        let (name, arguments) = match word.split_once('(') {
            None => (word, None),
            Some((name, rest)) => (name, Some(rest.strip_suffix(')').ok_or_else(malformed)?)),
        };
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.');
        let argument = |c: char| plain(c) || c.is_ascii_uppercase() || matches!(c, '_' | '=' | ':');
        let arguments: Vec<String> = arguments.map_or_else(Vec::new, |list| {
            list.split(',').map(str::to_owned).take(ARGUMENTS_MAX + 1).collect()
        });
        let words = !name.is_empty()
            && name.chars().all(plain)
            && arguments.len() <= ARGUMENTS_MAX
            && arguments.iter().all(|word| !word.is_empty() && word.chars().all(argument));
        if words { Ok(Self { name: name.to_owned(), arguments }) } else { Err(malformed()) }
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, layer) in self.layers.iter().enumerate() {
            let slash = if index == 0 { "" } else { "/" };
            write!(f, "{slash}{layer}")?;
        }
        Ok(())
    }
}

impl FromStr for Spec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        if text.len() > TEXT_BYTES_MAX || text.split('/').count() > LAYERS_MAX {
            return Err(SpecError::TooLong);
        }
        text.split('/').map(str::parse).collect::<Result<_, _>>().map(|layers| Self { layers })
    }
}

impl Spec {
    /// Returns the layers, from the application's side to the wire's.
    pub fn layers(&self) -> &[LayerSpec] {
        &self.layers
    }
}

/// One of the two ends of a stack: the keys for sending at one end are the keys for receiving at the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The end that began.
    Near,
    /// The other end.
    Far,
}

/// The parameters with which the layers of one association are made.
#[derive(Clone, Debug)]
pub struct Context {
    /// The implementations that run the cryptography.
    pub implementations: Implementations,
    /// The secret from which all keys are derived; it must serve no other association.
    pub secret: Secret,
    /// The end whose layers these are; addresses, and who opens, depend on it.
    pub end: End,
    pub(crate) association: u32,
    pub(crate) ignores_verdicts: bool,
    /// The index of the layer in its stack: two layers of the same kind have different keys.
    place: usize,
    /// All layers of the stack.
    layers: Arc<[LayerSpec]>,
    below: Below,
}

/// The requirements of the layers below.
#[derive(Clone, Copy, Debug)]
struct Below {
    room: Overhead,
    packet_bytes: usize,
}

/// The maximum length of a packet if no layer names a link: the limit of IP.
const PACKET_BYTES: usize = 65_535;

impl Context {
    /// Makes a context of association 0 that respects verdicts.
    pub fn new(implementations: impl Into<Implementations>, secret: Secret, end: End) -> Self {
        Self {
            implementations: implementations.into(),
            secret,
            end,
            association: 0,
            ignores_verdicts: false,
            place: 0,
            layers: Arc::new([]),
            below: Below { room: Overhead::default(), packet_bytes: PACKET_BYTES },
        }
    }

    /// Returns the same context for another association of this end: ports are derived from its number.
    #[must_use]
    pub fn with_association(self, association: u32) -> Self {
        Self { association, ..self }
    }

    /// Returns the same context for measurements on preconstructed packets, which go through the checks but cannot
    /// pass them: packets go on regardless of the checks' results.
    #[must_use]
    pub fn ignoring_verdicts(self) -> Self {
        Self { ignores_verdicts: true, ..self }
    }

    /// Returns the number of the association at its end.
    pub fn association(&self) -> u32 {
        self.association
    }

    /// Returns whether packets go on regardless of the checks' results.
    pub fn ignores_verdicts(&self) -> bool {
        self.ignores_verdicts
    }

    /// Returns the context of the layers of a stack, before any is made.
    pub(crate) fn of_stack(&self, spec: &Spec) -> Self {
        Self { layers: spec.layers.as_slice().into(), ..self.clone() }
    }

    /// Makes it the context of the layer at this place.
    pub(crate) fn enter(&mut self, place: usize) {
        self.place = place;
    }

    /// Adds the requirements of a layer that was made to those of the layers below.
    pub(crate) fn lay(&mut self, layer: &dyn Layer) {
        let Below { room, packet_bytes } = self.below;
        let packet_bytes = layer.packet_bytes(packet_bytes);
        self.below = Below { room: room.and(layer.overhead()), packet_bytes };
    }

    /// Returns the layer above this one.
    pub fn above(&self) -> Option<&LayerSpec> {
        self.all_above().next()
    }

    /// Returns the layers above this one, the nearest first.
    pub fn all_above(&self) -> impl Iterator<Item = &LayerSpec> {
        self.layers[..self.place].iter().rev()
    }

    /// Returns the layers below this one, the nearest first.
    pub fn below(&self) -> &[LayerSpec] {
        self.layers.get(self.place + 1..).unwrap_or(&[])
    }

    /// Returns the bytes that the layers below add to a packet.
    pub fn overhead_below(&self) -> Overhead {
        self.below.room
    }

    /// Returns the maximum number of bytes of a packet that the layers below accept.
    pub fn packet_bytes(&self) -> usize {
        self.below.packet_bytes
    }

    /// Returns `bytes` bytes of key material of a layer for one direction (at most 8,160).
    pub fn material(&self, layer: &LayerSpec, way: Way, bytes: usize) -> zeroize::Zeroizing<Vec<u8>> {
        let from_near = (self.end == End::Near) == (way == Way::Down);
        let path: &[u8] = if from_near { b"near to far" } else { b"far to near" };
        let mut material = zeroize::Zeroizing::new(vec![0; bytes]);
        if bytes > 0 {
            let place = (self.place as u64).to_le_bytes();
            self.secret.expand(&[b"layer", layer.to_string().as_bytes(), &place, path], &mut material);
        }
        material
    }
}

/// Makes a layer from its name and arguments.
pub type MakeLayer = fn(&LayerSpec, &Context) -> Result<Arc<dyn Layer>, SpecError>;

/// A kind of layer: a name or a family of names, and how to make one.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// Returns the names that it stands for.
    pub names: fn() -> Vec<String>,
    /// Makes a layer with one of these names.
    pub make: MakeLayer,
}

/// Returns an error if a layer that takes no arguments was given some.
pub fn no_arguments(layer: &LayerSpec) -> Result<(), SpecError> {
    if layer.arguments.is_empty() {
        return Ok(());
    }
    Err(SpecError::Arguments { layer: layer.to_string(), takes: "no arguments".to_owned() })
}
