//! tree.
