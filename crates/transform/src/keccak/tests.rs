//! Tests of Keccak: the examples of FIPS 202, AWS-LC and RustCrypto as foreign oracles, and ways against one state.

use aws_lc_rs::digest;
use hex_literal::hex;

use super::{ROTATIONS, ROUND_CONSTANTS, SHA3_256, SHA3_512, SHAKE128, SHAKE256, Sponge, alone, reference};

#[test]
fn constants_are_those_of_the_standard() {
    assert_eq!(ROUND_CONSTANTS[0], 1);
    assert_eq!(ROUND_CONSTANTS[1], 0x8082);
    assert_eq!(ROUND_CONSTANTS[23], 0x8000_0000_8000_8008);
    // FIPS 202 table 2, modulo 64.
    assert_eq!(ROTATIONS[..10], [0, 1, 62, 28, 27, 36, 44, 6, 55, 20]);
}

#[test]
fn empty_messages_have_the_published_digests() {
    assert_eq!(
        reference::hash::<32>(SHA3_256, &[]),
        hex!("a7ffc6f8bf1ed76651c14756a061d662f580ff4de43b49fa82d80a4b80f8434a")
    );
    assert_eq!(
        reference::hash::<64>(SHA3_512, &[]),
        hex!(
            "a69f73cca23a9ac5c8b567dc185a756e97c982164fe25859e0d1dcc1475c80a6"
            "15b2123af1f5f94c11e3e9402c3ac558f500199d95b6d3e301758586281dcd26"
        )
    );
    assert_eq!(
        reference::hash::<32>(SHAKE128, &[]),
        hex!("7f9c2ba4e88f827d616045507605853ed73b8093f6efbc88eb1a6eacfa66ef26")
    );
    assert_eq!(
        reference::hash::<32>(SHAKE256, &[]),
        hex!("46b9dd2b0ba88d13233b3feb743eeb243fcd52ea62b81b82b50c27646ed5762f")
    );
}

/// RFC 9861, section 5, with the domains of KT128 and KT256.
#[test]
fn turbo_shake_is_that_of_rfc_9861() {
    let last = |sponge: Sponge, message: &[u8]| {
        let long: [u8; 10_032] = alone::hash(sponge, &[message]);
        assert_eq!(long, reference::hash::<10_032>(sponge, &[message]));
        *long.last_chunk::<32>().unwrap()
    };
    let short = |sponge: Sponge, message: &[u8]| {
        let short: [u8; 32] = alone::hash(sponge, &[message]);
        assert_eq!(short, reference::hash::<32>(sponge, &[message]));
        short
    };
    let (narrow, wide) = (|domain| Sponge::turbo(168, domain), |domain| Sponge::turbo(136, domain));
    assert_eq!(
        short(narrow(0x0b), &[]),
        hex!("8b035ab8f8ea7b410217167458332e46f54be4ff8354baf3687104a6d24b0eab")
    );
    assert_eq!(
        short(narrow(0x06), &[0xff; 7]),
        hex!("05d9ae673d5f0e48bb2b57e88021a1a83d70ba85923aa04c12e8f65ba1f94595")
    );
    assert_eq!(
        last(narrow(0x07), &[]),
        hex!("7593a28020a3c4ae0d605fd61f5eb56eccd27cc3d12ff09f78369772a460c55d")
    );
    assert_eq!(
        last(wide(0x07), &[]),
        hex!("40221ad734f3edc1b106bad50a72949315b352ba39ad98b5b3c2301163adaad0")
    );
    assert_eq!(
        short(wide(0x0b), &[]),
        hex!("c749f7fb23644a021d35653d1bfdf747cece5f9739f9a344ad169f10906c6817")
    );
}

/// Returns bytes that differ by their place and by `way`.
fn message(way: usize, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 31 + way * 101 + at / 7) as u8).collect()
}

/// Lengths around the rates, and those of ML-KEM.
const LENGTHS: [usize; 15] = [0, 1, 7, 8, 33, 34, 71, 72, 135, 136, 137, 168, 272, 1120, 1184];

#[test]
fn reference_agrees_with_aws_lc() {
    for bytes in LENGTHS {
        let message = message(3, bytes);
        let (first, second) = message.split_at(bytes / 3);
        let own = reference::hash::<32>(SHA3_256, &[first, second]);
        assert_eq!(own, digest::digest(&digest::SHA3_256, &message).as_ref());
        let own = reference::hash::<64>(SHA3_512, &[first, second]);
        assert_eq!(own, digest::digest(&digest::SHA3_512, &message).as_ref());
    }
}

#[test]
fn a_message_alone_in_any_parts_agrees_with_the_reference() {
    for bytes in LENGTHS {
        let message = message(5, bytes);
        for sponge in [SHA3_256, SHA3_512, SHAKE128, SHAKE256] {
            let expected = reference::hash::<600>(sponge, &[&message]);
            for cut in [0, 1, bytes / 3, bytes] {
                let (first, second) = message.split_at(cut.min(bytes));
                let found = alone::hash::<600>(sponge, &[first, &[], second]);
                assert_eq!(found, expected, "{sponge:?} over {bytes} bytes, cut at {cut}");
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn ways_agree_with_one_state() {
    use super::ways;
    let Some(token) = crate::isa::Features::detect().avx512 else { return };
    for bytes in LENGTHS {
        let messages: [Vec<u8>; 8] = core::array::from_fn(|way| message(way, bytes));
        let views = messages.each_ref().map(|message| &message[..]);
        for sponge in [SHA3_256, SHA3_512, SHAKE128, SHAKE256] {
            let mut outputs = [[0; 600]; 8];
            ways::hash(token, sponge, views, &mut outputs);
            for (view, output) in views.iter().zip(&outputs) {
                assert_eq!(*output, reference::hash::<600>(sponge, &[view]), "{sponge:?} over {bytes} bytes");
            }
        }
    }
}
