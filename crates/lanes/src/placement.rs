//! The assignment of work to lanes: the papers' unit of concurrency.
//!
//! Guarantees: [`Placement::may_run`] alone decides whether a lane may run a piece of work; for all work there is a
//! lane that may run it; under every placement but [`Placement::Packet`] there is exactly one, so its state is never
//! contended.

use std::{fmt, str::FromStr};

/// A unit of work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct At {
    /// The number of the flow.
    pub flow: usize,
    /// The number of the layer in its stack, from the application down, whichever way the packets go.
    pub layer: usize,
    /// The part of a layer's work that is done in parts: a function of a layer, or a piece of a packet.
    pub part: usize,
}

impl At {
    /// Returns the place of a flow as a whole, at its first layer.
    pub const fn flow(flow: usize) -> Self {
        Self { flow, layer: 0, part: 0 }
    }
}

/// The maximum number of layers that an assignment names.
const LAYERS_MAX: usize = 16;

/// The lanes of a stack's layers, from the application down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Assignment {
    lanes: [u8; LAYERS_MAX],
    layers: u8,
}

impl Assignment {
    /// Every layer is given to the next lane, whatever it costs.
    pub const IN_TURN: Self = Self { lanes: [0; LAYERS_MAX], layers: 0 };

    /// Returns the assignment with these lanes, one per layer; layers below the last named one, and the wire, belong to
    /// its lane. Returns `None` for more layers than 16, or lanes above 255.
    pub fn new(lanes: &[usize]) -> Option<Self> {
        let mut assignment = Self { layers: u8::try_from(lanes.len()).ok()?, ..Self::IN_TURN };
        for (slot, &lane) in assignment.lanes.get_mut(..lanes.len())?.iter_mut().zip(lanes) {
            *slot = u8::try_from(lane).ok()?;
        }
        Some(assignment)
    }

    fn lane(self, layer: usize) -> usize {
        match usize::from(self.layers) {
            0 => layer,
            layers => self.lanes[layer.min(layers - 1)].into(),
        }
    }
}

/// The unit of concurrency (the taxonomy of Nahum et al., NDSS 1996, figure 1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Placement {
    /// A flow is owned by one lane.
    #[default]
    Connection,
    /// Any lane takes the next batch of any flow; order is restored by ticket.
    Packet,
    /// A layer of the stack is owned by one lane; batches go from lane to lane.
    Layer(Assignment),
    /// A flow is owned by one lane, which has another lane do a second function of the same packet: the authenticator
    /// beside the cipher.
    Function,
    /// A flow is owned by one lane, which has other lanes do pieces of the same packet.
    Block,
}

/// The error for an unknown placement name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown placement {word:?}; choose one of {}", Placement::ALL.map(Placement::name).join(", "))]
pub struct UnknownPlacement {
    /// The given name.
    pub word: String,
}

impl Placement {
    /// All placements; layers are given to lanes in turn.
    pub const ALL: [Self; 5] =
        [Self::Connection, Self::Packet, Self::Layer(Assignment::IN_TURN), Self::Function, Self::Block];
    /// The placements that a byte stream can have, which has no layers and no parts.
    pub const OF_STREAMS: [Self; 2] = [Self::Connection, Self::Packet];

    /// Returns the name used on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Connection => "connection",
            Self::Packet => "packet",
            Self::Layer(_) => "layer",
            Self::Function => "function",
            Self::Block => "block",
        }
    }

    /// Returns whether lane number `lane` of `lanes` may run `at`.
    pub fn may_run(self, lane: usize, lanes: usize, at: At) -> bool {
        let owner = match self {
            Self::Packet => return true,
            Self::Connection => at.flow,
            Self::Layer(assignment) => assignment.lane(at.layer),
            Self::Function | Self::Block => at.flow.wrapping_add(at.part),
        };
        owner % lanes == lane
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Placement {
    type Err = UnknownPlacement;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|placement| placement.name() == word)
            .ok_or_else(|| UnknownPlacement { word: word.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn everything_has_a_lane_and_what_is_owned_has_one(
            lanes in 1..9usize, flow in 0..64usize, layer in 0..20usize, part in 0..8usize,
            owners in prop::collection::vec(0..9usize, 1..=LAYERS_MAX),
        ) {
            let assigned = Placement::Layer(Assignment::new(&owners).unwrap());
            for placement in Placement::ALL.into_iter().chain([assigned]) {
                let at = At { flow, layer, part };
                let owners = (0..lanes).filter(|&lane| placement.may_run(lane, lanes, at)).count();
                prop_assert_eq!(owners, if placement == Placement::Packet { lanes } else { 1 });
            }
        }
    }

    #[test]
    fn an_assignment_gives_each_layer_its_lane() {
        let assigned = Placement::Layer(Assignment::new(&[1, 0, 0]).unwrap());
        let owner = |layer| (0..2).find(|&lane| assigned.may_run(lane, 2, At { layer, ..At::default() }));
        assert_eq!([0, 1, 2, 7].map(owner), [1, 0, 0, 0].map(Some));
        assert_eq!((Assignment::new(&[0; 17]), Assignment::new(&[256])), (None, None));
    }

    #[test]
    fn names_round_trip() {
        for placement in Placement::ALL {
            assert_eq!(placement.name().parse(), Ok(placement));
        }
        assert!("session".parse::<Placement>().is_err());
    }
}
