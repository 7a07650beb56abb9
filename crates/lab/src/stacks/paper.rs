//! Figures of the paper: E. Nahum, D. Yates, S. O'Malley, H. Orman and R. Schroeppel, "Parallelized Network Security
//! Protocols", NDSS 1996; twelve MIPS R4400 of 100 MHz, packets of 4 KB. Figures as printed.

/// The tier of rows with the paper's figures.
pub(super) const PAPERS_TIER: &str = "the paper";

/// Microseconds per packet on one processor, sending and receiving.
pub(super) struct Latency {
    pub(super) stack: &'static str,
    pub(super) send_us: f64,
    pub(super) receive_us: f64,
}

const fn latency(stack: &'static str, send_us: f64, receive_us: f64) -> Latency {
    Latency { stack, send_us, receive_us }
}

/// Table 1, packet-level parallelism. Its last row is without MD5, that of Table 2 is with it.
pub(super) const TABLE_1: [Latency; 4] = [
    latency("tcp/ip/fddi", 236.0, 189.0),
    latency("tcp/md5/ip/fddi", 1737.0, 1708.0),
    latency("des/tcp/md5/ip/fddi", 8982.0, 9179.0),
    latency("3des/tcp/ip/fddi", 21461.0, 21121.0),
];

/// Table 2, connection-level parallelism.
pub(super) const TABLE_2: [Latency; 4] = [
    latency("tcp/ip/fddi", 226.0, 214.0),
    latency("tcp/md5/ip/fddi", 1772.0, 1769.0),
    latency("des/tcp/md5/ip/fddi", 8694.0, 8985.0),
    latency("3des/tcp/md5/ip/fddi", 23150.0, 23237.0),
];

/// Microseconds per packet for which TCP held its lock: 200 Mb/s, at which the paper saw it saturated.
pub(super) const LOCKED_US: f64 = 164.0;
/// Processors of the paper's machine.
pub(super) const PROCESSORS: usize = 12;

/// A point of a curve.
pub(super) struct Rate {
    pub(super) stack: &'static str,
    pub(super) processors: usize,
    /// The table, figure or section that prints it.
    pub(super) megabits: Option<f64>,
    /// The rate relative to one processor, in the paper's words if it prints no figure.
    pub(super) times: &'static str,
}

const fn rate(stack: &'static str, processors: usize, megabits: Option<f64>, times: &'static str) -> Rate {
    Rate { stack, processors, megabits, times }
}

/// Figures 3 and 4 as described in the text, and its statement about DES on all processors.
pub(super) const PACKETS: [Rate; 8] = [
    rate("tcp/ip/fddi", 1, Some(138.0), "1"),
    rate("tcp/ip/fddi", PROCESSORS, None, "minimal"),
    rate("tcp/md5/ip/fddi", 1, Some(18.0), "1"),
    rate("tcp/md5/ip/fddi", PROCESSORS, None, "8"),
    rate("des/tcp/md5/ip/fddi", 1, Some(4.6), "1"),
    rate("des/tcp/md5/ip/fddi", PROCESSORS, Some(50.0), "near linear"),
    rate("3des/tcp/ip/fddi", 1, Some(1.5), "1"),
    rate("3des/tcp/ip/fddi", PROCESSORS, None, "near linear"),
];

/// Figures 7 and 8, of which the text gives one point and the shapes.
pub(super) const CONNECTIONS: [Rate; 4] = [
    rate("tcp/ip/fddi", PROCESSORS, None, "good"),
    rate("tcp/md5/ip/fddi", PROCESSORS, None, "linear"),
    rate("des/tcp/md5/ip/fddi", PROCESSORS, Some(50.0), "linear"),
    rate("3des/tcp/md5/ip/fddi", PROCESSORS, None, "linear"),
];
