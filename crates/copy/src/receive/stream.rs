//! One data stream at its receiving end.
//!
//! Guarantees: no byte of a record is handed on before its tag is verified; records are counted as taken in
//! the order of the stream, whatever lane finished them first; a new connection is answered only when every
//! record of the old one is settled.

use std::{
    sync::{
        Arc, Condvar, Mutex, MutexGuard,
        atomic::{AtomicU8, Ordering::SeqCst},
    },
    time::Duration,
};

use sealane_engine::{
    Buffer, Direction, Suite,
    record::{Batch, Job, JobStatus, Runner},
};
use sealane_stack::{Association, Claim, OrderRing, Pool};

use crate::{
    line::LineError,
    proto::{
        keys::{TransferKeys, Way},
        record::{DATA_BYTES_MAX, HEADER_BYTES, Header, Kind, seal, split_records},
    },
    shared::Stop,
    socket::Socket,
};

/// Records after which an acknowledgement is due; an idle stream is acknowledged at once.
const RECORDS_PER_ACKNOWLEDGEMENT: u64 = 32;

#[derive(Debug)]
struct Input {
    generation: u32,
    socket: Option<Arc<Socket>>,
    association: Option<Association>,
    /// Holds the beginning of a record that has not arrived in full.
    buffer: Option<Buffer>,
    filled: usize,
    next_ticket: u64,
    /// Whether the socket wakes a lane for no less than [`bulk_bytes`].
    patient: bool,
}

/// What a stream that fills its buffers lets a lane sleep for: every waking costs a context switch, and on another core
/// an interrupt.
fn bulk_bytes(buffer: &Buffer) -> usize {
    buffer.capacity_bytes() / DATA_BYTES_MAX * DATA_BYTES_MAX
}

#[derive(Debug)]
struct Output {
    association: Option<Association>,
    ring: OrderRing<u64>,
    in_flight: usize,
    /// Threads that wait for something of this to change.
    waiting: usize,
    taken: u64,
    acknowledged: u64,
    /// An acknowledgement that the socket has not taken in full.
    unsent: Vec<u8>,
}

/// One data stream.
#[derive(Debug)]
pub(crate) struct ReceiveStream {
    index: u16,
    suite: Suite,
    /// Count records without opening them (laboratory: the sender is measured).
    blind: bool,
    input: Mutex<Input>,
    output: Mutex<Output>,
    settled: Condvar,
    /// How often smaller segments are to be tried.
    narrowed: AtomicU8,
}

/// Whole records, opened.
#[derive(Debug)]
pub(crate) struct Arrived {
    pub(crate) batch: Batch,
    pub(crate) headers: Vec<Header>,
    ticket: u64,
    records_end: u64,
}

/// What a look at a stream gave.
#[derive(Debug)]
pub(crate) enum Look {
    /// Records.
    Records(Arrived),
    /// Nothing for now.
    Nothing,
}

impl ReceiveStream {
    /// A stream without a connection. At most `in_flight` batches are worked on at once.
    pub(crate) fn new(index: u16, suite: Suite, in_flight: usize, blind: bool) -> Self {
        Self {
            index,
            suite,
            blind,
            input: Mutex::new(Input {
                generation: 0,
                socket: None,
                association: None,
                buffer: None,
                filled: 0,
                next_ticket: 0,
                patient: false,
            }),
            output: Mutex::new(Output {
                association: None,
                ring: OrderRing::new(0, in_flight),
                in_flight: 0,
                waiting: 0,
                taken: 0,
                acknowledged: 0,
                unsent: Vec::new(),
            }),
            settled: Condvar::new(),
            narrowed: AtomicU8::new(0),
        }
    }

