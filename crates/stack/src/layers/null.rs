//! `null`: leaves packets unchanged. Its cost is the cost of the stack itself.

use std::sync::Arc;

use crate::{Kind, Layer, spec::no_arguments};

pub(crate) const KIND: Kind = Kind {
    names: || vec!["null".to_owned()],
    make: |layer, _| {
        no_arguments(layer)?;
        Ok(Arc::new(Null))
    },
};

#[derive(Debug)]
struct Null;

impl Layer for Null {}
