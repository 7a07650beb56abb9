//! Notes of works under way.
//!
//! Guarantees: a token names one note, and no note after that one was taken, so a work that comes back twice is
//! detected.

/// The notes of works under way, each under a token that does not recur within 2^32 works.
#[derive(Debug)]
pub(crate) struct Notes<T> {
    places: Vec<NoteSlot<T>>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct NoteSlot<T> {
    /// The number of earlier uses of the place.
    generation: u32,
    note: Option<T>,
}

impl<T> Notes<T> {
    pub(crate) fn with_capacity(count: usize) -> Self {
        Self { places: Vec::with_capacity(count), free: Vec::with_capacity(count) }
    }

    pub(crate) fn count(&self) -> usize {
        self.places.len() - self.free.len()
    }

    pub(crate) fn put(&mut self, note: T) -> u64 {
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(NoteSlot { generation: 0, note: None });
            u32::try_from(self.places.len() - 1).expect("fewer works are under way than memory holds")
        });
        let NoteSlot { generation, note: kept } = &mut self.places[place as usize];
        *kept = Some(note);
        u64::from(*generation) << 32 | u64::from(place)
    }

    pub(crate) fn take(&mut self, token: u64) -> Option<T> {
        let (generation, place) = ((token >> 32) as u32, token as u32);
        let kept = self.places.get_mut(place as usize).filter(|kept| kept.generation == generation)?;
        let note = kept.note.take()?;
        kept.generation = generation.wrapping_add(1);
        self.free.push(place);
        Some(note)
    }

    /// Returns the note under a token without taking it.
    pub(crate) fn get(&self, token: u64) -> Option<&T> {
        let (generation, place) = ((token >> 32) as u32, token as u32);
        self.places.get(place as usize).filter(|kept| kept.generation == generation)?.note.as_ref()
    }

    /// Returns the note under a token, to be changed.
    pub(crate) fn get_mut(&mut self, token: u64) -> Option<&mut T> {
        let (generation, place) = ((token >> 32) as u32, token as u32);
        let kept = self.places.get_mut(place as usize).filter(|kept| kept.generation == generation)?;
        kept.note.as_mut()
    }

    /// Returns all notes.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.places.iter().filter_map(|place| place.note.as_ref())
    }

    /// Takes one note for which `is_wanted` returns true.
    pub(crate) fn take_if(&mut self, is_wanted: impl Fn(&T) -> bool) -> Option<T> {
        let place = self.places.iter().position(|place| place.note.as_ref().is_some_and(&is_wanted))?;
        let token = u64::from(self.places[place].generation) << 32 | place as u64;
        self.take(token)
    }
}
