//! transform.
