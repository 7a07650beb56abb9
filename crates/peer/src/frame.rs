//! Frames on a byte stream, without I/O: a 32-bit little-endian length, then that many bytes.
//!
//! A length above [`MAX_FRAME_BYTES`] is refused from its four bytes alone, and for a smaller one the buffer grows
//! only with the bytes that arrive. The core owns no socket, so a fuzzer reaches all of it.

use std::collections::VecDeque;

/// The longest body of a frame in bytes, not counting its length field.
pub const MAX_FRAME_BYTES: usize = 1 << 20;

/// Bytes of the length field.
pub(crate) const HEADER_BYTES: usize = 4;
/// Bytes allocated for a body before any of it has arrived.
const FIRST_ALLOCATION_BYTES: usize = 64 << 10;
/// [`Framer::has_room`] returns false above this many bytes in complete frames.
const QUEUE_BYTES: usize = 2 << 20;
/// [`Framer::has_room`] returns false above this many complete frames.
const QUEUE_FRAMES: usize = 4096;

/// The other end broke the framing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a frame of {len_bytes} bytes exceeds the limit of {MAX_FRAME_BYTES}")]
pub struct FrameError {
    /// The claimed length, in bytes.
    pub len_bytes: u32,
}

/// Cuts a byte stream into frames.
///
/// Call [`push`](Self::push) with the bytes that arrived, then [`pop`](Self::pop) until it returns `None`. A reader
/// that stops pushing while [`has_room`](Self::has_room) is false holds at most 2 MiB and one push in memory.
#[derive(Default)]
pub struct Framer {
    header: [u8; HEADER_BYTES],
    header_len: usize,
    /// The frame under way, once its header is complete.
    body: Option<Body>,
    whole: VecDeque<Vec<u8>>,
    whole_bytes: usize,
    /// A frame was begun before.
    begun: bool,
    broken: Option<FrameError>,
}

struct Body {
    want_bytes: usize,
    bytes: Vec<u8>,
}

impl Framer {
    /// Returns a framer at the beginning of a stream.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes all of `input`.
    ///
    /// # Errors
    /// Fails if a length is above the limit; the stream is then unusable, and every later push fails likewise. Frames
    /// that were complete before it can still be popped.
    pub fn push(&mut self, mut input: &[u8]) -> Result<(), FrameError> {
        if let Some(error) = self.broken {
            return Err(error);
        }
        while !input.is_empty() {
            let Some(body) = &mut self.body else {
                let n = input.len().min(HEADER_BYTES - self.header_len);
                let (now, later) = input.split_at(n);
                self.header[self.header_len..self.header_len + n].copy_from_slice(now);
                self.header_len += n;
                input = later;
                if self.header_len == HEADER_BYTES {
                    self.begin_body()?;
                }
                continue;
            };
            let n = input.len().min(body.want_bytes - body.bytes.len());
            let (now, later) = input.split_at(n);
            body.bytes.extend_from_slice(now);
            input = later;
            self.finish_body();
        }
        Ok(())
    }

    /// Returns the next whole frame, in the order of arrival.
    pub fn pop(&mut self) -> Option<Vec<u8>> {
        let frame = self.whole.pop_front()?;
        self.whole_bytes -= frame.len();
        Some(frame)
    }

    /// Returns whether the reader should push more before popping.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.whole_bytes < QUEUE_BYTES && self.whole.len() < QUEUE_FRAMES
    }

    /// Returns whether the stream could end here without cutting a frame in two.
    #[must_use]
    pub fn at_boundary(&self) -> bool {
        self.header_len == 0 && self.body.is_none()
    }

    /// Returns whether no frame has begun, or the stream broke at the first one.
    pub(crate) fn is_first(&self) -> bool {
        !self.begun
    }

    fn begin_body(&mut self) -> Result<(), FrameError> {
        let len_bytes = u32::from_le_bytes(self.header);
        let want_bytes = len_bytes as usize;
        if want_bytes > MAX_FRAME_BYTES {
            let error = FrameError { len_bytes };
            self.broken = Some(error);
            return Err(error);
        }
        self.begun = true;
        let bytes = Vec::with_capacity(want_bytes.min(FIRST_ALLOCATION_BYTES));
        self.body = Some(Body { want_bytes, bytes });
        self.finish_body();
        Ok(())
    }

    /// Moves the frame under way to the complete ones if no byte is missing.
    fn finish_body(&mut self) {
        if let Some(body) = self.body.take_if(|body| body.bytes.len() == body.want_bytes) {
            self.whole_bytes += body.bytes.len();
            self.whole.push_back(body.bytes);
            self.header_len = 0;
        }
    }
}

/// Returns the four bytes before a body of `len_bytes`.
pub(crate) fn header(len_bytes: usize) -> Option<[u8; HEADER_BYTES]> {
    if len_bytes > MAX_FRAME_BYTES {
        return None;
    }
    u32::try_from(len_bytes).ok().map(u32::to_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn stream(frames: &[Vec<u8>]) -> Vec<u8> {
        frames.iter().flat_map(|f| header(f.len()).unwrap().into_iter().chain(f.iter().copied())).collect()
    }

    #[test]
    fn boundary_lengths() {
        for len in [0, 1, FIRST_ALLOCATION_BYTES - 1, FIRST_ALLOCATION_BYTES + 1, MAX_FRAME_BYTES] {
            let frame = vec![0x5a; len];
            let mut framer = Framer::new();
            framer.push(&stream(std::slice::from_ref(&frame))).unwrap();
            assert!(framer.at_boundary());
            assert_eq!(framer.pop(), Some(frame));
            assert_eq!(framer.pop(), None);
        }
        assert_eq!(header(MAX_FRAME_BYTES + 1), None);
    }

    #[test]
    fn claimed_length_allocates_nothing() {
        let mut framer = Framer::new();
        framer.push(&stream(&[b"before".to_vec()])).unwrap();
        let error = FrameError { len_bytes: MAX_FRAME_BYTES as u32 + 1 };
        assert_eq!(framer.push(&error.len_bytes.to_le_bytes()), Err(error));
        assert!(framer.body.is_none());
        assert_eq!(framer.push(b"x"), Err(error), "a broken stream stays broken");
        assert_eq!(framer.pop().as_deref(), Some(&b"before"[..]));

        let mut framer = Framer::new();
        framer.push(&(MAX_FRAME_BYTES as u32).to_le_bytes()).unwrap();
        assert!(framer.body.as_ref().unwrap().bytes.capacity() <= FIRST_ALLOCATION_BYTES);
    }

    #[test]
    fn room_is_bounded() {
        let mut framer = Framer::new();
        let mut pushed = 0;
        while framer.has_room() {
            framer.push(&[0; HEADER_BYTES]).unwrap();
            pushed += 1;
        }
        assert_eq!(pushed, QUEUE_FRAMES);
        framer.pop();
        assert!(framer.has_room());
    }

    proptest! {
        #[test]
        fn any_cut_gives_the_same_frames(
            frames in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..20),
            cuts in prop::collection::vec(1usize..200, 1..50),
        ) {
            let bytes = stream(&frames);
            let mut framer = Framer::new();
            let mut rest = &bytes[..];
            for n in cuts.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (now, later) = rest.split_at((*n).min(rest.len()));
                framer.push(now).unwrap();
                rest = later;
            }
            let got: Vec<_> = std::iter::from_fn(|| framer.pop()).collect();
            prop_assert_eq!(got, frames);
            prop_assert!(framer.at_boundary());
        }

        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
            let mut framer = Framer::new();
            let _ = framer.push(&bytes);
            while framer.pop().is_some() {}
        }
    }
}
