//! A proxy that knows the format of a data stream. It forwards, and cuts, stalls or alters on request.
//!
//! A client asks for data streams at the address where it reached the daemon, on the daemon's port. The proxy therefore
//! listens on the same port of another address of this host.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

const DATA_FIRST_BYTE: u8 = 0xD5;
const JOIN_BYTES: usize = 54;
const JOINED_BYTES: usize = 29;
/// Kind, three bytes of length, file, offset.
pub(crate) const HEADER_BYTES: usize = 16;

/// The direction of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// From the client to the daemon.
    Up,
    /// From the daemon to the client.
    Down,
}

/// The place at which a record was seen.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spot {
    /// Number of the connection, counted over all.
    pub(crate) link: usize,
    /// Number of the parallel stream.
    pub(crate) stream: u16,
    pub(crate) way: Way,
    /// Number of the record on its connection in its direction.
    pub(crate) index: u64,
}

/// The fate of a record.
#[derive(Debug)]
pub(crate) enum Pass {
    /// These bytes are sent in its place.
    On(Vec<u8>),
    /// These bytes are sent, then the connection ends.
    Close(Vec<u8>),
}

/// An attacker between the two ends.
pub(crate) trait Tamper: Send + Sync {
    /// Handles the greeting of a data stream, in either direction.
    fn greeting(&self, _spot: Spot, _bytes: &mut Vec<u8>) {}
    /// Handles a record.
    fn record(&self, spot: Spot, record: Vec<u8>) -> Pass;
}

#[derive(Debug)]
struct Link {
    data: bool,
    client: TcpStream,
    daemon: TcpStream,
    stalled: Arc<AtomicBool>,
    /// A reference that each thread holds as long as it serves the connection.
    carried: Arc<()>,
}

impl Link {
    fn cut(&self) {
        // These fail only if the connection has already ended.
        let _ = self.client.shutdown(Shutdown::Both);
        let _ = self.daemon.shutdown(Shutdown::Both);
    }
}

#[derive(Default)]
struct State {
    links: Mutex<Vec<Link>>,
    /// Whether new data streams are stalled from the start.
    stall_all: AtomicBool,
    /// Whether data streams are opened, and carry nothing after that.
    choked: AtomicBool,
    closed: AtomicBool,
    tamper: Option<Arc<dyn Tamper>>,
}

/// A proxy in front of a daemon.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    state: Arc<State>,
}

impl Proxy {
    /// Starts a proxy that forwards everything to `daemon`, after `tamper` has seen it.
    pub(crate) fn start(daemon: SocketAddr, tamper: Option<Arc<dyn Tamper>>) -> Self {
        let address = SocketAddr::from((Ipv4Addr::new(127, 0, 0, 2), daemon.port()));
        let listener = TcpListener::bind(address).expect("the same port of another address is free");
        let state = Arc::new(State { tamper, ..State::default() });
        thread::spawn({
            let state = state.clone();
            move || {
                for client in listener.incoming().flatten() {
                    if state.closed.load(SeqCst) {
                        return;
                    }
                    let state = state.clone();
                    // The end of a connection is not a failure of the proxy.
                    thread::spawn(move || drop(carry(&state, client, daemon)));
                }
            }
        });
        Self { address, state }
    }

    fn links(&self) -> std::sync::MutexGuard<'_, Vec<Link>> {
        self.state.links.lock().expect("nothing panics here")
    }

    /// Cuts the data streams that `chosen` selects. Returns their number.
    pub(crate) fn cut_data(&self, mut chosen: impl FnMut() -> bool) -> usize {
        let links = self.links();
        links.iter().filter(|link| link.data && chosen()).map(Link::cut).count()
    }

    /// Cuts the control connections.
    pub(crate) fn cut_control(&self) {
        self.links().iter().filter(|link| !link.data).for_each(Link::cut);
    }

    /// Stops forwarding on the existing data streams, and with `new` on later ones.
    pub(crate) fn stall_data(&self, new: bool) {
        self.state.stall_all.store(new, SeqCst);
        self.links().iter().filter(|link| link.data).for_each(|link| link.stalled.store(true, SeqCst));
    }

    /// From now on lets the greetings of data streams pass, and nothing that follows them.
    pub(crate) fn choke_data(&self) {
        self.state.choked.store(true, SeqCst);
    }

    /// Ends the data streams at the daemon only; the client is not notified.
    pub(crate) fn cut_data_silently(&self) -> usize {
        let links = self.links();
        let data = links.iter().filter(|link| link.data);
        data.map(|link| {
            link.stalled.store(true, SeqCst);
            // This fails only if the connection has already ended.
            let _ = link.daemon.shutdown(Shutdown::Both);
        })
        .count()
    }

    /// Returns the number of data streams opened so far.
    pub(crate) fn data_streams(&self) -> usize {
        self.links().iter().filter(|link| link.data).count()
    }

    /// Cuts all connections, and forgets them: no record of theirs is seen any more.
    pub(crate) fn reset(&self) {
        self.state.stall_all.store(false, SeqCst);
        self.state.choked.store(false, SeqCst);
        let links: Vec<_> = self.links().drain(..).collect();
        for link in &links {
            link.stalled.store(false, SeqCst);
            link.cut();
        }
        // The threads of a connection may still forward buffered bytes after it was cut.
        while links.iter().any(|link| Arc::strong_count(&link.carried) > 1) {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.state.closed.store(true, SeqCst);
        self.reset();
        // This wakes the thread that accepts.
        let _ = TcpStream::connect(self.address);
    }
}

