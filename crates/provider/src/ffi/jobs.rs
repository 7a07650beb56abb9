//! ASYNC_start_job(3): a program that runs its handshakes as jobs goes on with others while the service computes.
//!
//! The functions belong to libcrypto, which every such program has loaded; they are looked up by name, because the
//! libraries of OpenSSL 3 and 4 have different names. A job waits at an eventfd(2) from a pool. The descriptor stays
//! open and bound to its wait context until the context ends: event loops such as HAProxy's keep it registered that
//! long. **Guarantee:** without a job, a descriptor or these functions the caller waits by itself.

#![allow(unsafe_code)]

use rustix::event::{EventfdFlags, eventfd};
use std::cell::Cell;
use std::ffi::{CStr, c_int, c_void};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::ptr::null_mut;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Wake, Waker};

/// The maximum number of descriptors in the pool.
const SLOTS_MAX: usize = 1024;

type Cleanup = unsafe extern "C" fn(*mut c_void, *const c_void, c_int, *mut c_void);

#[derive(Clone, Copy)]
struct Functions {
    current_job: unsafe extern "C" fn() -> *mut c_void,
    wait_context: unsafe extern "C" fn(*mut c_void) -> *mut c_void,
    pause: unsafe extern "C" fn() -> c_int,
    get_fd: unsafe extern "C" fn(*mut c_void, *const c_void, *mut c_int, *mut *mut c_void) -> c_int,
    set_fd: unsafe extern "C" fn(*mut c_void, *const c_void, c_int, *mut c_void, Option<Cleanup>) -> c_int,
}

fn functions() -> Option<Functions> {
    static FOUND: OnceLock<Option<Functions>> = OnceLock::new();
    *FOUND.get_or_init(|| {
        // SAFETY: dlsym(3) takes a string; each function has had its type since OpenSSL 1.1.0.
        let find = |name: &CStr| unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
        // SAFETY: each function has had its type since OpenSSL 1.1.0; null becomes `None`.
        unsafe {
            Some(Functions {
                current_job: std::mem::transmute::<*mut c_void, Option<_>>(find(c"ASYNC_get_current_job"))?,
                wait_context: std::mem::transmute::<*mut c_void, Option<_>>(find(c"ASYNC_get_wait_ctx"))?,
                pause: std::mem::transmute::<*mut c_void, Option<_>>(find(c"ASYNC_pause_job"))?,
                get_fd: std::mem::transmute::<*mut c_void, Option<_>>(find(c"ASYNC_WAIT_CTX_get_fd"))?,
                set_fd: std::mem::transmute::<*mut c_void, Option<_>>(find(c"ASYNC_WAIT_CTX_set_wait_fd"))?,
            })
        }
    })
}

/// A descriptor at which a job waits.
#[derive(Debug)]
struct Slot(OwnedFd);

impl Wake for Slot {
    fn wake(self: Arc<Self>) {
        // A counter that is full wakes as well.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }
}

#[derive(Debug, Default)]
struct Pool {
    /// The process that made the descriptors; a child process shares them with it, and therefore makes its own.
    process: u32,
    free: Vec<Arc<Slot>>,
    made: usize,
}

static POOL: Mutex<Pool> = Mutex::new(Pool { process: 0, free: Vec::new(), made: 0 });

fn take_slot() -> Option<Arc<Slot>> {
    let mut pool = POOL.lock().unwrap_or_else(PoisonError::into_inner);
    let process = std::process::id();
    if pool.process != process {
        *pool = Pool { process, ..Pool::default() };
    }
    if let Some(slot) = pool.free.pop() {
        return Some(slot);
    }
    if pool.made >= SLOTS_MAX {
        return None;
    }
    let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).ok()?;
    pool.made += 1;
    Some(Arc::new(Slot(fd)))
}

