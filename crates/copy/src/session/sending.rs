//! The end that sends, client or server.
//!
//! Guarantees: the receiver's claims of existing entries are bounded, ordered, and complete before the first byte is
//! sent.

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Instant,
};

use crossbeam_channel::Sender;
use sealane_tree::{Folders, WalkOptions};

use crate::{
    digest::GROUP_BYTES,
    error::{Error, ErrorKind},
    options::Sameness,
    proto::message::{Dated, Have, Held, Message, Piece},
    send::{
        fill::{POSSESSIONS_MAX, Possessions},
        removal::Removal,
        work::{Check, Claim},
    },
    session::{
        control::Control,
        folders::{self, Comparing},
        line::Lines,
        messages,
    },
    summary::Notice,
    transfer::{
        claims::{PIECE_BYTES, PIECES_MAX},
        ends::{self, Plan},
        outcome::Outcome,
        place::{self, Confinement, Sought},
        sources::{announce, standard_input},
    },
};

/// The end that sends, client or server.
pub(crate) struct SendingSide<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) sought: Sought<'a>,
    pub(crate) confinement: Option<&'a Confinement>,
    pub(crate) walk: WalkOptions,
    /// The only source is standard input.
    pub(crate) standard_input: bool,
    pub(crate) notices: Sender<Notice>,
}

impl SendingSide<'_> {
    pub(crate) fn run(
        self,
        control: &mut Control<'_>,
        keep: impl FnOnce(&Lines) + Send,
    ) -> Result<Outcome, Error> {
        let sources =
            if self.standard_input { None } else { Some(place::sources(self.sought, self.confinement)?) };
        control.progress.is_comparing.store(true, Relaxed);
        let own = sources.as_ref().and_then(|sources| sources.source.folders(&self.walk));
        let possessions = possessions(control, self.plan, own.as_ref())?;
        drop(own);
        control.progress.is_comparing.store(false, Relaxed);
        let claims = possessions.partial.values().flatten();
        let resumed: u64 = claims.map(|claim| claim.range.end - claim.range.start).sum();
        if resumed > 0 {
            let _ = self.notices.try_send(Notice::Resuming { bytes: resumed });
        }
        let sending = ends::sending(self.plan, possessions, self.notices, control.progress.clone())?;
        let sending = Arc::new(sending);
        let mut source = match sources {
            Some(sources) => sources,
            None => {
                sending.filling.queue.push_file(standard_input(&sending.filling.queue, self.sought.name)?);
                place::no_sources()
            }
        };
        announce(&mut source, &sending.filling);
        let removal = self
            .plan
            .removes_sources()
            .then(|| Removal { source: source.source.clone(), walk: self.walk.clone() });
        let walk = (!self.standard_input).then(|| source.source.walk(self.walk));
        control.send_all(&sending, walk, removal, || source.source.reader(), keep)
    }
}

/// Receives the list of the receiver's entries.
fn possessions(control: &mut Control<'_>, plan: &Plan, own: Option<&Folders>) -> Result<Possessions, Error> {
    let mut claims = Claims { trust: plan.wishes.trust_partial, ..Claims::default() };
    claims.kept.sameness = plan.wishes.upkeep.sameness;
    loop {
        if control.progress.cancel.load(Relaxed) {
            return Err(Error::new(ErrorKind::Cancelled, "interrupted"));
        }
        let deadline = Instant::now() + control.timeout;
        match messages::receive(control.channel, deadline)?.0 {
            Message::Have(have) => {
                control.progress.bytes_checked.store(have.checked.bytes, Relaxed);
                control.progress.bytes_to_check.store(have.checked.of_bytes, Relaxed);
                claims.take(have)?;
            }
            // The first one has no folder: it says that they are compared.
            Message::Folders(first) if first.is_empty() => {
                let key = plan.folders_key.as_ref();
                let key = key.ok_or_else(|| Error::protocol("this end compares no folders"))?;
                let rules = folders::Rules::new(key, &plan.wishes.preserve);
                let how = Comparing {
                    threads: plan.terms.lanes,
                    finds_moved: plan.finds_moved(),
                    // By other rules a file is judged when it is looked at.
                    judges_lists: plan.wishes.upkeep.sameness == Sameness::Time,
                };
                let equal = folders::compare(control, &rules, own, how, |have| claims.take(have))?;
                claims.kept.equal = equal;
                return Ok(claims.kept);
            }
            Message::HaveEnd => return Ok(claims.kept),
            Message::Abort(abort) => return Err(abort.into()),
            _ => return Err(Error::protocol("the receiver does not say what it has")),
        }
    }
}

/// The receiver's claims of existing entries, up to the bound.
#[derive(Default)]
struct Claims {
    kept: Possessions,
    pieces: usize,
    messages: usize,
    /// A claim without a hash counts.
    trust: bool,
}