    fn input(&self) -> MutexGuard<'_, Input> {
        self.input.lock().expect("no lane panics holding a stream's input")
    }

    fn output(&self) -> MutexGuard<'_, Output> {
        self.output.lock().expect("no lane panics holding a stream's output")
    }

    /// The connection, for polling.
    pub(crate) fn socket(&self) -> Option<Arc<Socket>> {
        self.input().socket.clone()
    }

    /// Number of the opening that is or was in force.
    pub(crate) fn generation(&self) -> u32 {
        self.input().generation
    }

    /// How often smaller segments are to be tried.
    pub(crate) fn narrowed(&self) -> u8 {
        self.narrowed.load(SeqCst)
    }

    /// What the sender sends does not arrive here; smaller segments may.
    pub(crate) fn narrow(&self, times: u8) {
        self.narrowed.fetch_max(times, SeqCst);
    }

    /// Ends this opening's connection; the lane that looks next finds it cut.
    pub(crate) fn hang_up(&self, generation: u32) {
        let input = self.input();
        if let (true, Some(socket)) = (input.generation == generation, &input.socket) {
            socket.shutdown();
        }
    }

    /// Takes the connection away and returns how many of its records were taken over, once every lane that
    /// works on some has finished.
    pub(crate) fn cut(&self, pool: &Pool) -> u64 {
        {
            let mut input = self.input();
            if let Some(socket) = input.socket.take() {
                socket.shutdown();
            }
            input.association = None;
            input.filled = 0;
            if let Some(buffer) = input.buffer.take() {
                pool.give(buffer);
            }
        }
        self.wait_until(Duration::from_secs(1), |output| output.in_flight == 0).taken
    }

    /// Puts a fresh connection in place, after [`Self::cut`].
    pub(crate) fn open(&self, keys: &TransferKeys, generation: u32, socket: Socket) {
        let mut input = self.input();
        let mut output = self.output();
        input.generation = generation;
        input.association = Some(keys.stream(self.suite, self.index, generation, Way::Forward));
        input.socket = Some(Arc::new(socket));
        input.next_ticket = 0;
        input.patient = false;
        let capacity = output.ring.capacity();
        *output = Output {
            association: Some(keys.stream(self.suite, self.index, generation, Way::Backward)),
            ring: OrderRing::new(0, capacity),
            in_flight: 0,
            waiting: output.waiting,
            taken: 0,
            acknowledged: 0,
            unsent: Vec::new(),
        };
    }

    /// Receives what is there and finds the records that are complete.
    pub(crate) fn look(&self, pool: &Pool) -> Result<Look, LineError> {
        let mut input = self.input();
        let input = &mut *input;
        let Some(socket) = input.socket.clone() else { return Ok(Look::Nothing) };
        if !self.output().ring.admits(input.next_ticket) {
            return Ok(Look::Nothing);
        }
        let mut buffer = match input.buffer.take() {
            Some(buffer) => buffer,
            None => match pool.take() {
                Some(buffer) => buffer,
                None => return Ok(Look::Nothing),
            },
        };
        let mut ended = false;
        match socket.try_recv(&mut buffer.bytes_mut()[input.filled..]) {
            Ok(None) => {}
            Ok(Some(0)) => ended = true,
            Ok(Some(received)) => input.filled += received,
            Err(error) => {
                // Its bytes stay with their count: another lane may look before the stream is cut.
                input.buffer = Some(buffer);
                return Err(error.into());
            }
        }
        if input.filled == buffer.capacity_bytes() && !input.patient {
            socket.wake_at(bulk_bytes(&buffer));
            input.patient = true;
        }
        let mut found = Vec::with_capacity(16);
        let split = split_records(&buffer.bytes()[..input.filled], &mut found);
        let whole = split.map_err(|error| LineError::forged(self.index, &error.to_string()))?;
        if found.is_empty() {
            if input.filled == 0 {
                pool.give(buffer);
            } else {
                input.buffer = Some(buffer);
            }
            return if ended { Err(LineError::Cut) } else { Ok(Look::Nothing) };
        }
        // The tail goes to the front of another buffer, so that the next lane can read on.
        let tail = whole..input.filled;
        if tail.is_empty() {
            input.filled = 0;
        } else if let Some(mut next) = pool.take() {
            next.bytes_mut()[..tail.len()].copy_from_slice(&buffer.bytes()[tail.clone()]);
            input.filled = tail.len();
            input.buffer = Some(next);
        } else {
            // Nothing is lost: the records wait in this buffer until another lane gives one back.
            input.buffer = Some(buffer);
            return Ok(Look::Nothing);
        }
        let Some(association) = &mut input.association else { return Ok(Look::Nothing) };
        let claims = association.claim_all(found.len() as u64);
        let records_end = association.next_sequence();
        let ticket = input.next_ticket;
        input.next_ticket += 1;
        self.output().in_flight += 1;
        Ok(Look::Records(arrived(buffer, &found, &claims, ticket, records_end)))
    }

    /// Whether lanes sleep until much has arrived; they must not sleep long then.
    pub(crate) fn is_patient(&self) -> bool {
        self.input().patient
    }

    /// Lets any byte wake a lane again: less came than the stream waited for.
    pub(crate) fn hurry(&self) {
        let mut input = self.input();
        if let (true, Some(socket)) = (core::mem::take(&mut input.patient), &input.socket) {
            socket.wake_at(1);
        }
    }

    /// Verifies and opens the records, on the calling lane.
    pub(crate) fn open_records(
        &self,
        mut arrived: Arrived,
        runner: &mut Runner,
    ) -> Result<Arrived, LineError> {
        if self.blind {
            return Ok(arrived);
        }
        if runner.run(&mut arrived.batch) > 0 {
            return Err(LineError::forged(self.index, "a record that is not authentic"));
        }
        Ok(arrived)
    }

    /// Waits until every record before these on the stream is in place, or the transfer stops. Lanes that share a
    /// stream hold its batches at once, and a batch may need what the one before it announces.
    pub(crate) fn wait_for_earlier(&self, arrived: &Arrived, stop: &Stop) {
        let look_again = Duration::from_millis(100);
        drop(self.wait_until(look_again, |output| output.ring.head() == arrived.ticket || stop.is_set()));
    }

    /// Waits until something is so that changes as batches are settled, or is so at a look after some time.
    fn wait_until(&self, look_again: Duration, is_so: impl Fn(&Output) -> bool) -> MutexGuard<'_, Output> {
        let mut output = self.output();
        while !is_so(&output) {
            output.waiting += 1;
            output = self
                .settled
                .wait_timeout(output, look_again)
                .expect("no lane panics holding a stream's output")
                .0;
            output.waiting -= 1;
        }
        output
    }

    /// Wakes who waits, if anybody does: to wake is a call of the system, whether or not.
    fn tell(&self, output: &Output) {
        if output.waiting > 0 {
            self.settled.notify_all();
        }
    }

    /// The records' content is in place: they count, in order, and are acknowledged when it is time.
    pub(crate) fn taken(&self, arrived: Arrived, pool: &Pool) -> Result<(), LineError> {
        pool.give(arrived.batch.buffer);
        let mut output = self.output();
        output.in_flight -= 1;
        output
            .ring
            .insert(arrived.ticket, arrived.records_end)
            .unwrap_or_else(|_| panic!("tickets are given once, and no more than the ring has room for"));
        while let Some(records_end) = output.ring.pop() {
            output.taken = records_end;
        }
        self.tell(&output);
        let due = output.taken - output.acknowledged >= RECORDS_PER_ACKNOWLEDGEMENT;
        drop(output);
        if due { self.acknowledge() } else { Ok(()) }
    }

    /// The records were not taken over; the transfer is about to fail.
    pub(crate) fn dropped(&self) {
        let mut output = self.output();
        output.in_flight -= 1;
        self.tell(&output);
    }

    /// Tells the sender how far we are, if it does not know.
    pub(crate) fn acknowledge(&self) -> Result<(), LineError> {
        let Some(socket) = self.socket() else { return Ok(()) };
        let mut output = self.output();
        let output = &mut *output;
        if output.unsent.is_empty() && output.taken > output.acknowledged {
            let Some(association) = &mut output.association else { return Ok(()) };
            output.unsent = seal(association, Kind::Acknowledge, 0, output.taken, &[]);
            output.acknowledged = output.taken;
        }
        while !output.unsent.is_empty() {
            match socket.try_send(&output.unsent)? {
                Some(sent) => drop(output.unsent.drain(..sent)),
                None => break,
            }
        }
        Ok(())
    }
}

