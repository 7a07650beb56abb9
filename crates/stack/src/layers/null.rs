//! `null`: does nothing to a packet. What it costs is what the stack itself costs.

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