fn is_choked(state: &State, data: bool, passed: usize, greeting_bytes: usize) -> bool {
    data && passed >= greeting_bytes && state.choked.load(SeqCst)
}

fn carry(state: &Arc<State>, mut client: TcpStream, daemon: SocketAddr) -> io::Result<()> {
    let mut first = [0];
    client.read_exact(&mut first)?;
    let mut upstream = TcpStream::connect(daemon)?;
    client.set_nodelay(true)?;
    upstream.set_nodelay(true)?;
    let data = first[0] == DATA_FIRST_BYTE;
    let stalled = Arc::new(AtomicBool::new(data && state.stall_all.load(SeqCst)));
    let carried = Arc::new(());
    let link = {
        let mut links = state.links.lock().expect("nothing panics here");
        let entry = Link {
            data,
            client: client.try_clone()?,
            daemon: upstream.try_clone()?,
            stalled: stalled.clone(),
            carried: carried.clone(),
        };
        links.push(entry);
        links.len() - 1
    };
    let (back_from, back_to) = (upstream.try_clone()?, client.try_clone()?);
    let Some(tamper) = state.tamper.clone().filter(|_| data) else {
        upstream.write_all(&first)?;
        let back = thread::spawn({
            let (state, stalled) = (state.clone(), stalled.clone());
            move || pump(back_from, back_to, &stalled, |passed| is_choked(&state, data, passed, JOINED_BYTES))
        });
        pump(client, upstream, &stalled, |passed| is_choked(state, data, passed, JOIN_BYTES - 1));
        let _ = back.join();
        return Ok(());
    };
    let mut join = vec![first[0]; JOIN_BYTES];
    client.read_exact(&mut join[1..])?;
    let stream = u16::from_le_bytes([join[20], join[21]]);
    let up = Spot { link, stream, way: Way::Up, index: 0 };
    let down = Spot { way: Way::Down, ..up };
    tamper.greeting(up, &mut join);
    upstream.write_all(&join)?;
    let back = thread::spawn({
        let tamper = tamper.clone();
        move || {
            let mut joined = vec![0; JOINED_BYTES];
            let (mut from, mut to) = (back_from, back_to);
            if from.read_exact(&mut joined).is_ok() {
                tamper.greeting(down, &mut joined);
                let _ = to.write_all(&joined).and_then(|()| alter(&mut from, &mut to, down, &*tamper));
            }
            hang_up(&from, &to);
        }
    });
    let _ = alter(&mut client, &mut upstream, up, &*tamper);
    hang_up(&client, &upstream);
    let _ = back.join();
    Ok(())
}

/// Forwards bytes; `is_choked` gets the number of bytes that have passed.
fn pump(mut from: TcpStream, mut to: TcpStream, stalled: &AtomicBool, is_choked: impl Fn(usize) -> bool) {
    let mut bytes = vec![0; 64 * 1024];
    let mut passed = 0;
    loop {
        let read = from.read(&mut bytes);
        // Neither received bytes nor the end of the stream are forwarded.
        while stalled.load(SeqCst) || is_choked(passed) {
            thread::sleep(Duration::from_millis(10));
        }
        let Ok(count @ 1..) = read else { break };
        passed += count;
        if to.write_all(&bytes[..count]).is_err() {
            let _ = from.shutdown(Shutdown::Both);
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

/// Bytes on their way still arrive; the rest of the connection is over.
fn hang_up(from: &TcpStream, to: &TcpStream) {
    let _ = to.shutdown(Shutdown::Write);
    let _ = from.shutdown(Shutdown::Read);
}

/// Forwards record by record until the connection ends.
fn alter(from: &mut TcpStream, to: &mut TcpStream, mut spot: Spot, tamper: &dyn Tamper) -> io::Result<()> {
    loop {
        let mut record = vec![0; HEADER_BYTES];
        from.read_exact(&mut record)?;
        let body = u32::from_le_bytes([record[1], record[2], record[3], 0]) as usize;
        record.resize(HEADER_BYTES + body, 0);
        from.read_exact(&mut record[HEADER_BYTES..])?;
        match tamper.record(spot, record) {
            Pass::On(bytes) => to.write_all(&bytes)?,
            Pass::Close(bytes) => {
                let _ = to.write_all(&bytes);
                to.shutdown(Shutdown::Both)?;
                return from.shutdown(Shutdown::Both);
            }
        }
        spot.index += 1;
    }
}