fn arrived(
    buffer: Buffer,
    found: &[(usize, Header)],
    claims: &[Claim],
    ticket: u64,
    records_end: u64,
) -> Arrived {
    let numbers = claims.iter().flat_map(Claim::numbers);
    let jobs = found
        .iter()
        .zip(numbers)
        .map(|(&(offset, header), (sequence, session))| Job {
            session: session.clone(),
            offset,
            header_bytes: HEADER_BYTES,
            body_bytes: header.body_bytes,
            sequence,
            status: JobStatus::Pending,
        })
        .collect();
    let headers = found.iter().map(|&(_, header)| header).collect();
    Arrived {
        batch: Batch { buffer, jobs, direction: Direction::Open, ticket },
        headers,
        ticket,
        records_end,
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener, TcpStream};
    use std::{io::Write as _, time::Instant};

    use rustix::event::{PollFd, PollFlags};
    use sealane_stack::Secret;

    use super::*;

    const BODY_BYTES: usize = 1000;
    const SOON: Duration = Duration::from_millis(20);

    fn record() -> Vec<u8> {
        let mut record = vec![0; HEADER_BYTES + BODY_BYTES];
        Header { kind: Kind::Data, body_bytes: BODY_BYTES, file: 0, offset: 0 }.encode(&mut record);
        record
    }

    /// Takes what is there off the records that are to come.
    fn take(stream: &ReceiveStream, pool: &Pool, ahead: &mut usize) {
        while let Look::Records(arrived) = stream.look(pool).unwrap() {
            *ahead -= arrived.headers.len();
            stream.taken(arrived, pool).unwrap();
        }
    }

    /// Takes so many records, and finds no more.
    fn take_all(stream: &ReceiveStream, pool: &Pool, mut ahead: usize) {
        let until = Instant::now() + Duration::from_secs(20);
        while ahead > 0 {
            assert!(Instant::now() < until, "records were lost");
            take(stream, pool, &mut ahead);
        }
    }

    #[test]
    fn a_stream_in_bulk_wakes_for_much_until_it_is_hurried() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let keys = TransferKeys::new(Default::default(), &Secret::new([7; 32]), b"request", b"answer");
        let stream = ReceiveStream::new(0, Suite::Null, 4, false);
        stream.open(&keys, 1, Socket::tcp(listener.accept().unwrap().0).unwrap());
        let socket = stream.socket().unwrap();
        let wakes = || sealane_stack::wait(&mut [PollFd::new(&*socket, PollFlags::IN)], SOON).unwrap();
        let pool = Pool::new(3, DATA_BYTES_MAX + 100);

        sender.write_all(&record()).unwrap();
        assert!(wakes(), "any byte wakes a lane at first");
        take_all(&stream, &pool, 1);
        assert!(!stream.is_patient());

        let until = Instant::now() + Duration::from_secs(20);
        let mut ahead = 0;
        while !stream.is_patient() {
            assert!(Instant::now() < until, "a buffer was never full");
            sender.write_all(&record().repeat(90)).unwrap();
            ahead += 90;
            take(&stream, &pool, &mut ahead);
        }
        take_all(&stream, &pool, ahead);

        sender.write_all(&record()).unwrap();
        assert!(!wakes(), "a little wakes nobody");
        sender.write_all(&record().repeat(90)).unwrap();
        assert!(wakes(), "much does");
        take_all(&stream, &pool, 91);

        sender.write_all(&record()).unwrap();
        assert!(!wakes());
        stream.hurry();
        assert!(wakes(), "a little does again");
        take_all(&stream, &pool, 1);
        assert!(!stream.is_patient());
    }
}
