//! The published figures of the card that [`Timing::FOUR_HIFN_7751`](super::Timing::FOUR_HIFN_7751) is fitted to.
//!
//! Source: Keromytis, Wright and de Raadt, "The design of the OpenBSD cryptographic framework" (USENIX 2003), table 1.

/// The lengths of the jobs of table 1, in bytes.
pub const OCF_BYTES: [u32; 6] = [16, 64, 256, 1024, 8192, 16384];
/// Table 1: triple DES on one card, by the number of threads; Mb/s for each of [`OCF_BYTES`].
pub const OCF_TABLE_1: [(usize, [f64; 6]); 5] = [
    (1, [3.06, 11.45, 33.15, 59.49, 79.19, 80.75]),
    (2, [5.53, 18.40, 56.07, 111.60, 154.18, 160.02]),
    (3, [6.44, 23.25, 71.31, 152.28, 229.60, 238.24]),
    (4, [6.83, 25.77, 80.91, 182.65, 292.15, 299.33]),
    (32, [7.37, 27.51, 94.05, 249.17, 313.79, 320.19]),
];
