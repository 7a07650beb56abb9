//! Digests of messages that come in parts.

use super::Kernels;
use crate::hash::stream::{DigestStream, StreamPart, absorb_parts};

fn same_hash(one: &StreamPart<'_>, other: &StreamPart<'_>) -> bool {
    core::ptr::eq(one.stream.hash(), other.stream.hash())
}

impl Kernels {
    /// Absorbs the next part of every stream, side by side if there are enough streams. Streams of several hashes may be
    /// mixed; parts may have any length. Every `part` is empty afterwards.
    pub fn absorb(&self, parts: &mut [StreamPart<'_>]) {
        for parts in parts.chunk_by_mut(same_hash) {
            let Some(hash) = parts.first().map(|part| part.stream.hash()) else { continue };
            if let Some(kernel) = self.ways_kernel(hash, parts.len()) {
                absorb_parts(&kernel, parts);
                continue;
            }
            let compress = (hash.compress)(self.single(), self.features);
            for StreamPart { stream, part } in parts {
                stream.absorb(compress, part);
                *part = &[];
            }
        }
    }

    /// Returns the digest of all that `stream` has absorbed, in the first bytes; the stream may go on absorbing.
    pub fn finish(&self, stream: &DigestStream) -> [u8; 32] {
        let hash = stream.hash();
        stream.finish((hash.compress)(self.single(), self.features))
    }
}
