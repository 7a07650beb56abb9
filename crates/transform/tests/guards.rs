//! Tests that no kernel reads or writes beyond a job's bytes: every buffer ends at, or starts after, a page that
//! faults.
#![cfg(target_os = "linux")]
#![allow(unsafe_code)]

mod common;

use common::every_kernel;
use sealane_transform::{
    Algorithm, Buffer, Cipher, CipherJob, CipherKey, Digest, DigestJob, DigestKey, Kernels, Tier,
};

const PAGE: usize = 4096;
const CANARY: u8 = 0xc5;

/// One writable page between two that fault.
struct Guarded {
    start: *mut u8,
    at: usize,
    bytes: usize,
}

impl Guarded {
    /// Returns room for `bytes`, which end at the upper page or start at the lower one; the rest of the page has
    /// canaries.
    fn new(bytes: usize, at_end: bool) -> Self {
        assert!(bytes <= PAGE);
        // SAFETY: a fresh anonymous mapping of three pages, the middle one made writable.
        let start = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let map = libc::mmap(core::ptr::null_mut(), 3 * PAGE, libc::PROT_NONE, flags, -1, 0);
            assert_ne!(map, libc::MAP_FAILED, "mapping three pages");
            let start = map.cast::<u8>().add(PAGE);
            assert_eq!(libc::mprotect(start.cast(), PAGE, libc::PROT_READ | libc::PROT_WRITE), 0);
            start.write_bytes(CANARY, PAGE);
            start
        };
        Self { start, at: if at_end { PAGE - bytes } else { 0 }, bytes }
    }

    fn holding(data: &[u8], at_end: bool) -> Self {
        let mut made = Self::new(data.len(), at_end);
        made.bytes_mut().copy_from_slice(data);
        made
    }

    /// Returns a page with `data`, which is read-only from now on.
    fn sealed(data: &[u8], at_end: bool) -> Self {
        let made = Self::holding(data, at_end);
        // SAFETY: the page is this value's own.
        assert_eq!(unsafe { libc::mprotect(made.start.cast(), PAGE, libc::PROT_READ) }, 0);
        made
    }

    fn page(&self) -> &[u8] {
        // SAFETY: a readable page that lives as long as self.
        unsafe { core::slice::from_raw_parts(self.start, PAGE) }
    }

    fn bytes(&self) -> &[u8] {
        &self.page()[self.at..self.at + self.bytes]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: within the writable page, borrowed with self.
        unsafe { core::slice::from_raw_parts_mut(self.start.add(self.at), self.bytes) }
    }

    fn is_intact(&self) -> bool {
        let page = self.page();
        page[..self.at].iter().chain(&page[self.at + self.bytes..]).all(|&byte| byte == CANARY)
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: the three pages that `new` mapped.
        unsafe { libc::munmap(self.start.sub(PAGE).cast(), 3 * PAGE) };
    }
}

/// Returns lengths around blocks, chunks and pages, enough of them to fill the ways of most kernels.
fn lengths() -> Vec<usize> {
    let edges = [
        0, 1, 7, 8, 9, 15, 16, 17, 24, 31, 33, 40, 47, 48, 55, 56, 57, 63, 64, 65, 72, 80, 112, 119, 120,
        127, 128, 129, 136, 192, 200, 256, 511, 512, 576, 640, 1023, 1024, 1025, 1408,
    ];
    edges.into_iter().chain((0..30).map(|i| 64 + 8 * i)).collect()
}

fn message(bytes: usize, salt: usize) -> Vec<u8> {
    (0..bytes).map(|i| (i * 7 + salt * 13) as u8).collect()
}

fn check_cipher(algorithm: Cipher) {
    let granule = algorithm.granule_bytes();
    let messages: Vec<_> =
        lengths().into_iter().enumerate().map(|(i, bytes)| message(bytes / granule * granule, i)).collect();
    let usual = algorithm.facts().key_bytes.usual;
    let keys: Vec<_> = (1..4).map(|i| CipherKey::new(algorithm, &message(usual, i)).unwrap()).collect();
    let run = |kernels: &Kernels, sources: &[Guarded], out: &mut [Guarded], in_place| {
        let mut jobs: Vec<_> = out
            .iter_mut()
            .zip(sources)
            .enumerate()
            .map(|(i, (out, source))| {
                let data = if in_place {
                    Buffer::in_place(out.bytes_mut())
                } else {
                    Buffer::out_of_place(source.bytes(), out.bytes_mut()).unwrap()
                };
                CipherJob::new(&keys[i % keys.len()], &[i as u8; 16], data)
            })
            .collect();
        assert_eq!(kernels.encrypt(algorithm, &mut jobs), 0);
    };
    let reference = Kernels::select(Some(Tier::Reference), None).unwrap();
    let place = |i: usize| i.is_multiple_of(2);
    let sources: Vec<_> = messages.iter().enumerate().map(|(i, m)| Guarded::sealed(m, place(i))).collect();
    let fresh = || messages.iter().enumerate().map(|(i, m)| Guarded::holding(m, !place(i))).collect();
    let mut expected: Vec<Guarded> = fresh();
    run(&reference, &sources, &mut expected, true);
    for (name, kernels) in every_kernel() {
        for in_place in [true, false] {
            let mut out: Vec<Guarded> = fresh();
            run(&kernels, &sources, &mut out, in_place);
            for (i, (out, expected)) in out.iter().zip(&expected).enumerate() {
                assert!(out.is_intact(), "{algorithm} {name}: job {i} of {} bytes", out.bytes);
                assert!(out.bytes() == expected.bytes(), "{algorithm} {name}: job {i}");
            }
        }
    }
}

#[test]
fn ciphers_stay_within_their_buffers() {
    for algorithm in Algorithm::all() {
        if let Algorithm::Cipher(cipher) = algorithm {
            check_cipher(cipher);
        }
    }
}

#[test]
fn digests_stay_within_their_messages() {
    for algorithm in Digest::ALL {
        let key = DigestKey::new(algorithm, &message(algorithm.facts().key_bytes.usual, 1)).unwrap();
        for at_end in [true, false] {
            let messages: Vec<_> = lengths()
                .into_iter()
                .enumerate()
                .map(|(i, bytes)| Guarded::sealed(&message(bytes, i), at_end))
                .collect();
            for (name, kernels) in every_kernel() {
                let mut jobs: Vec<_> = messages.iter().map(|m| DigestJob::new(&key, m.bytes())).collect();
                assert_eq!(kernels.digest(algorithm, &mut jobs), 0, "{} {name}", algorithm.name());
            }
        }
    }
}
