//! Many files side by side: read in turns, absorbed together.
//!
//! Every core has a worker, every worker a set of slots, every slot a file and a buffer. A round reads the next piece
//! of each file and then absorbs all pieces side by side; a slot whose file has ended takes the next name. A file that
//! ends within its first piece is digested in one go, with its padding among the others.

use super::{Found, Kind};
use crate::failure::Failure;
use aws_lc_rs::digest;
use sealane_transform::{DigestJob, DigestKey, DigestStream, KeccakStream, Kernels, StreamPart};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

/// The number of files that a worker has open: the number of ways of the widest kernel.
const SLOTS: usize = 32;

/// The length of a piece: all slots of a worker together fit into a second-level cache.
const PIECE_BYTES: usize = 32 << 10;

/// The length of a piece of a file that is digested alone, for fewer calls.
const LONE_PIECE_BYTES: usize = 256 << 10;

/// Digests the files that `names` returns, and calls `tell` with each result, in the order of the names, and with
/// whether another result is ready.
pub(super) fn digest(
    kind: Kind,
    kernels: &Kernels,
    names: &[PathBuf],
    mut tell: impl FnMut(usize, Found, bool) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let workers = thread::available_parallelism().map_or(1, usize::from).min(names.len()).max(1);
    let slots = match kind {
        Kind::Together(_) | Kind::Keccak(_) => names.len().div_ceil(workers).clamp(1, SLOTS),
        Kind::Library(_) | Kind::Blake3 => 1,
    };
    let next = AtomicUsize::new(0);
    let stop = AtomicBool::new(false);
    let claim = || {
        let index = next.fetch_add(1, Ordering::Relaxed);
        (index < names.len() && !stop.load(Ordering::Relaxed)).then(|| (index, names[index].as_path()))
    };
    thread::scope(|scope| {
        let (sender, results) = mpsc::channel();
        for _ in 0..workers {
            let (sender, claim) = (sender.clone(), &claim);
            scope.spawn(move || {
                // The receiver is gone once output has failed.
                Worker::new(kind, *kernels, slots)
                    .run(claim, |index, found| sender.send((index, found)).is_ok());
            });
        }
        drop(sender);
        let outcome = in_order(&results, &mut tell);
        stop.store(true, Ordering::Relaxed);
        outcome
    })
}

/// Holds results back until those of all earlier names have been reported.
fn in_order(
    results: &mpsc::Receiver<(usize, Found)>,
    tell: &mut impl FnMut(usize, Found, bool) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut early = BTreeMap::new();
    let mut turn = 0;
    let mut at_hand = results.recv().ok();
    while let Some((index, found)) = at_hand {
        early.insert(index, found);
        at_hand = results.try_recv().ok();
        while let Some(found) = early.remove(&turn) {
            let more = at_hand.is_some() || early.contains_key(&(turn + 1));
            tell(turn, found, more)?;
            turn += 1;
        }
        if at_hand.is_none() {
            at_hand = results.recv().ok();
        }
    }
    Ok(())
}

/// The state of a file.
enum State {
    Together(DigestStream),
    Library(Box<digest::Context>),
    Keccak(Box<KeccakStream>),
    Blake3(Box<blake3::Hasher>),
}

struct Slot {
    index: usize,
    file: File,
    /// Pipes and terminals return what they have; waiting for a full piece could last for ever.
    fills: bool,
    state: State,
    is_fresh: bool,
    piece_bytes: usize,
    has_ended: bool,
    failure: Option<io::Error>,
}

struct Worker {
    kind: Kind,
    kernels: Kernels,
    key: Option<DigestKey>,
    slots: Vec<Slot>,
    slots_max: usize,
    piece_bytes_max: usize,
    buffer: Vec<u8>,
}

impl Worker {
    fn new(kind: Kind, kernels: Kernels, slots_max: usize) -> Self {
        let piece_bytes_max = if slots_max == 1 { LONE_PIECE_BYTES } else { PIECE_BYTES };
        let key = match kind {
            Kind::Together(digest) | Kind::Keccak(digest) => DigestKey::new(digest, &[]).ok(),
            Kind::Library(_) | Kind::Blake3 => None,
        };
        let buffer = vec![0; slots_max * piece_bytes_max];
        Self { kind, kernels, key, slots: Vec::with_capacity(slots_max), slots_max, piece_bytes_max, buffer }
    }

