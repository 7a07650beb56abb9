//! Kernels of packet processing over the machine word, for their instruction mixes beside those of ciphers: what CommBench,
//! NPBench and NetBench measure, as textbooks have it.
//!
//! **Guarantee:** with the plain word each gives what an obvious computation gives, which tests check.

use crate::word::{Counted, Mix, Region, Word, begin, end_block};

/// A kernel of packet processing.
#[derive(Clone, Copy, Debug)]
pub struct PacketKernel {
    /// The name that networks' benchmarks use for such a kernel.
    pub name: &'static str,
    /// The work of one run, in words.
    pub work: &'static str,
    run: fn(),
}

/// The kernels, by headers first and by content then.
pub const PACKET_KERNELS: [PacketKernel; 5] = [
    PacketKernel {
        name: "route",
        work: "the longest prefix of an address, in a tree by bits",
        run: || {
            let _ = (0..64).map(|at| route::<Counted>(&ROUTES, address(at))).sum::<u32>();
        },
    },
    PacketKernel {
        name: "drr",
        work: "packets of eight queues by deficit round robin",
        run: || drop(deficit_round_robin::<Counted>(&queues())),
    },
    PacketKernel {
        name: "url",
        work: "patterns in a request's line, byte by byte",
        run: || drop(find::<Counted>(REQUEST, &PATTERNS)),
    },
    PacketKernel {
        name: "crc-32",
        work: "the checksum of a frame, by a table of 1 KB",
        run: || {
            let _ = crc::<Counted>(&content());
        },
    },
    PacketKernel {
        name: "lzw",
        work: "compression by a dictionary of 4,096 strings",
        run: || drop(compress::<Counted>(&text())),
    },
];

impl PacketKernel {
    /// Counts the operations of a run by class.
    pub fn mix(&self) -> Mix {
        let mut mix = Mix::default();
        begin();
        (self.run)();
        end_block(&mut |event| mix.add(event));
        mix
    }
}

/// Returns byte `at` of bytes that are read a word at a time.
fn byte<W: Word>(words: &mut Option<(usize, W)>, bytes: &[u8], at: usize) -> W {
    let index = at / 4;
    let word = match *words {
        Some((known, word)) if known == index => word,
        _ => {
            let all: [u8; 4] = core::array::from_fn(|i| bytes.get(4 * index + i).copied().unwrap_or(0));
            W::load(Region::Message.word(index), u32::from_le_bytes(all))
        }
    };
    *words = Some((index, word));
    let low = if at.is_multiple_of(4) { word } else { word.shr(8 * (at % 4) as u32) };
    low & W::imm(0xff)
}

/// The polynomial of IEEE 802.3, the lowest bit first.
const POLYNOMIAL: u32 = 0xedb8_8320;

const fn crc_table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut at = 0;
    while at < 256 {
        let (mut value, mut bit) = (at as u32, 0);
        while bit < 8 {
            value = if value & 1 == 1 { (value >> 1) ^ POLYNOMIAL } else { value >> 1 };
            bit += 1;
        }
        table[at] = value;
        at += 1;
    }
    table
}

static CRC_TABLE: [u32; 256] = crc_table();

/// Returns the checksum of Ethernet frames (IEEE 802.3, 3.2.9).
fn crc<W: Word>(bytes: &[u8]) -> u32 {
    let (mut crc, mut words) = (W::imm(u32::MAX), None);
    for at in 0..bytes.len() {
        let index = (crc ^ byte(&mut words, bytes, at)) & W::imm(0xff);
        crc = crc.shr(8) ^ W::lookup("crc", 0, &CRC_TABLE, index);
        W::branch(at + 1 < bytes.len());
    }
    (!crc).bits()
}

