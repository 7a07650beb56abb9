//! Stack descriptions as text: an accepted one is within its bounds, prints as it was written, and is built or
//! refused.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sealane_engine::record::Secret;
use sealane_fuzz::frugally;
use sealane_stack::{ARGUMENTS_MAX, Catalogue, Context, End, LAYERS_MAX, Spec};
use sealane_transform::Kernels;

fuzz_target!(|text: &str| {
    let Ok(spec) = frugally(text.len(), || text.parse::<Spec>()) else { return };
    assert_eq!(spec.to_string(), text);
    assert!((1..=LAYERS_MAX).contains(&spec.layers().len()));
    assert!(spec.layers().iter().all(|layer| layer.arguments.len() <= ARGUMENTS_MAX));
    let context = Context::new(Kernels::best(), Secret::new([7; 32]), End::Near);
    if let Ok(stack) = Catalogue::new().stack(&spec, &context) {
        assert_eq!(stack.to_string(), text);
        assert_eq!(stack.layers().len(), spec.layers().len());
    }
});
