//! The kinds of layers that are known, and stacks that are made of them.
//!
//! Guarantees: the error for a name that is not known lists the known names.

use crate::{Context, Kind, Spec, SpecError, Stack, layers};

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
    /// Returns a catalogue of the layers of this crate.
    pub fn new() -> Self {
        Self { kinds: layers::KINDS.to_vec() }
    }

    /// Adds another kind. If two kinds have the same name, the first one is used.
    #[must_use]
    pub fn with(mut self, kind: Kind) -> Self {
        self.kinds.push(kind);
        self
    }

    /// Returns all names, in order.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.kinds.iter().flat_map(|kind| (kind.names)()).collect();
        names.sort();
        names.dedup();
        names
    }

    /// Makes a stack.
    ///
    /// # Errors
    /// Fails if a name is not known, or a layer does not accept its arguments.
    pub fn stack(&self, spec: &Spec, context: &Context) -> Result<Stack, SpecError> {
        let mut context = context.of_stack(spec);
        let mut layers = Vec::with_capacity(spec.layers().len());
        // Layers are made from the wire's side on, so that each knows the requirements of the layers below it.
        for (place, layer) in spec.layers().iter().enumerate().rev() {
            let has = |kind: &&Kind| (kind.names)().contains(&layer.name);
            let kind = self.kinds.iter().find(has).ok_or_else(|| SpecError::Unknown {
                word: layer.name.clone(),
                known: self.names().join(", "),
            })?;
            context.enter(place);
            let made = (kind.make)(layer, &context)?;
            context.lay(&*made);
            layers.push(made);
        }
        layers.reverse();
        Ok(Stack::new(spec.clone(), layers))
    }
}
