//! A stack: the ordered layers of one association.
//!
//! Guarantees: it prints as the text it was made of.

use std::{fmt, sync::Arc};

use crate::{Layer, Room, Spec, Way};

/// The layers of one association, from the application's side to the wire's. Cheap to copy.
#[derive(Clone, Debug)]
pub struct Stack {
    spec: Arc<Spec>,
    layers: Arc<[Arc<dyn Layer>]>,
}

impl Stack {
    /// Of layers that were made by `spec`, as many as it names.
    pub fn new(spec: Spec, layers: Vec<Arc<dyn Layer>>) -> Self {
        assert_eq!(spec.layers().len(), layers.len(), "a layer for each name");
        Self { spec: Arc::new(spec), layers: layers.into() }
    }

    /// The layers.
    pub fn layers(&self) -> &[Arc<dyn Layer>] {
        &self.layers
    }

    /// Which layer is the `step`th on a way.
    pub fn layer(&self, way: Way, step: usize) -> Option<&Arc<dyn Layer>> {
        match way {
            Way::Down => self.layers.get(step),
            Way::Up => self.layers.get(self.layers.len().checked_sub(step + 1)?),
        }
    }

    /// What all layers together add to a packet.
    pub fn room(&self) -> Room {
        self.layers.iter().fold(Room::default(), |room, layer| room.and(layer.room()))
    }
}

impl fmt::Display for Stack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.spec.fmt(f)
    }
}
