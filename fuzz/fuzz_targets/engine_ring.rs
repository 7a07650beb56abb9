//! Rings whose other end writes to them at any time and as it likes: nothing is read or copied beyond the limits of a
//! message, and messages that an honest end has pushed come back unchanged.

#![no_main]

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};

use libfuzzer_sys::fuzz_target;
use sealane_client::Operation;
use sealane_client::ring::{Consumer, Direction, Head, MESSAGE_BYTES_MAX, Producer, SLOTS, WORDS, Words};

struct Memory(Box<[AtomicU64; WORDS]>);

impl Words for Memory {
    fn words(&self) -> &[AtomicU64; WORDS] {
        &self.0
    }
}

thread_local! {
    static MEMORY: RefCell<Memory> = RefCell::new(Memory({
        let words: Vec<AtomicU64> = (0..WORDS).map(|_| AtomicU64::new(0)).collect();
        words.into_boxed_slice().try_into().expect("as many as asked for")
    }));
}

/// Each step is an action, a place and a value.
fn run(memory: &Memory, steps: &[u8]) {
    memory.words().iter().for_each(|word| word.store(0, Ordering::Relaxed));
    let (mut producer, mut consumer) =
        (Producer::new(Direction::Requests), Consumer::new(Direction::Requests));
    let mut content = Vec::new();
    let mut is_honest = true;
    let mut pushed = std::collections::VecDeque::new();
    for step in steps.chunks_exact(8) {
        let place = u16::from_le_bytes([step[1], step[2]]);
        let value = u32::from_le_bytes([step[3], step[4], step[5], step[6]]);
        match step[0] % 6 {
            0 => {
                is_honest = false;
                let at = if place % 2 == 0 {
                    [0, 16, 32, 33, 34][step[7] as usize % 5]
                } else {
                    usize::from(place) % WORDS
                };
                // Some words are small, as counts are; some are near the largest possible count.
                let word = if step[7] % 3 == 0 { u64::from(value % 256) } else { !u64::from(value) };
                memory.words()[at].store(word, Ordering::Relaxed);
            }
            1 => {
                let text = vec![step[7]; usize::from(place) % (MESSAGE_BYTES_MAX + 9)];
                let head = Head { tag: u64::from(value), code: value, key: 1, parameters: value };
                if producer.push(memory, head, &text).is_ok() {
                    pushed.push_back((head, text));
                }
                producer.publish(memory);
            }
            2 => match consumer.take(memory, &mut content, step[7] % 2 == 0) {
                Ok(Some(head)) => {
                    assert!(content.len() <= MESSAGE_BYTES_MAX);
                    if let Some(operation) = Operation::of_numbers(head.code, head.parameters) {
                        assert_eq!(operation.to_numbers(), (head.code, head.parameters));
                    }
                    if is_honest {
                        assert_eq!(pushed.pop_front(), Some((head, content.clone())));
                    }
                    consumer.release(memory);
                }
                Ok(None) => assert!(!is_honest || pushed.is_empty()),
                // The ring is given up, as the service does.
                Err(_) => {
                    assert!(!is_honest);
                    return;
                }
            },
            3 => producer.prepare(memory),
            4 => match consumer
                .check(memory)
                .and_then(|()| Ok((consumer.next(memory)?, consumer.waiting(memory)?)))
            {
                Ok((next, waiting)) => {
                    assert!(waiting <= SLOTS);
                    if is_honest {
                        assert_eq!(next, pushed.front().map(|(head, text)| (head.code, text.len())));
                    }
                }
                Err(_) => {
                    assert!(!is_honest);
                    return;
                }
            },
            _ => match producer.free(memory) {
                Ok(free) => assert!(free <= SLOTS),
                Err(_) => {
                    assert!(!is_honest);
                    return;
                }
            },
        }
    }
}

fuzz_target!(|steps: &[u8]| {
    MEMORY.with_borrow(|memory| run(memory, steps));
});
