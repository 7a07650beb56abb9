//! Stacks as the papers write them: `des/tcp/md5/ip/fddi`.
//!
//! Guarantees: what parses prints back the same; a text is refused with what is wrong with it, a name with what is
//! known. Nothing is allocated beyond [`LAYERS_MAX`] times [`ARGUMENTS_MAX`] short words.

use std::{fmt, str::FromStr, sync::Arc};

use sealane_engine::{Implementations, KeyError};
use sealane_tcp::Ports;

use crate::{Layer, Room, Secret, Stack, Way, layers, network};

/// Most layers of a stack.
pub const LAYERS_MAX: usize = 16;
/// Most arguments of a layer.
pub const ARGUMENTS_MAX: usize = 8;
/// Longest text of a stack, in bytes.
const TEXT_BYTES_MAX: usize = 1024;

/// A stack's layers by name, from the application's side to the wire's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    layers: Vec<LayerSpec>,
}

/// A layer's name and its arguments: `esp(aes-128-gcm)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerSpec {
    /// Its name: lower-case letters, digits, `-` and `.`.
    pub name: String,
    /// What stands in parentheses: the same characters, or `_`, `=`, `:`.
    pub arguments: Vec<String>,
}

/// What is wrong with a stack.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// Longer than any stack is.
    #[error("a stack of more than {LAYERS_MAX} layers")]
    TooLong,
    /// A layer that is none.
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
        /// What there is.
        known: String,
    },
    /// Arguments that the layer does not take.
    #[error("layer {layer} takes {takes}")]
    Arguments {
        /// The layer as it was written.
        layer: String,
        /// What it takes.
        takes: String,
    },
    /// Keys that the layer's protection does not take.
    #[error("layer {layer}: {error}")]
    Key {
        /// The layer as it was written.
        layer: String,
        /// What is wrong.
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
    /// The layers, from the application's side to the wire's.
    pub fn layers(&self) -> &[LayerSpec] {
        &self.layers
    }
}

/// Which of its two ends a stack is: keys for what one sends are keys for what the other receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The one that began.
    Near,
    /// The other.
    Far,
}

/// What layers are made with: one association's.
#[derive(Clone, Debug)]
pub struct Context {
    /// Whose code runs the cryptography.
    pub implementations: Implementations,
    /// What all keys are derived from; it must serve no other association.
    pub secret: Secret,
    /// Which end.
    pub end: End,
    pub(crate) association: u32,
    pub(crate) ignores_verdicts: bool,
    /// Place of the layer in its stack: two layers of a kind have keys of their own.
    place: usize,
    /// All of the stack.
    layers: Arc<[LayerSpec]>,
    below: Below,
}

/// What the layers below ask for.
#[derive(Clone, Copy, Debug)]
struct Below {
    room: Room,
    packet_bytes: usize,
}

/// Bytes of a packet where no layer names a link: what IP takes.
const PACKET_BYTES: usize = 65_535;

impl Context {
    /// Of association 0, which heeds verdicts.
    pub fn new(implementations: impl Into<Implementations>, secret: Secret, end: End) -> Self {
        Self {
            implementations: implementations.into(),
            secret,
            end,
            association: 0,
            ignores_verdicts: false,
            place: 0,
            layers: Arc::new([]),
            below: Below { room: Room::default(), packet_bytes: PACKET_BYTES },
        }
    }

    /// The same for another association of this end: ports are made of its number.
    #[must_use]
    pub fn with_association(self, association: u32) -> Self {
        Self { association, ..self }
    }

    /// The same where packets go on whatever a check finds: for measurement on preconstructed packets, which cost the
    /// checks and cannot pass them.
    #[must_use]
    pub fn ignoring_verdicts(self) -> Self {
        Self { ignores_verdicts: true, ..self }
    }

    /// Which association of its end it is.
    pub fn association(&self) -> u32 {
        self.association
    }

    /// Whether packets go on whatever a check finds.
    pub fn ignores_verdicts(&self) -> bool {
        self.ignores_verdicts
    }

    /// The ports of segments and datagrams that this end sends.
    pub fn ports(&self) -> Ports {
        network::ports(self)
    }

    /// The layer above this one.
    pub fn above(&self) -> Option<&LayerSpec> {
        self.all_above().next()
    }

    /// The layers above this one, the next first.
    pub fn all_above(&self) -> impl Iterator<Item = &LayerSpec> {
        self.layers[..self.place].iter().rev()
    }

    /// The layers below this one, the next first.
    pub fn below(&self) -> &[LayerSpec] {
        self.layers.get(self.place + 1..).unwrap_or(&[])
    }

    /// What the layers below add to a packet.
    pub fn room_below(&self) -> Room {
        self.below.room
    }

    /// Most bytes of a packet that the layers below take.
    pub fn packet_bytes(&self) -> usize {
        self.below.packet_bytes
    }

    /// Key material of a layer for one way, as many bytes as asked for (at most 8,160).
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

/// Makes a layer of its name and arguments.
pub type MakeLayer = fn(&LayerSpec, &Context) -> Result<Arc<dyn Layer>, SpecError>;

/// A kind of layer: a name or a family of names, and how to make one.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// The names that it stands for.
    pub names: fn() -> Vec<String>,
    /// Makes a layer by one of these names.
    pub make: MakeLayer,
}

/// The kinds of layers that are known.
#[derive(Clone, Debug)]
pub struct Catalogue {
    kinds: Vec<Kind>,
}

impl Default for Catalogue {
    fn default() -> Self {
        Self::new()
    }
}

impl Catalogue {
    /// The layers of this crate.
    pub fn new() -> Self {
        Self { kinds: layers::KINDS.to_vec() }
    }

    /// And another kind. Of two with one name the first counts.
    #[must_use]
    pub fn with(mut self, kind: Kind) -> Self {
        self.kinds.push(kind);
        self
    }

    /// All names, in order.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.kinds.iter().flat_map(|kind| (kind.names)()).collect();
        names.sort();
        names.dedup();
        names
    }

    /// Makes a stack.
    ///
    /// # Errors
    /// Names that are not known, arguments that a layer does not take.
    pub fn stack(&self, spec: &Spec, context: &Context) -> Result<Stack, SpecError> {
        let mut context = Context { layers: spec.layers.as_slice().into(), ..context.clone() };
        let mut layers = Vec::with_capacity(spec.layers.len());
        // From the wire's side on, so that each knows what those below it ask for.
        for (place, layer) in spec.layers.iter().enumerate().rev() {
            let has = |kind: &&Kind| (kind.names)().contains(&layer.name);
            let kind = self.kinds.iter().find(has).ok_or_else(|| SpecError::Unknown {
                word: layer.name.clone(),
                known: self.names().join(", "),
            })?;
            context.place = place;
            let made = (kind.make)(layer, &context)?;
            let Below { room, packet_bytes } = context.below;
            let packet_bytes = made.packet_bytes(packet_bytes);
            context.below = Below { room: room.and(made.room()), packet_bytes };
            layers.push(made);
        }
        layers.reverse();
        Ok(Stack::new(spec.clone(), layers))
    }
}

/// The error of a layer that takes no arguments and was given some.
pub fn no_arguments(layer: &LayerSpec) -> Result<(), SpecError> {
    if layer.arguments.is_empty() {
        return Ok(());
    }
    Err(SpecError::Arguments { layer: layer.to_string(), takes: "no arguments".to_owned() })
}
