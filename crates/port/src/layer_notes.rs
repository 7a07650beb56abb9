//! Layers' notes on a batch, which travel with it between a layer's steps.
//!
//! Guarantees: a layer finds the notes that it left in a batch, whichever lanes and engines have had the batch since;
//! a batch that is cleared keeps their memory, so steady work allocates nothing.

use std::{any::Any, fmt};

/// The data about a batch's packets that a layer needs again in a later step.
pub trait LayerNote: Any + Default + fmt::Debug + Send + Sync {
    /// Forgets everything and keeps the memory.
    fn clear(&mut self);
}

/// A [`LayerNote`] of any type.
trait AnyLayerNote: Any + fmt::Debug + Send + Sync {
    fn clear_any(&mut self);
}

impl<T: LayerNote> AnyLayerNote for T {
    fn clear_any(&mut self) {
        self.clear();
    }
}

/// The notes of all layers on one batch, one of each type.
///
/// Layers of one type may share a note, because a batch has left one layer before it enters the next; so a layer
/// clears its note when a batch enters.
#[derive(Debug, Default)]
pub struct LayerNotes(Vec<Box<dyn AnyLayerNote>>);

impl LayerNotes {
    /// Returns the note of a type; it is empty if no layer has written into it since the batch was cleared.
    pub fn of<T: LayerNote>(&mut self) -> &mut T {
        let place = self.0.iter().position(|note| {
            let note: &dyn Any = &**note;
            note.is::<T>()
        });
        let place = place.unwrap_or_else(|| {
            self.0.push(Box::new(T::default()));
            self.0.len() - 1
        });
        let note: &mut dyn Any = self.0[place].as_mut();
        note.downcast_mut().expect("the note at this place has the type")
    }

    /// Clears all notes.
    pub(crate) fn clear(&mut self) {
        self.0.iter_mut().for_each(|note| note.clear_any());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Batch;

    #[derive(Debug, Default)]
    struct Numbers(Vec<u32>);

    impl LayerNote for Numbers {
        fn clear(&mut self) {
            self.0.clear();
        }
    }

    #[derive(Debug, Default)]
    struct Words(Vec<&'static str>);

    impl LayerNote for Words {
        fn clear(&mut self) {
            self.0.clear();
        }
    }

    #[test]
    fn notes_of_each_type_stay_with_the_batch_until_it_is_cleared_and_keep_their_memory() {
        let mut batch = Batch::new(64, 1);
        batch.notes.of::<Numbers>().0.extend([1, 2]);
        batch.notes.of::<Words>().0.push("one");
        let mut moved = vec![Batch::default(), batch].pop().unwrap();
        let memory = moved.notes.of::<Numbers>().0.as_ptr();
        assert_eq!(moved.notes.of::<Numbers>().0, [1, 2]);
        assert_eq!(moved.notes.of::<Words>().0, ["one"]);
        moved.clear();
        let numbers = moved.notes.of::<Numbers>();
        assert!(numbers.0.is_empty() && numbers.0.capacity() >= 2 && numbers.0.as_ptr() == memory);
        assert!(moved.notes.of::<Words>().0.is_empty());
    }
}