    /// Works until there are no more names, or until `tell` returns that the receiver is gone.
    fn run<'n>(
        mut self,
        claim: &impl Fn() -> Option<(usize, &'n Path)>,
        tell: impl Fn(usize, Found) -> bool,
    ) {
        loop {
            while self.slots.len() < self.slots_max
                && let Some((index, name)) = claim()
            {
                match self.open(index, name) {
                    Ok(slot) => self.slots.push(slot),
                    Err(error) => {
                        if !tell(index, Err(error)) {
                            return;
                        }
                    }
                }
            }
            if self.slots.is_empty() {
                return;
            }
            self.read();
            for (index, found) in self.absorb() {
                if !tell(index, found) {
                    return;
                }
            }
        }
    }

    fn open(&self, index: usize, name: &Path) -> io::Result<Slot> {
        let file = if name.as_os_str() == "-" {
            File::from(io::stdin().as_fd().try_clone_to_owned()?)
        } else {
            File::open(name)?
        };
        let state = match self.kind {
            Kind::Together(digest) => {
                State::Together(DigestStream::new(digest).ok_or(io::ErrorKind::Unsupported)?)
            }
            Kind::Library(library) => State::Library(Box::new(digest::Context::new(library.algorithm()))),
            Kind::Keccak(digest) => {
                State::Keccak(Box::new(KeccakStream::new(digest).ok_or(io::ErrorKind::Unsupported)?))
            }
            Kind::Blake3 => State::Blake3(Box::default()),
        };
        let fills = file.metadata()?.is_file();
        Ok(Slot {
            index,
            file,
            fills,
            state,
            is_fresh: true,
            piece_bytes: 0,
            has_ended: false,
            failure: None,
        })
    }

    /// Reads the next piece of every file into the slot's own part of the buffer.
    fn read(&mut self) {
        for (slot, room) in self.slots.iter_mut().zip(self.buffer.chunks_exact_mut(self.piece_bytes_max)) {
            slot.failure = slot.fill(room).err();
        }
    }

    /// Absorbs all pieces; files that have ended or failed leave their slots with a result.
    fn absorb(&mut self) -> Vec<(usize, Found)> {
        let mut results = Vec::new();
        let Self { kind, kernels, key, slots, buffer, piece_bytes_max, .. } = self;
        let mut jobs = Vec::new();
        let mut parts = Vec::new();
        for (slot, room) in slots.iter_mut().zip(buffer.chunks_exact(*piece_bytes_max)) {
            let piece = &room[..slot.piece_bytes];
            if slot.failure.is_some() {
                continue;
            }
            match (&mut slot.state, &*key) {
                (State::Together(_) | State::Keccak(_), Some(key)) if slot.is_fresh && slot.has_ended => {
                    jobs.push((slot.index, DigestJob::new(key, piece)));
                }
                (State::Together(stream), _) => parts.push(StreamPart { stream, part: piece }),
                (State::Library(context), _) => context.update(piece),
                (State::Keccak(stream), _) => stream.absorb(kernels, piece),
                (State::Blake3(hasher), _) => {
                    hasher.update(piece);
                }
            }
        }
        kernels.absorb(&mut parts);
        if let Kind::Together(digest) | Kind::Keccak(digest) = *kind {
            let (indices, mut jobs): (Vec<usize>, Vec<DigestJob<'_>>) = jobs.into_iter().unzip();
            kernels.digest(digest, &mut jobs);
            let found = jobs.iter().map(|job| Ok(job.digest().to_vec()));
            results.extend(indices.into_iter().zip(found));
        }
        slots.retain_mut(|slot| {
            if let Some(error) = slot.failure.take() {
                results.push((slot.index, Err(error)));
                return false;
            }
            if slot.has_ended {
                match &slot.state {
                    State::Together(_) | State::Keccak(_) if slot.is_fresh => {}
                    State::Together(stream) => {
                        results.push((slot.index, Ok(kernels.finish(stream)[..kind.bytes()].to_vec())));
                    }
                    State::Library(context) => {
                        let digest = context.as_ref().clone().finish();
                        results.push((slot.index, Ok(digest.as_ref().to_vec())));
                    }
                    State::Keccak(stream) => results.push((slot.index, Ok(stream.finish(kernels)))),
                    State::Blake3(hasher) => {
                        results.push((slot.index, Ok(hasher.finalize().as_bytes().to_vec())));
                    }
                }
            }
            slot.is_fresh = false;
            !slot.has_ended
        });
        results
    }
}

impl Slot {
    fn fill(&mut self, room: &mut [u8]) -> io::Result<()> {
        self.piece_bytes = 0;
        while self.piece_bytes < room.len() {
            match self.file.read(&mut room[self.piece_bytes..]) {
                Ok(0) => {
                    self.has_ended = true;
                    return Ok(());
                }
                Ok(bytes) => self.piece_bytes += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            if !self.fills {
                return Ok(());
            }
        }
        Ok(())
    }
}