impl Claims {
    fn take(&mut self, Have { done, partial, dated, versions, checked: _ }: Have) -> Result<(), Error> {
        self.messages += 1;
        if self.messages > HAVE_MESSAGES_MAX {
            return Err(Error::protocol("the receiver claims to have more than can be kept in memory"));
        }
        for Held { identity, attributes } in done {
            // Entries beyond the bound are sent again.
            if self.kept.done.len() < POSSESSIONS_MAX {
                self.kept.done.insert(identity, attributes);
            }
        }
        for Dated { path, modified } in dated {
            if self.kept.dated.len() < POSSESSIONS_MAX {
                self.kept.dated.insert(path, modified);
            }
        }
        for held in versions {
            if self.kept.versions.len() < POSSESSIONS_MAX {
                self.kept.versions.insert(held.path, held.bytes);
                self.kept.moved.add(&held);
            }
        }
        for partial in partial {
            // A file takes as much room as some pieces, even one without any.
            let cost = PARTIAL_COST + partial.pieces.len();
            if self.pieces + cost > PIECES_MAX {
                continue;
            }
            self.pieces += cost;
            let claims = self.kept.partial.entry(partial.identity).or_default();
            for Piece { start, end, hash } in partial.pieces {
                let begins = claims.last().map_or(0, |before| before.range.end);
                let is_whole =
                    start.is_multiple_of(GROUP_BYTES as u64) && end - start.min(end) <= PIECE_BYTES;
                if start < begins || start >= end || !is_whole {
                    return Err(Error::protocol("the receiver's account of what it has makes no sense"));
                }
                let check = match hash {
                    Some(hash) => Check::Hash(hash),
                    None if self.trust => Check::Trusted,
                    None => continue,
                };
                claims.push(Claim { range: start..end, check });
            }
        }
        Ok(())
    }
}

/// The cost of a file, in pieces, besides its own.
const PARTIAL_COST: usize = 4;
/// More than any honest receiver needs, whatever it has.
const HAVE_MESSAGES_MAX: usize = 1 << 17;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::message::Partial;

    const GROUP: u64 = GROUP_BYTES as u64;

    fn piece(start: u64, end: u64) -> Piece {
        Piece { start, end, hash: Some([1; 32]) }
    }

    #[test]
    fn a_claim_without_a_proof_counts_only_for_who_trusts() {
        for trust in [false, true] {
            let mut claims = Claims { trust, ..Claims::default() };
            let pieces = vec![Piece { hash: None, ..piece(0, 5) }];
            let partial = vec![Partial { identity: [0; 16], pieces }];
            claims.take(Have { partial, ..Have::default() }).unwrap();
            assert_eq!(claims.kept.partial[&[0; 16]].len(), usize::from(trust));
        }
    }

    fn identity(number: usize) -> [u8; 16] {
        let mut identity = [0; 16];
        identity[..8].copy_from_slice(&number.to_le_bytes());
        identity
    }

    #[test]
    fn claims_are_bounded_by_their_ranges_as_well() {
        let mut claims = Claims::default();
        let pieces: Vec<_> = (0..4096).map(|at| piece(2 * at * GROUP, (2 * at + 1) * GROUP)).collect();
        for number in 0..2 * PIECES_MAX / pieces.len() {
            let partial = vec![Partial { identity: identity(number), pieces: pieces.clone() }];
            claims.take(Have { partial, ..Have::default() }).unwrap();
        }
        let kept: usize = claims.kept.partial.values().map(Vec::len).sum();
        assert!(kept <= PIECES_MAX && kept > PIECES_MAX / 2, "{kept}");
        let empty = |number| Partial { identity: identity(number), pieces: Vec::new() };
        for number in 0..PIECES_MAX / 1000 {
            let partial = (0..1000).map(|at| empty((1 << 40) + number * 1000 + at)).collect();
            claims.take(Have { partial, ..Have::default() }).unwrap();
        }
        assert!(claims.kept.partial.len() < PIECES_MAX / PARTIAL_COST);
    }

    #[test]
    fn claims_of_no_sense_and_without_end_are_refused() {
        let have = |pieces| Have { partial: vec![Partial { identity: [0; 16], pieces }], ..Have::default() };
        let senseless = [
            vec![piece(0, 0)],
            vec![piece(GROUP, 4)],
            vec![piece(0, GROUP + 5), piece(GROUP, 2 * GROUP)],
            vec![piece(5, GROUP)],
            vec![piece(0, PIECE_BYTES + 1)],
            vec![piece(0, u64::MAX)],
        ];
        for pieces in senseless {
            assert!(Claims::default().take(have(pieces)).is_err());
        }
        // A file with many pieces comes in several messages, which continue each other.
        let mut claims = Claims::default();
        claims.take(have(vec![piece(0, GROUP)])).unwrap();
        claims.take(have(vec![piece(GROUP, 2 * GROUP)])).unwrap();
        assert_eq!(claims.kept.partial[&[0; 16]].len(), 2);
        assert!(claims.take(have(vec![piece(0, GROUP)])).is_err());
        let mut claims = Claims::default();
        assert!((0..=HAVE_MESSAGES_MAX).any(|_| claims.take(Have::default()).is_err()));
    }
}