/// Routes: prefix, its length, and the port.
const ROUTES: [(u32, u32, u32); 12] = [
    (0x0a00_0000, 8, 1),
    (0x0a01_0000, 16, 2),
    (0x0a01_0200, 24, 3),
    (0xc0a8_0000, 16, 4),
    (0xc0a8_0100, 24, 5),
    (0xac10_0000, 12, 6),
    (0x8000_0000, 1, 7),
    (0xc000_0200, 24, 8),
    (0xc633_6400, 24, 9),
    (0xcb00_7100, 24, 10),
    (0x6440_0000, 10, 11),
    (0x0000_0000, 0, 12),
];

/// Returns an address, of which many have a long prefix.
fn address(at: u32) -> u32 {
    let (prefix, bits, _) = ROUTES[at as usize % ROUTES.len()];
    let noise = at.wrapping_mul(0x9e37_79b1);
    prefix | noise.checked_shr(bits).unwrap_or(0)
}

/// A node of the tree: the children for a zero and a one, 0 if there is none, and the port, 0 if no prefix ends here.
const NODE_WORDS: usize = 3;

/// Returns the tree of these routes, node after node.
fn tree(routes: &[(u32, u32, u32)]) -> Vec<u32> {
    let mut tree = vec![0; NODE_WORDS];
    for &(prefix, bits, port) in routes {
        let mut node = 0;
        for bit in 0..bits {
            let child = node + (prefix >> (31 - bit) & 1) as usize;
            if tree[child] == 0 {
                tree[child] = tree.len() as u32;
                tree.extend([0; NODE_WORDS]);
            }
            node = tree[child] as usize;
        }
        tree[node + 2] = port;
    }
    tree
}

/// Returns the port of the longest prefix of an address.
fn route<W: Word>(routes: &[(u32, u32, u32)], address: u32) -> u32 {
    const TREE: &str = "routes";
    let tree = tree(routes);
    let mut left = W::load(Region::Message.word(4), address);
    let (mut node, mut port) = (W::imm(0), W::imm(0));
    loop {
        let found = W::lookup(TREE, 0, &tree, node + W::imm(2));
        W::choose(found.bits() != 0);
        if found.bits() != 0 {
            port = found;
        }
        let child = W::lookup(TREE, 0, &tree, node + left.shr(31));
        let goes_on = child.bits() != 0;
        W::branch(goes_on);
        if !goes_on {
            return port.store(Region::State.word(0));
        }
        (node, left) = (child, left.shl(1));
    }
}

/// The lengths of the packets of eight queues.
fn queues() -> [Vec<u32>; 8] {
    let length = |queue: u32, at: u32| 40 + (queue * 131 + at * 977) % 1461;
    core::array::from_fn(|queue| (0..6 + queue as u32 % 3).map(|at| length(queue as u32, at)).collect())
}

/// The bytes that a queue may send more in each round.
const QUANTUM: u32 = 500;

/// Returns the queues in the order in which their packets are sent (Shreedhar and Varghese, SIGCOMM 1995).
fn deficit_round_robin<W: Word>(queues: &[Vec<u32>; 8]) -> Vec<usize> {
    const LENGTHS: &str = "lengths";
    let (mut deficits, mut heads) = ([0; 8], [0; 8]);
    let mut order = Vec::new();
    while heads.iter().zip(queues).any(|(head, queue)| *head < queue.len()) {
        for (number, queue) in queues.iter().enumerate() {
            let is_empty = heads[number] == queue.len();
            W::choose(is_empty);
            if is_empty {
                continue;
            }
            let mut deficit = W::load(Region::State.word(number), deficits[number]) + W::imm(QUANTUM);
            loop {
                let head = W::load(Region::State.word(8 + number), heads[number] as u32);
                let length = W::lookup(LENGTHS, 16 * number, queue, head);
                let (left, borrows) = deficit.sub_borrowing(length, false);
                W::choose(borrows);
                if borrows {
                    break;
                }
                deficit = left;
                heads[number] = (head + W::imm(1)).store(Region::State.word(8 + number)) as usize;
                order.push(number);
                let is_done = heads[number] == queue.len();
                W::branch(!is_done);
                if is_done {
                    deficit = W::imm(0);
                    break;
                }
            }
            deficits[number] = deficit.store(Region::State.word(number));
            W::branch(number + 1 < queues.len());
        }
        W::jump();
    }
    order
}

