//! The catalogue's own kernels as measured units.
//!
//! Jobs are made once and run repeatedly: they contain their whole context. Every call gives each cipher job a new
//! IV, as a packet path must.

use super::SpeedError;
use super::work::{AAD, Arena, Cursor, Handler, Runner, Sealed, Task, nonce, parts};
use sealane_transform::{
    Aead, AeadJob, AeadKey, Algorithm, Buffer, Cipher, CipherJob, CipherKey, Digest, DigestJob, DigestKey,
    Direction, Kernels, Tier,
};
use std::hint::black_box;
use std::ops::Range;

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
    fn with(&self, task: &Task, scope: &mut dyn FnMut(&mut Handler<'_>)) -> Result<(), SpeedError> {
        let own = Own { kernels: self, task };
        match task.algorithm {
            Algorithm::Digest(digest) => own.digests(digest, scope),
            Algorithm::Cipher(cipher) => own.ciphers(cipher, scope),
            Algorithm::Aead(aead) => match task.direction {
                Direction::Encrypt => own.seals(aead, scope),
                Direction::Decrypt => own.opens(aead, scope),
            },
            Algorithm::Gmac(gmac) => own.seals(gmac.aead(), scope),
        }
    }
}

type Scope<'a> = dyn FnMut(&mut Handler<'_>) + 'a;

/// Kernels, and the task that they have.
struct Own<'a> {
    kernels: &'a Kernels,
    task: &'a Task,
}

impl Own<'_> {
    /// Returns the messages per call: a batch if they run side by side, a few otherwise.
    fn step(&self) -> usize {
        let task = self.task;
        match tier(self.kernels, task.algorithm, task.direction, task.batch) {
            Tier::Batch => task.batch,
            _ => task.step(),
        }
    }

    /// Expands the keys of the task.
    fn keys<K, E>(&self, expand: impl Fn(&[u8]) -> Result<K, E>) -> Result<Vec<K>, SpeedError> {
        let keys = self.task.keys().iter().map(|key| expand(key)).collect::<Result<_, _>>();
        keys.map_err(|_| self.task.refused())
    }

    /// Passes a `call`, which returns how many of the jobs of a range failed, to `scope`, after one call in which none failed.
    fn run(
        &self,
        scope: &mut Scope<'_>,
        mut call: impl FnMut(Range<usize>) -> usize,
    ) -> Result<(), SpeedError> {
        let mut cursor = Cursor::new(&self.task.lengths, self.step());
        if call(cursor.next().0) > 0 {
            return Err(self.task.refused());
        }
        scope(&mut || {
            let (range, done) = cursor.next();
            call(range);
            done
        });
        Ok(())
    }

    fn digests(&self, digest: Digest, scope: &mut Scope<'_>) -> Result<(), SpeedError> {
        let keys = self.keys(|key| DigestKey::new(digest, key))?;
        let mut arena = Arena::new(self.task);
        let messages = arena.messages(&self.task.lengths).zip(keys.iter().cycle());
        let mut jobs: Vec<_> = messages.map(|(message, key)| DigestJob::new(key, message)).collect();
        self.run(scope, |range| self.kernels.digest(digest, black_box(&mut jobs[range])))
    }

    fn ciphers(&self, cipher: Cipher, scope: &mut Scope<'_>) -> Result<(), SpeedError> {
        let keys = self.keys(|key| CipherKey::new(cipher, key))?;
        let mut arena = Arena::new(self.task);
        let messages = arena.messages(&self.task.lengths).zip(keys.iter().cycle());
        let job = |(message, key)| CipherJob::new(key, &[], Buffer::in_place(message));
        let mut jobs: Vec<_> = messages.map(job).collect();
        let mut count = 0_u64;
        self.run(scope, |range| {
            let jobs = &mut jobs[range];
            for job in &mut *jobs {
                count += 1;
                job.iv[..8].copy_from_slice(&count.to_le_bytes());
            }
            self.kernels.cipher(cipher, self.task.direction, black_box(jobs))
        })
    }

    fn seals(&self, aead: Aead, scope: &mut Scope<'_>) -> Result<(), SpeedError> {
        let keys = self.keys(|key| AeadKey::new(aead, key))?;
        let mut arena = Arena::new(self.task);
        let job = |(message, key)| {
            let (aad, data) = parts(self.task.algorithm, message);
            AeadJob::seal(key, [0; 12], aad, Buffer::in_place(data))
        };
        let mut jobs: Vec<_> = arena.messages(&self.task.lengths).zip(keys.iter().cycle()).map(job).collect();
        let mut count = 0_u64;
        self.run(scope, |range| {
            let jobs = &mut jobs[range];
            for job in &mut *jobs {
                count += 1;
                job.nonce = nonce(count);
            }
            self.kernels.seal(aead, black_box(jobs))
        })
    }

    fn opens(&self, aead: Aead, scope: &mut Scope<'_>) -> Result<(), SpeedError> {
        let keys = self.keys(|key| AeadKey::new(aead, key))?;
        let mut sealed = Sealed::new(aead, self.task)?;
        let mut arena = Arena::new(self.task);
        let mut jobs = Vec::with_capacity(self.task.lengths.len());
        let lengths = &self.task.lengths;
        for (index, (message, (source, tag))) in
            arena.messages(lengths).zip(sealed.messages(lengths)).enumerate()
        {
            let data = Buffer::out_of_place(source, message).map_err(|_| self.task.refused())?;
            jobs.push(AeadJob::open(&keys[index % keys.len()], nonce(index as u64), &AAD, data, *tag));
        }
        self.run(scope, |range| self.kernels.open(aead, black_box(&mut jobs[range])))
    }
}
