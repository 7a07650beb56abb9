//! Peers that lie, driven by random bytes; the fuzz target `tcp_segments` runs the same code.

#[path = "common/hostile.rs"]
mod hostile;

#[test]
fn a_peer_that_lies_breaks_nothing() {
    let mut taken = 0;
    let mut state = 1_u64;
    for seed in 0..30_000_u32 {
        let mut input = Vec::with_capacity(400);
        for _ in 0..400 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            input.push((state >> 33) as u8);
        }
        match std::panic::catch_unwind(|| hostile::converse(&input)) {
            Ok(segments) => taken += segments,
            Err(_) => panic!("seed {seed}: see above"),
        }
    }
    assert!(taken > 100_000, "{taken} segments: the connections end too early");
}
