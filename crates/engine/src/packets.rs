//! The implementation of an AEAD for batches of packets, by a measurement on this processor.
//!
//! A table of costs ([`Implementations::provider`]) is of the processors on which it was measured. What a gateway seals and opens all
//! day is worth a few milliseconds at its start.
//!
//! Guarantees: whoever is chosen computes the same bytes; an implementation that is chosen already, or a forced tier, is left as it is;
//! each algorithm is measured once in a process.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use sealane_transform::{Aead, AeadTotals, Cheaper, Direction as Way};

use crate::{
    Buffer, Direction, Implementations, Job, JobStatus, Protection, Provider, Session, Software, Span, Work,
};

/// The batch: as many packets as a GSO packet has, of the length of most.
const PACKETS: u32 = 44;
const PACKET_BYTES: u32 = 1408;
/// ESP's header, which is authenticated.
const CLEAR_BYTES: u32 = 8;
/// The number of calls, of which the fastest counts: slower ones were disturbed.
const CALLS: usize = 9;

/// The sets of instructions, and the algorithms.
const ISAS: usize = 4;
const ALGORITHMS: [Aead; 3] = [Aead::Aes128Gcm, Aead::Aes256Gcm, Aead::ChaCha20Poly1305];

impl Implementations {
    /// Returns these implementations, with the one of a protection's AEAD that takes less time for batches of packets here.
    #[must_use]
    pub fn for_packets(self, protection: Protection) -> Self {
        static CHOSEN: [[OnceLock<Provider>; ALGORITHMS.len()]; ISAS] =
            [const { [const { OnceLock::new() }; 3] }; 4];
        let (None, None, Protection::Aead(aead)) = (self.aead, self.kernels.tier(), protection) else {
            return self;
        };
        let place =
            CHOSEN.get(self.kernels.isa() as usize).zip(ALGORITHMS.iter().position(|own| *own == aead));
        let Some((chosen, at)) = place else { return self };
        // There is nothing to measure if ours are cheaper for anything.
        if self.kernels.cheaper(aead) == Cheaper::Own {
            return self;
        }
        Self { aead: Some(*chosen[at].get_or_init(|| self.faster(aead))), ..self }
    }

    /// Returns the name of the implementation that runs a protection's packets, for reports.
    pub fn name_of_packets(self, protection: Protection) -> &'static str {
        let mut packets = AeadTotals::default();
        (0..PACKETS).for_each(|_| packets.add(PACKET_BYTES as usize, CLEAR_BYTES as usize));
        match protection {
            Protection::Aead(aead) | Protection::ShortAead { aead, .. } => {
                match self.provider(aead, Way::Encrypt, packets) {
                    Provider::AwsLc => "aws-lc",
                    Provider::Sealane => "sealane",
                }
            }
            Protection::Null => "none",
            _ => "sealane",
        }
    }

    /// Returns the faster implementation of `aead`.
    fn faster(self, aead: Aead) -> Provider {
        let both = [Provider::Sealane, Provider::AwsLc];
        let mut batches = both.map(|provider| Batch::new(Self { aead: Some(provider), ..self }, aead));
        let mut fastest = [f64::INFINITY; 2];
        for _ in 0..CALLS {
            for (batch, fastest) in batches.iter_mut().zip(&mut fastest) {
                *fastest = fastest.min(batch.seconds());
            }
        }
        both[usize::from(fastest[1] < fastest[0])]
    }
}

/// A batch that is sealed and opened.
struct Batch {
    work: Work,
    software: Software,
}

impl Batch {
    fn new(implementations: Implementations, aead: Aead) -> Self {
        let protection = Protection::Aead(aead);
        let session = Session::with(implementations, protection, &vec![0x5a; protection.key_bytes()]);
        let session = session.expect("the key has the protection's length");
        let tag_bytes = protection.tag_bytes() as u32;
        let room = CLEAR_BYTES + PACKET_BYTES + tag_bytes;
        let mut work = Work { buffer: Buffer::new((PACKETS * room) as usize), ..Work::default() };
        work.sessions.push(Arc::new(session));
        work.jobs.extend((0..PACKETS).map(|index| Job {
            clear: Span::new(index * room, CLEAR_BYTES),
            body: Span::new(index * room + CLEAR_BYTES, PACKET_BYTES),
            tag: Span::new(index * room + CLEAR_BYTES + PACKET_BYTES, tag_bytes),
            ..Job::default()
        }));
        Self { work, software: Software::default() }
    }

    /// Returns the time of both directions. These texts are nobody's, so the nonce may be the same each time.
    fn seconds(&mut self) -> f64 {
        let Self { work, software } = self;
        let start = Instant::now();
        for direction in [Direction::Seal, Direction::Open] {
            work.direction = direction;
            work.jobs.iter_mut().for_each(|job| job.status = JobStatus::Pending);
            software.run(work);
        }
        debug_assert!(work.jobs.iter().all(|job| job.status == JobStatus::Done));
        start.elapsed().as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use sealane_transform::{Isa, Kernels, Tier};

    use super::*;

    /// The choice has a name, and is the same each time.
    #[test]
    fn every_algorithm_has_one_implementation_for_packets() {
        for isa in [None, Some(Isa::Avx2)] {
            let Ok(kernels) = Kernels::select(None, isa) else { continue };
            let implementations = Implementations::from(kernels);
            for aead in ALGORITHMS {
                let protection = Protection::Aead(aead);
                let [one, other] = [(); 2].map(|()| implementations.for_packets(protection));
                assert_eq!(one.aead, other.aead);
                let name = one.name_of_packets(protection);
                assert!(["sealane", "aws-lc"].contains(&name));
                assert!(one.aead.is_none_or(|provider| provider.name() == name));
                if kernels.cheaper(aead) != Cheaper::Own {
                    assert!(one.aead.is_some(), "{aead:?} is measured");
                }
            }
        }
    }

    #[test]
    fn what_is_chosen_already_stays() {
        let protection = Protection::Aead(Aead::Aes256Gcm);
        let own = Implementations { aead: Some(Provider::AwsLc), ..Implementations::default() };
        assert_eq!(own.for_packets(protection).aead, Some(Provider::AwsLc));
        let reference = Kernels::select(Some(Tier::Reference), None).expect("every machine has it");
        assert_eq!(Implementations::from(reference).for_packets(protection).aead, None);
        assert_eq!(own.for_packets(Protection::Null).aead, Some(Provider::AwsLc));
    }

    /// Both directions of both implementations succeed: otherwise the fastest would be one that fails.
    #[test]
    fn a_batch_is_sealed_and_opened() {
        for provider in [Provider::AwsLc, Provider::Sealane] {
            let implementations = Implementations { aead: Some(provider), ..Implementations::default() };
            for aead in ALGORITHMS {
                let mut batch = Batch::new(implementations, aead);
                assert!(batch.seconds() > 0.0);
                assert!(batch.work.jobs.iter().all(|job| job.status == JobStatus::Done), "{aead:?}");
            }
        }
    }
}
