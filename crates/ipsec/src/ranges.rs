//! A table from remote addresses to policies: networks are flattened into ranges that do not overlap.
//!
//! Guarantees: a look-up is one binary search and allocates nothing; its result contains, in the policies' order,
//! every policy that can be the first match of a packet to that address, and few others.

use std::net::IpAddr;

use crate::selector::{Prefix, Selector};

/// The start and the end of a part of [`Ranges::indices`].
type Candidates = (u32, u32);

/// An address as a number.
trait Number: Copy + Ord {
    /// The lowest number.
    const FIRST: Self;

    /// Returns the next number, if there is one.
    fn next(self) -> Option<Self>;
}

impl Number for u32 {
    const FIRST: Self = 0;

    fn next(self) -> Option<Self> {
        self.checked_add(1)
    }
}

impl Number for u128 {
    const FIRST: Self = 0;

    fn next(self) -> Option<Self> {
        self.checked_add(1)
    }
}

/// The ranges of one family. A range ends at the start of the next one.
#[derive(Clone, Debug, Default)]
struct Ranges<N> {
    starts: Vec<N>,
    candidates: Vec<Candidates>,
    indices: Vec<u32>,
}

/// A network with its policies, under construction.
struct Network<N> {
    first: N,
    last: N,
    indices: Vec<u32>,
}

impl<N: Number> Ranges<N> {
    /// Flattens `networks`, which are distinct; any two of them are disjoint, or one contains the other. `is_last`
    /// returns whether a policy matches every packet to its network, so that no policy behind it can be the first
    /// match.
    fn of(mut networks: Vec<Network<N>>, is_last: impl Fn(u32) -> bool) -> Self {
        networks.sort_by(|one, other| (one.first, other.last).cmp(&(other.first, one.last)));
        let mut ranges = Self { starts: Vec::new(), candidates: Vec::new(), indices: Vec::new() };
        ranges.begin(N::FIRST, (0, 0));
        // The networks that contain the address that the loop has reached, the narrowest last.
        let mut open: Vec<(N, Candidates)> = Vec::new();
        for network in networks {
            ranges.close(&mut open, |last| last < network.first);
            let outer = open.last().map_or((0, 0), |&(_, candidates)| candidates);
            let mut merged = [ranges.indices_of(outer), &network.indices].concat();
            merged.sort_unstable();
            let count = merged.iter().position(|&index| is_last(index)).map_or(merged.len(), |last| last + 1);
            let start = ranges.indices.len();
            ranges.indices.extend(&merged[..count]);
            let place = |at: usize| u32::try_from(at).expect("fewer policies than fit into memory");
            let candidates = (place(start), place(start + count));
            ranges.begin(network.first, candidates);
            open.push((network.last, candidates));
        }
        ranges.close(&mut open, |_| true);
        ranges
    }

    /// Removes the networks from the top of `open` while `is_passed` holds for the last address.
    fn close(&mut self, open: &mut Vec<(N, Candidates)>, is_passed: impl Fn(N) -> bool) {
        while let Some((last, _)) = open.pop_if(|&mut (last, _)| is_passed(last)) {
            if let Some(next) = last.next() {
                self.begin(next, open.last().map_or((0, 0), |&(_, candidates)| candidates));
            }
        }
    }

    /// Begins a range at `start` with these candidates. The range replaces one that began at the same address.
    fn begin(&mut self, start: N, candidates: Candidates) {
        if self.starts.last() == Some(&start) {
            self.starts.pop();
            self.candidates.pop();
        }
        self.starts.push(start);
        self.candidates.push(candidates);
    }

    fn indices_of(&self, (start, end): Candidates) -> &[u32] {
        &self.indices[start as usize..end as usize]
    }

    fn find(&self, address: N) -> &[u32] {
        let behind = self.starts.partition_point(|&start| start <= address);
        behind.checked_sub(1).map_or(&[], |at| self.indices_of(self.candidates[at]))
    }
}

/// The ranges of both families.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lookup {
    v4: Ranges<u32>,
    v6: Ranges<u128>,
}

fn bits_v4(address: IpAddr) -> Option<u32> {
    match address {
        IpAddr::V4(v4) => Some(v4.to_bits()),
        IpAddr::V6(_) => None,
    }
}

fn bits_v6(address: IpAddr) -> Option<u128> {
    match address {
        IpAddr::V4(_) => None,
        IpAddr::V6(v6) => Some(v6.to_bits()),
    }
}

/// Returns the distinct remote networks of one family, each with its policies in their order.
fn networks<N: Number>(
    selectors: &[&Selector],
    bits: fn(IpAddr) -> Option<N>,
    last: impl Fn(N, u8) -> N,
) -> Vec<Network<N>> {
    let mut found: Vec<(N, N, u32)> = (0u32..)
        .zip(selectors)
        .filter_map(|(index, selector)| {
            let remote: Prefix = selector.remote;
            let first = bits(remote.address())?;
            Some((first, last(first, remote.bits()), index))
        })
        .collect();
    found.sort_unstable();
    let same = |one: &(N, N, u32), other: &(N, N, u32)| (one.0, one.1) == (other.0, other.1);
    found
        .chunk_by(same)
        .map(|chunk| Network {
            first: chunk[0].0,
            last: chunk[0].1,
            indices: chunk.iter().map(|&(_, _, index)| index).collect(),
        })
        .collect()
}

impl Lookup {
    /// Builds the table of the policies that have these selectors, the most important first.
    pub(crate) fn new(selectors: &[&Selector]) -> Self {
        let is_last = |index: u32| is_for_all(selectors[index as usize]);
        let last_v4 = |first: u32, bits: u8| first | u32::MAX.checked_shr(bits.into()).unwrap_or(0);
        let last_v6 = |first: u128, bits: u8| first | u128::MAX.checked_shr(bits.into()).unwrap_or(0);
        Self {
            v4: Ranges::of(networks(selectors, bits_v4, last_v4), is_last),
            v6: Ranges::of(networks(selectors, bits_v6, last_v6), is_last),
        }
    }

    /// Returns the indices of the policies that can be the first match of a packet to `remote`, in their order.
    pub(crate) fn candidates(&self, remote: IpAddr) -> &[u32] {
        match remote {
            IpAddr::V4(v4) => self.v4.find(v4.to_bits()),
            IpAddr::V6(v6) => self.v6.find(v6.to_bits()),
        }
    }
}

/// Returns whether a selector matches every packet whose remote address it matches.
fn is_for_all(selector: &Selector) -> bool {
    let is_any =
        selector.protocol.is_none() && selector.local_ports.is_none() && selector.remote_ports.is_none();
    let is_same_family = selector.local.address().is_ipv4() == selector.remote.address().is_ipv4();
    is_any && is_same_family && selector.local.bits() == 0
}
