//! Questions whose answers take a look at all keys or clients: lists and statuses. They have a thread of their own, so that no
//! client waits while others ask.
//!
//! **Guarantees:** users are answered in turn ([`crate::queue`]), and beyond its credit one user's answers take at most its share
//! of a processor, which others get before them; each connection has one question at a time, and none is answered for a
//! connection that is gone.

use crate::inquiry::{Facts, Inquiry};
use crate::priority::step_back;
use crate::queue::{Allowance, Queue};
use crate::scheduler::Id;
use crate::workers::{Shared, ring};
use sealane_client::setup::Told;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The processor time that answers to one user may take.
const ALLOWANCE: Allowance = Allowance { credit: Duration::from_millis(20), share: 20 };

#[derive(Debug)]
struct Desk {
    queue: Mutex<Queue<u32, Inquiry>>,
    came: Condvar,
    is_over: AtomicBool,
}

impl Desk {
    fn queue(&self) -> MutexGuard<'_, Queue<u32, Inquiry>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the next question; returns `None` at the end.
    fn take(&self) -> Option<(u32, Inquiry)> {
        let mut queue = self.queue();
        loop {
            if self.is_over.load(Relaxed) {
                return None;
            }
            queue = match queue.next(Instant::now()) {
                Ok(found) => return Some(found),
                Err(None) => self.came.wait(queue).unwrap_or_else(PoisonError::into_inner),
                Err(Some(pause)) => {
                    self.came.wait_timeout(queue, pause).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }
}

/// The thread of the questions. It ends when this is dropped, after its present answer.
#[derive(Debug)]
pub(crate) struct Inquiries {
    desk: Arc<Desk>,
    done: Receiver<(Id, Told)>,
}

impl Inquiries {
    /// Starts the thread, which rings the set-up thread after each answer.
    pub(crate) fn start(shared: &Arc<Shared>, facts: Facts) -> io::Result<Self> {
        let (tell, done) = channel();
        let (queue, came, is_over) =
            (Mutex::new(Queue::new(ALLOWANCE)), Condvar::new(), AtomicBool::new(false));
        let desk = Arc::new(Desk { queue, came, is_over });
        let (own, shared) = (Arc::clone(&desk), Arc::clone(shared));
        thread::Builder::new().name("engine-inquiries".to_owned()).spawn(move || {
            step_back();
            while let Some((user, inquiry)) = own.take() {
                let start = Instant::now();
                let told = inquiry.answer(&shared, &facts);
                let id = inquiry.id;
                drop(inquiry);
                own.queue().charge(user, start.elapsed(), start);
                if tell.send((id, told)).is_err() {
                    return;
                }
                ring(&shared.control);
            }
        })?;
        Ok(Self { desk, done })
    }

    pub(crate) fn add(&self, inquiry: Inquiry) {
        self.desk.queue().add(inquiry.user, inquiry);
        self.desk.came.notify_one();
    }

    /// Removes the question of a connection that is gone.
    pub(crate) fn forget(&self, user: u32, id: Id) {
        self.desk.queue().retain(user, |inquiry| inquiry.id != id);
    }

    pub(crate) fn done(&self) -> Option<(Id, Told)> {
        self.done.try_recv().ok()
    }
}

impl Drop for Inquiries {
    fn drop(&mut self) {
        // Under the lock, so that the thread does not miss it on its way to sleep.
        let queue = self.desk.queue();
        self.desk.is_over.store(true, Relaxed);
        drop(queue);
        self.desk.came.notify_one();
    }
}
