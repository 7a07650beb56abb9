//! House rules and chores.

fn main() {}
