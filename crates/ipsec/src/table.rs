//! A map whose copies share their unchanged parts, so that a change to a snapshot of many entries copies few of them.
//!
//! Guarantees: a copy never changes with its original; a change of one entry of *n* copies about *n* / 256 of them.

use std::{collections::HashMap, hash::Hash, sync::Arc};

use crate::{association::Protocol, policy::PeerId};

/// The number of parts, which are copied separately.
const PARTS: usize = 256;

/// The key of an entry.
pub trait Key: Copy + Eq + Hash {
    /// Returns a number whose lowest bits distribute the keys over the parts.
    fn number(self) -> u32;
}

impl Key for PeerId {
    fn number(self) -> u32 {
        self.0
    }
}

impl Key for (Protocol, u32) {
    fn number(self) -> u32 {
        // Indices are random, or assigned by hand, mostly consecutively; no attacker chooses them.
        self.1 ^ (self.1 >> 8) ^ (self.1 >> 16) ^ (self.1 >> 24)
    }
}

/// A map whose copies share their unchanged parts.
#[derive(Clone, Debug)]
pub struct Table<K, V> {
    parts: Arc<[Arc<HashMap<K, V>>; PARTS]>,
    len: usize,
}

impl<K, V> Default for Table<K, V> {
    fn default() -> Self {
        let empty = Arc::new(HashMap::new());
        Self { parts: Arc::new(std::array::from_fn(|_| Arc::clone(&empty))), len: 0 }
    }
}

impl<K: Key, V: Clone> Table<K, V> {
    fn part(key: K) -> usize {
        key.number() as usize % PARTS
    }

    fn part_mut(&mut self, at: usize) -> &mut HashMap<K, V> {
        Arc::make_mut(&mut Arc::make_mut(&mut self.parts)[at])
    }

    /// Returns the entry of `key`.
    pub fn get(&self, key: &K) -> Option<&V> {
        self.parts[Self::part(*key)].get(key)
    }

    /// Returns whether `key` has an entry.
    pub fn contains_key(&self, key: &K) -> bool {
        self.get(key).is_some()
    }

    /// Inserts `value`, and returns the value that it replaces.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        let old = self.part_mut(Self::part(key)).insert(key, value);
        self.len += usize::from(old.is_none());
        old
    }

    /// Removes an entry, and returns its value.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        // A missing entry costs no copy.
        self.get(key)?;
        let old = self.part_mut(Self::part(*key)).remove(key);
        self.len -= usize::from(old.is_some());
        old
    }

    /// Keeps only the entries for which `keeps` returns true.
    pub fn retain(&mut self, keeps: impl Fn(&K, &V) -> bool) {
        let gone: Vec<K> =
            self.iter().filter(|(key, value)| !keeps(key, value)).map(|(key, _)| *key).collect();
        for key in gone {
            self.remove(&key);
        }
    }

    /// Returns all entries, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.parts.iter().flat_map(|part| part.iter())
    }

    /// Returns all values, in no order.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the table is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Change {
        Insert(u32, u8),
        Remove(u32),
        KeepBelow(u8),
    }

    fn changes() -> impl Strategy<Value = Vec<Change>> {
        // Some of the keys share a part.
        let key = || (0u32..6).prop_map(|key| key * 128);
        let change = prop_oneof![
            4 => (key(), any::<u8>()).prop_map(|(key, value)| Change::Insert(key, value)),
            2 => key().prop_map(Change::Remove),
            1 => any::<u8>().prop_map(Change::KeepBelow),
        ];
        prop::collection::vec(change, 0..60)
    }

    proptest! {
        #[test]
        fn it_is_a_map_and_its_copies_stay_as_they_were(changes in changes()) {
            let (mut table, mut twin) = (Table::<PeerId, u8>::default(), HashMap::new());
            let mut copies = Vec::new();
            for change in changes {
                copies.push((table.clone(), twin.clone()));
                match change {
                    Change::Insert(key, value) => {
                        prop_assert_eq!(table.insert(PeerId(key), value), twin.insert(PeerId(key), value));
                    }
                    Change::Remove(key) => {
                        prop_assert_eq!(table.remove(&PeerId(key)), twin.remove(&PeerId(key)));
                    }
                    Change::KeepBelow(bound) => {
                        table.retain(|_, &value| value < bound);
                        twin.retain(|_, value| *value < bound);
                    }
                }
            }
            copies.push((table, twin));
            for (table, twin) in copies {
                let entries: HashMap<PeerId, u8> = table.iter().map(|(&key, &value)| (key, value)).collect();
                prop_assert_eq!((table.len(), table.is_empty()), (twin.len(), twin.is_empty()));
                for key in twin.keys() {
                    prop_assert_eq!(table.get(key), twin.get(key));
                }
                prop_assert_eq!(entries, twin);
            }
        }
    }

    #[test]
    fn a_change_copies_a_part_alone() {
        let mut table = Table::<PeerId, u8>::default();
        (0..1000).for_each(|peer| assert_eq!(table.insert(PeerId(peer), 0), None));
        let before = table.clone();
        table.insert(PeerId(7), 1);
        let shared = before.parts.iter().zip(table.parts.iter()).filter(|(a, b)| Arc::ptr_eq(a, b)).count();
        assert_eq!(shared, PARTS - 1);
        table.remove(&PeerId(5000));
        assert_eq!(table.len(), 1000);
    }
}