/// The line of a request, and the patterns that choose a server.
const REQUEST: &[u8] = b"GET /shop/images/2005/medea/cover-large.png?size=640 HTTP/1.1";
const PATTERNS: [&[u8]; 6] = [b".cgi", b"/admin/", b"/images/", b".png", b"/video/", b"HTTP/1."];

/// Returns the place of each pattern's first occurrence.
fn find<W: Word>(text: &[u8], patterns: &[&[u8]]) -> Vec<Option<usize>> {
    let place = |(number, pattern): (usize, &&[u8])| {
        for at in 0..=text.len() - pattern.len() {
            let (mut words, mut same) = (None, 0);
            while same < pattern.len() {
                let wanted = W::lookup("patterns", 64 * number, pattern, W::imm(same as u32));
                let differs = (byte::<W>(&mut words, text, at + same) ^ wanted).bits() != 0;
                W::choose(differs);
                if differs {
                    break;
                }
                same += 1;
                W::branch(same < pattern.len());
            }
            if same == pattern.len() {
                return Some(at);
            }
            W::branch(at < text.len() - pattern.len());
        }
        None
    };
    patterns.iter().enumerate().map(place).collect()
}

/// The entries of the dictionary, of which as many codes are given at most, and of the table in which they are sought.
const CODES_MAX: u32 = 4096;
const SLOTS: usize = 1 << 13;

/// Returns the codes of LZW (Welch, Computer 1984): those of strings below 256 are their bytes, no more are given than
/// [`CODES_MAX`].
fn compress<W: Word>(bytes: &[u8]) -> Vec<u32> {
    const KEYS: &str = "strings";
    const CODES: &str = "codes";
    let (mut keys, mut codes) = (vec![0_u32; SLOTS], vec![0_u32; SLOTS]);
    let (mut next, mut words) = (W::imm(256), None);
    let mut out = Vec::new();
    let Some(_) = bytes.first() else { return out };
    let mut prefix = byte::<W>(&mut words, bytes, 0);
    for at in 1..bytes.len() {
        let byte = byte(&mut words, bytes, at);
        // A key is never 0: a string of two has a code before its last byte, and the table has one more.
        let key = (prefix.shl(8) | byte) + W::imm(1);
        let mut slot = (byte.shl(5) ^ prefix) & W::imm(SLOTS as u32 - 1);
        let found = loop {
            let known = W::lookup(KEYS, 0, &keys, slot);
            let is_it = (known ^ key).bits() == 0;
            W::choose(is_it);
            if is_it {
                break Some(W::lookup(CODES, 0, &codes, slot));
            }
            W::choose(known.bits() == 0);
            if known.bits() == 0 {
                break None;
            }
            slot = (slot + W::imm(1)) & W::imm(SLOTS as u32 - 1);
            W::jump();
        };
        if let Some(code) = found {
            prefix = code;
        } else {
            out.push(prefix.store(Region::Message.word(out.len())));
            let is_full = next.bits() == CODES_MAX;
            W::choose(is_full);
            if !is_full {
                let at = slot.bits() as usize;
                keys[at] = key.store(Region::Table(KEYS).word(at));
                codes[at] = next.store(Region::Table(CODES).word(at));
                next = next + W::imm(1);
            }
            prefix = byte;
        }
        W::branch(at + 1 < bytes.len());
    }
    out.push(prefix.store(Region::Message.word(out.len())));
    out
}

/// A frame of 1,500 bytes.
fn content() -> Vec<u8> {
    crate::mix::message(1500)
}

