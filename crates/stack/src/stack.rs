//! A stack: the ordered layers of one association.
//!
//! Guarantees: it prints as the text of which it was made.

use std::{fmt, sync::Arc};

use crate::{Layer, Overhead, Spec, Way};

/// The layers of one association, from the application's side to the wire's. It is cheap to clone.
#[derive(Clone, Debug)]
pub struct Stack {
    spec: Arc<Spec>,
    layers: Arc<[Arc<dyn Layer>]>,
}

impl Stack {
    /// Makes a stack of layers that were made from `spec`, one per name.
    pub fn new(spec: Spec, layers: Vec<Arc<dyn Layer>>) -> Self {
        assert_eq!(spec.layers().len(), layers.len(), "a layer for each name");
        Self { spec: Arc::new(spec), layers: layers.into() }
    }

    /// Returns the layers, that of the application first.
    pub fn layers(&self) -> &[Arc<dyn Layer>] {
        &self.layers
    }

    /// Returns the layer at the step with number `step` in a direction.
    pub fn layer(&self, way: Way, step: usize) -> Option<&Arc<dyn Layer>> {
        match way {
            Way::Down => self.layers.get(step),
            Way::Up => self.layers.get(self.layers.len().checked_sub(step + 1)?),
        }
    }

    /// Returns the bytes that all layers together add to a packet.
    pub fn overhead(&self) -> Overhead {
        self.layers.iter().fold(Overhead::default(), |room, layer| room.and(layer.overhead()))
    }
}

impl fmt::Display for Stack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.spec.fmt(f)
    }
}
