//! Digests of messages that come in parts, many messages side by side.
//!
//! A [`DigestStream`] is the state of a message so far: chaining state, length, and up to 63 bytes that do not fill a
//! block yet. One call absorbs parts of many streams; lengths may differ, and the parts that do not fill the ways
//! run one by one. It needs `unsafe` to call multi-way kernels with the addresses of the parts.
#![allow(unsafe_code)]

use super::ways::{Kernel, MAX_WAYS, Rows, WaysState, Width};
use super::{Compress, Hash};
use crate::algorithm::Digest;
use crate::descriptor::Making;

/// A digest in progress.
#[derive(Clone, Debug)]
pub struct DigestStream {
    hash: &'static Hash,
    state: [u32; 8],
    /// Bytes so far, including those in `tail`.
    total_bytes: u64,
    /// The last `total_bytes % 64` bytes.
    tail: [u8; 64],
}

impl DigestStream {
    /// Returns the beginning of a message, or `None` for a digest that is not a plain Merkle-Damgård hash: streams
    /// exist for `md5`, `sha1` and `sha256`.
    pub const fn new(digest: Digest) -> Option<Self> {
        match &digest.descriptor().making {
            Making::Hash(hash) => Some(Self { hash, state: hash.initial, total_bytes: 0, tail: [0; 64] }),
            Making::Hmac(_) | Making::Own(_) => None,
        }
    }

    pub(crate) const fn hash(&self) -> &'static Hash {
        self.hash
    }

    /// Returns the number of bytes in `tail`.
    const fn tail_bytes(&self) -> usize {
        (self.total_bytes % 64) as usize
    }

    /// Takes the bytes that complete the begun block, and returns the rest of `part`.
    fn complete_block<'a>(&mut self, compress: Compress, part: &'a [u8]) -> &'a [u8] {
        let begun = self.tail_bytes();
        if begun == 0 {
            return part;
        }
        let (now, rest) = part.split_at(part.len().min(64 - begun));
        self.tail[begun..begun + now.len()].copy_from_slice(now);
        self.total_bytes += now.len() as u64;
        if self.tail_bytes() == 0 {
            compress(&mut self.state, &self.tail);
        }
        rest
    }

    /// Keeps the bytes after the last whole block.
    fn keep(&mut self, rest: &[u8]) {
        self.tail[..rest.len()].copy_from_slice(rest);
        self.total_bytes += rest.len() as u64;
    }

    pub(crate) fn absorb(&mut self, compress: Compress, part: &[u8]) {
        let rest = self.complete_block(compress, part);
        let (blocks, rest) = rest.split_at(rest.len() & !63);
        compress(&mut self.state, blocks);
        self.total_bytes += blocks.len() as u64;
        if self.tail_bytes() == 0 {
            self.keep(rest);
        }
    }

    pub(crate) fn finish(&self, compress: Compress) -> [u8; 32] {
        let mut state = self.state;
        let absorbed = self.total_bytes - self.tail_bytes() as u64;
        self.hash.finish(compress, &mut state, absorbed, &self.tail[..self.tail_bytes()]);
        let mut output = [0; 32];
        self.hash.write_digest(&state, &mut output);
        output
    }
}

/// The next part of one message.
#[derive(Debug)]
pub struct StreamPart<'a> {
    /// The message so far.
    pub stream: &'a mut DigestStream,
    /// The next part of the message, of any length.
    pub part: &'a [u8],
}

/// Absorbs every part by the ways of `kernel`; all streams are of the kernel's hash.
pub(crate) fn absorb_parts(kernel: &Kernel, parts: &mut [StreamPart<'_>]) {
    for StreamPart { stream, part } in parts.iter_mut() {
        *part = stream.complete_block(kernel.alone, part);
    }
    let Width { ways, absorb, .. } = kernel.width(parts.len());
    let mut state = WaysState([[0; MAX_WAYS]; 8]);
    let mut rows = Rows::NOWHERE;
    // Ways are filled in order; a way whose part is used up takes the next one.
    let mut part_of = [usize::MAX; MAX_WAYS];
    let mut next = 0;
    loop {
        let mut busy = 0;
        let mut shortest = usize::MAX;
        let mut readable = core::ptr::null();
        for way in 0..ways {
            if part_of[way] != usize::MAX && parts[part_of[way]].part.len() < 64 {
                parts[part_of[way]].stream.state = state.way(way);
                part_of[way] = usize::MAX;
            }
            if part_of[way] == usize::MAX {
                while next < parts.len() && parts[next].part.len() < 64 {
                    next += 1;
                }
                if next < parts.len() {
                    let stream = &parts[next].stream;
                    state.set_way(way, stream.hash.words, &stream.state);
                    part_of[way] = next;
                    next += 1;
                }
            }
            if let Some(StreamPart { part, .. }) = parts.get(part_of[way]) {
                busy += 1;
                rows.next[way] = part.as_ptr();
                // A way without work reads as the one with least blocks left, so that it reads only valid bytes.
                if part.len() / 64 < shortest {
                    shortest = part.len() / 64;
                    readable = rows.next[way];
                }
            }
        }
        if busy == 0 {
            break;
        }
        if busy <= kernel.few && parts[next..].iter().all(|part| part.part.len() < 64) {
            for (way, &index) in part_of.iter().enumerate() {
                if let Some(StreamPart { stream, .. }) = parts.get_mut(index) {
                    stream.state = state.way(way);
                }
            }
            break;
        }
        for (next, part) in rows.next.iter_mut().zip(&part_of).take(ways) {
            if *part == usize::MAX {
                *next = readable;
            }
        }
        // SAFETY: the kernel was chosen under its token; every busy way has at least `shortest` blocks at its row,
        // and idle ways share the row of the way that has exactly that many. Further ways are not read.
        unsafe { absorb(&mut state, &mut rows, shortest) };
        for index in part_of.iter().take(ways) {
            if let Some(StreamPart { stream, part }) = parts.get_mut(*index) {
                *part = &part[64 * shortest..];
                stream.total_bytes += 64 * shortest as u64;
            }
        }
    }
    for StreamPart { stream, part } in parts {
        // Whole blocks are left if too few streams were busy to fill the ways.
        stream.absorb(kernel.alone, part);
        *part = &[];
    }
}
