//! Messages in a stream of bytes: each is preceded by its length, 4 bytes in network order.
//!
//! Guarantees: for any pieces of the stream, the messages are those that were sent; an impossible length ends the
//! reading permanently, and at most the memory of one message is used.

/// The number of bytes of a length.
pub(crate) const FRAME_BYTES: usize = 4;
/// The maximum length of a message.
const MESSAGE_BYTES_MAX: usize = 1 << 16;

/// Reads messages.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    partial: Vec<u8>,
    is_broken: bool,
}

/// Returns the length at the front of `bytes`, if all of it is there.
fn length(bytes: &[u8]) -> Option<usize> {
    bytes.first_chunk().map(|&length| u32::from_be_bytes(length) as usize)
}

impl Frames {
    /// Returns whether `piece` is one whole message with its length, and no incomplete message precedes it.
    pub(super) fn is_whole(&self, piece: &[u8]) -> bool {
        self.partial.is_empty()
            && !self.is_broken
            && length(piece)
                .is_some_and(|bytes| bytes <= MESSAGE_BYTES_MAX && bytes + FRAME_BYTES == piece.len())
    }

    /// Takes the next bytes of the stream and passes each message that they complete to `take`.
    pub(crate) fn read(&mut self, mut piece: &[u8], mut take: impl FnMut(&[u8])) {
        while !piece.is_empty() && !self.is_broken {
            let wanted = match length(&self.partial) {
                None => FRAME_BYTES,
                Some(bytes) => FRAME_BYTES + bytes,
            };
            let count = piece.len().min(wanted - self.partial.len());
            self.partial.extend_from_slice(&piece[..count]);
            piece = &piece[count..];
            let Some(bytes) = length(&self.partial) else { continue };
            self.is_broken = bytes > MESSAGE_BYTES_MAX;
            if self.partial.len() == FRAME_BYTES + bytes {
                take(&self.partial[FRAME_BYTES..]);
                self.partial.clear();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn messages_come_back_whatever_the_pieces(
            messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..20),
            cuts in prop::collection::vec(1..50usize, 1..20),
        ) {
            let framed = |message: &Vec<u8>| [&(message.len() as u32).to_be_bytes(), &message[..]].concat();
            let stream: Vec<u8> = messages.iter().flat_map(framed).collect();
            let (mut frames, mut out, mut rest) = (Frames::default(), Vec::new(), &stream[..]);
            for cut in cuts.iter().cycle() {
                let (piece, behind) = rest.split_at((*cut).min(rest.len()));
                frames.read(piece, |message| out.push(message.to_vec()));
                rest = behind;
                if rest.is_empty() { break }
            }
            prop_assert_eq!(out, messages);
        }
    }

    #[test]
    fn a_length_that_no_message_has_ends_the_reading() {
        let mut frames = Frames::default();
        frames.read(&[0, 1, 0, 1, 7, 0, 0, 0, 1, 5], |_| panic!("no message"));
        frames.read(&[0, 0, 0, 1, 5], |_| panic!("no message"));
        assert!(frames.partial.len() <= FRAME_BYTES && !frames.is_whole(&[0, 0, 0, 1, 5]));
    }
}
