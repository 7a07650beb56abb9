//! Processes that end with their owner. Tests include this file with `#[path]`.

use std::{
    ops::{Deref, DerefMut},
    process::Child,
};

/// A process, which is killed when the value is dropped.
#[derive(Debug)]
pub(crate) struct Running(pub(crate) Child);

impl Deref for Running {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for Running {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // This fails only if the process has already ended.
        let _ = self.kill();
        let _ = self.wait();
    }
}
