//! The catalogue's own kernels as measured units.
//!
//! Jobs are made once and run repeatedly: they contain their whole context. Every call gives each cipher job a new
//! IV, as a packet path must.

use super::SpeedError;
use super::work::{AAD, Arena, Cursor, Done, Runner, Sealed, Task, Work, nonce, parts};
use sealane_transform::{
    Aead, AeadJob, AeadKey, Algorithm, Buffer, Cipher, CipherJob, CipherKey, Digest, DigestJob, DigestKey,
    Direction, Kernels, Tier,
};
use std::hint::black_box;

/// Returns the tier with which these kernels run `count` messages.
pub(super) fn tier(kernels: &Kernels, algorithm: Algorithm, direction: Direction, count: usize) -> Tier {
    match algorithm {
        Algorithm::Digest(digest) => kernels.digest_tier(digest, count),
        Algorithm::Cipher(cipher) => kernels.cipher_tier(cipher, direction, count),
        Algorithm::Aead(aead) => kernels.aead_tier(aead, count),
        Algorithm::Gmac(gmac) => kernels.aead_tier(gmac.aead(), count),
    }
}

impl Runner for Kernels {
    fn with(&self, task: &Task, scope: &mut dyn FnMut(&mut Work<'_>)) -> Result<(), SpeedError> {
        match task.algorithm {
            Algorithm::Digest(digest) => digests(self, digest, task, scope),
            Algorithm::Cipher(cipher) => ciphers(self, cipher, task, scope),
            Algorithm::Aead(aead) => match task.direction {
                Direction::Encrypt => seals(self, aead, task, scope),
                Direction::Decrypt => opens(self, aead, task, scope),
            },
            Algorithm::Gmac(gmac) => seals(self, gmac.aead(), task, scope),
        }
    }
}

/// Returns the messages per call: a batch if they share lanes, a few otherwise.
fn step(kernels: &Kernels, task: &Task) -> usize {
    match tier(kernels, task.algorithm, task.direction, task.batch) {
        Tier::Batch => task.batch,
        _ => task.step(),
    }
}

/// Expands the keys of a task.
fn keys<K, E>(task: &Task, expand: impl Fn(&[u8]) -> Result<K, E>) -> Result<Vec<K>, SpeedError> {
    task.keys().iter().map(|key| expand(key)).collect::<Result<_, _>>().map_err(|_| task.refused())
}

/// Passes a `call`, which returns how many of its jobs failed, to `scope`, after one call in which none failed.
fn run(
    task: &Task,
    scope: &mut dyn FnMut(&mut Work<'_>),
    mut call: impl FnMut() -> (usize, Done),
) -> Result<(), SpeedError> {
    if call().0 > 0 {
        return Err(task.refused());
    }
    scope(&mut || call().1);
    Ok(())
}

fn digests(
    kernels: &Kernels,
    digest: Digest,
    task: &Task,
    scope: &mut dyn FnMut(&mut Work<'_>),
) -> Result<(), SpeedError> {
    let keys = keys(task, |key| DigestKey::new(digest, key))?;
    let mut arena = Arena::new(task);
    let mut jobs: Vec<DigestJob<'_>> = arena
        .messages(&task.lengths)
        .enumerate()
        .map(|(index, message)| DigestJob::new(&keys[index % keys.len()], message))
        .collect();
    let mut cursor = Cursor::new(&task.lengths, step(kernels, task));
    run(task, scope, || {
        let (range, done) = cursor.next();
        (kernels.digest(digest, black_box(&mut jobs[range])), done)
    })
}

fn ciphers(
    kernels: &Kernels,
    cipher: Cipher,
    task: &Task,
    scope: &mut dyn FnMut(&mut Work<'_>),
) -> Result<(), SpeedError> {
    let keys = keys(task, |key| CipherKey::new(cipher, key))?;
    let mut arena = Arena::new(task);
    let mut jobs: Vec<CipherJob<'_>> = arena
        .messages(&task.lengths)
        .enumerate()
        .map(|(index, message)| CipherJob::new(&keys[index % keys.len()], &[], Buffer::in_place(message)))
        .collect();
    let mut cursor = Cursor::new(&task.lengths, step(kernels, task));
    let mut count = 0_u64;
    run(task, scope, || {
        let (range, done) = cursor.next();
        let jobs = &mut jobs[range];
        for job in &mut *jobs {
            count += 1;
            job.iv[..8].copy_from_slice(&count.to_le_bytes());
        }
        (kernels.cipher(cipher, task.direction, black_box(jobs)), done)
    })
}

fn seals(
    kernels: &Kernels,
    aead: Aead,
    task: &Task,
    scope: &mut dyn FnMut(&mut Work<'_>),
) -> Result<(), SpeedError> {
    let keys = keys(task, |key| AeadKey::new(aead, key))?;
    let mut arena = Arena::new(task);
    let mut jobs: Vec<AeadJob<'_>> = arena
        .messages(&task.lengths)
        .enumerate()
        .map(|(index, message)| {
            let (aad, data) = parts(task.algorithm, message);
            AeadJob::seal(&keys[index % keys.len()], [0; 12], aad, Buffer::in_place(data))
        })
        .collect();
    let mut cursor = Cursor::new(&task.lengths, step(kernels, task));
    let mut count = 0_u64;
    run(task, scope, || {
        let (range, done) = cursor.next();
        let jobs = &mut jobs[range];
        for job in &mut *jobs {
            count += 1;
            job.nonce = nonce(count);
        }
        (kernels.seal(aead, black_box(jobs)), done)
    })
}

fn opens(
    kernels: &Kernels,
    aead: Aead,
    task: &Task,
    scope: &mut dyn FnMut(&mut Work<'_>),
) -> Result<(), SpeedError> {
    let keys = keys(task, |key| AeadKey::new(aead, key))?;
    let mut sealed = Sealed::new(aead, task)?;
    let mut arena = Arena::new(task);
    let mut jobs = Vec::with_capacity(task.lengths.len());
    for (index, (message, (source, tag))) in
        arena.messages(&task.lengths).zip(sealed.messages(&task.lengths)).enumerate()
    {
        let data = Buffer::out_of_place(source, message).map_err(|_| task.refused())?;
        jobs.push(AeadJob::open(&keys[index % keys.len()], nonce(index as u64), &AAD, data, *tag));
    }
    let mut cursor = Cursor::new(&task.lengths, step(kernels, task));
    run(task, scope, || {
        let (range, done) = cursor.next();
        (kernels.open(aead, black_box(&mut jobs[range])), done)
    })
}