/// A text that repeats itself, as logs do.
fn text() -> Vec<u8> {
    let line = |at: u32| format!("host{} GET /images/{}.png 200 {}\n", at % 7, at % 13, 1000 + at * 37 % 500);
    (0..48).flat_map(|at| line(at).into_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::word::Plain;
    use std::collections::HashMap;

    #[test]
    fn a_checksum_is_that_of_ethernet() {
        assert_eq!(crc::<Plain>(b"123456789"), 0xcbf4_3926);
        let mut bits = u32::MAX;
        for byte in content() {
            bits ^= u32::from(byte);
            (0..8).for_each(|_| bits = if bits & 1 == 1 { (bits >> 1) ^ POLYNOMIAL } else { bits >> 1 });
        }
        assert_eq!(crc::<Plain>(&content()), !bits);
    }

    #[test]
    fn a_route_is_the_longest_prefix() {
        for at in 0..1000 {
            let address = address(at) ^ (at << 3);
            let fits = |(prefix, bits, _): &&(u32, u32, u32)| {
                *bits == 0 || address >> (32 - bits) == prefix >> (32 - bits)
            };
            let longest = ROUTES.iter().filter(fits).max_by_key(|(_, bits, _)| *bits).unwrap();
            assert_eq!(route::<Plain>(&ROUTES, address), longest.2, "{address:#x}");
        }
    }

    #[test]
    fn queues_send_the_same_bytes_in_the_long_run() {
        let queues = queues();
        let order = deficit_round_robin::<Plain>(&queues);
        assert_eq!(order.len(), queues.iter().map(Vec::len).sum::<usize>());
        // While all have packets, no queue is ahead of another by more than a packet and a quantum.
        let (mut sent, mut heads) = ([0_u32; 8], [0; 8]);
        for &queue in &order {
            sent[queue] += queues[queue][heads[queue]];
            heads[queue] += 1;
            if heads.iter().zip(&queues).any(|(head, queue)| *head == queue.len()) {
                break;
            }
            let [least, most] = [sent.iter().min(), sent.iter().max()].map(|found| *found.unwrap());
            assert!(most - least <= 1500 + 2 * QUANTUM, "{sent:?}");
        }
    }

    #[test]
    fn patterns_are_found_where_they_are() {
        let text = std::str::from_utf8(REQUEST).unwrap();
        let wanted = PATTERNS.map(|pattern| text.find(std::str::from_utf8(pattern).unwrap()));
        assert_eq!(find::<Plain>(REQUEST, &PATTERNS), wanted);
        assert!(wanted.iter().any(Option::is_some) && wanted.contains(&None));
    }

    #[test]
    fn codes_are_those_of_lzw() {
        for bytes in [text(), content(), b"TOBEORNOTTOBEORTOBEORNOT".to_vec(), vec![0; 300], Vec::new()] {
            let mut known: HashMap<Vec<u8>, u32> =
                (0..=255).map(|byte| (vec![byte], u32::from(byte))).collect();
            let (mut wanted, mut prefix) = (Vec::new(), Vec::new());
            for &byte in &bytes {
                let longer = [&prefix[..], &[byte]].concat();
                if known.contains_key(&longer) {
                    prefix = longer;
                    continue;
                }
                wanted.push(known[&prefix]);
                if known.len() < CODES_MAX as usize {
                    known.insert(longer, known.len() as u32);
                }
                prefix = vec![byte];
            }
            wanted.extend((!prefix.is_empty()).then(|| known[&prefix]));
            assert_eq!(compress::<Plain>(&bytes), wanted);
        }
    }

    /// With the counting word each does the same, and something of each kind.
    #[test]
    fn every_kernel_has_a_mix() {
        for kernel in PACKET_KERNELS {
            let mix = kernel.mix();
            assert!(mix.simple_alu > 0 && mix.load > 0 && mix.branch > 0, "{}: {mix:?}", kernel.name);
            assert_eq!(mix.complex_alu, 0, "{}: {mix:?}", kernel.name);
        }
    }
}