/// Returns a descriptor to the pool; OpenSSL calls it when a wait context ends.
///
/// # Safety
/// OpenSSL calls it, as the cleanup that [`Job::bind`] gave to a wait context: `slot` is the counted
/// reference that was given with it, is not null, and is used by nobody afterwards.
unsafe extern "C" fn give_slot_back(_: *mut c_void, _: *const c_void, _: c_int, slot: *mut c_void) {
    // SAFETY: `Job::current` has made the pointer from a counted reference, for this one call.
    put_back(unsafe { Arc::from_raw(slot.cast::<Slot>()) });
}

fn put_back(slot: Arc<Slot>) {
    let mut pool = POOL.lock().unwrap_or_else(PoisonError::into_inner);
    if pool.process == std::process::id() && pool.free.len() < SLOTS_MAX {
        pool.free.push(slot);
    }
}

/// Returns whether this code runs in an OpenSSL job.
pub(crate) fn is_in_job() -> bool {
    // SAFETY: this is OpenSSL's function, called as documented.
    functions().is_some_and(|functions| !unsafe { (functions.current_job)() }.is_null())
}

/// The key of the provider's descriptor in a wait context: the address of a constant.
fn key() -> *const c_void {
    static KEY: u8 = 0;
    (&raw const KEY).cast()
}

/// The OpenSSL job in which this code runs.
pub(crate) struct Job {
    functions: Functions,
    context: *mut c_void,
    slot: Arc<Slot>,
    /// Whether the wait context has the descriptor. It gets it before the first pause, and not without one: HAProxy ends itself when it
    /// finds a descriptor that no pause has shown to it.
    is_bound: Cell<bool>,
}

impl Drop for Job {
    fn drop(&mut self) {
        if !self.is_bound.get() {
            put_back(Arc::clone(&self.slot));
        }
    }
}

impl Job {
    /// Returns the present job; `None` outside of jobs.
    pub(crate) fn current() -> Option<Self> {
        let functions = functions()?;
        // SAFETY: these are OpenSSL's functions, called as documented: the wait context lives as long as the job, and the slot's
        // reference belongs to the context until its cleanup.
        unsafe {
            let job = (functions.current_job)();
            if job.is_null() {
                return None;
            }
            let context = (functions.wait_context)(job);
            if context.is_null() {
                return None;
            }
            let (mut fd, mut found) = (0, null_mut());
            if (functions.get_fd)(context, key(), &mut fd, &mut found) == 1 && !found.is_null() {
                Arc::increment_strong_count(found.cast::<Slot>());
                let slot = Arc::from_raw(found.cast::<Slot>());
                return Some(Self { functions, context, slot, is_bound: Cell::new(true) });
            }
            Some(Self { functions, context, slot: take_slot()?, is_bound: Cell::new(false) })
        }
    }

    /// Gives the descriptor to the wait context, unless it has it.
    fn bind(&self) -> bool {
        if !self.is_bound.get() {
            let raw = Arc::into_raw(Arc::clone(&self.slot)).cast_mut().cast();
            let fd = self.slot.0.as_raw_fd();
            // SAFETY: these are OpenSSL's functions, called as documented: the wait context lives as long as
            // the job; the reference is given to it, and it returns that by the cleanup.
            let is_set =
                unsafe { (self.functions.set_fd)(self.context, key(), fd, raw, Some(give_slot_back)) } == 1;
            if !is_set {
                // SAFETY: the context has not taken the reference.
                drop(unsafe { Arc::from_raw(raw.cast::<Slot>()) });
            }
            self.is_bound.set(is_set);
        }
        self.is_bound.get()
    }

    /// Returns a waker that wakes the job by its descriptor.
    pub(crate) fn waker(&self) -> Waker {
        Waker::from(Arc::clone(&self.slot))
    }

    /// Lets the program go on with other work until the job is woken; returns false if it cannot.
    pub(crate) fn pause(&self) -> bool {
        // SAFETY: this is called within a job; no lock and no borrowed value of a thread is held meanwhile.
        let paused = self.bind() && unsafe { (self.functions.pause)() } == 1;
        let _ = rustix::io::read(&self.slot.0, &mut [0u8; 8]);
        paused
    }
}
