//! The `sealane` program.

fn main() {}
