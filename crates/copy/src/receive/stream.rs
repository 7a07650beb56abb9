//! One data stream at its receiving end: the [`Flow`] that numbers records and counts them as taken in order, and the
//! current connection.
//!
//! Guarantees: no byte of a record is passed on before its tag is verified; records are counted as taken in the order
//! of the stream, whatever lane finished them first; a new connection is answered only when every record of the old
//! one is settled.

use std::{
    sync::{Arc, Condvar, Mutex},
    time::Duration,
};

use crate::shared::Pool;
use sealane_engine::{Suite, Work};
use sealane_lanes::{Flow, Ticket};

use crate::{
    line::LineError,
    proto::keys::{StreamDirection, TransferKeys},
    receive::line::{Arrived, Inbound, Outbound},
    shared::Stop,
    socket::{Socket, Wire},
};

/// The half that receives and numbers records.
#[derive(Debug)]
struct Input<W> {
    opening: u32,
    wire: Option<Arc<W>>,
    inbound: Inbound,
    /// Whether the connection wakes a lane only for [`Inbound::bulk_bytes`] or more.
    patient: bool,
    /// The number of times that smaller segments are to be tried.
    narrowed: u8,
}

/// The half that counts records, in order.
#[derive(Debug)]
struct Output<W> {
    wire: Option<Arc<W>>,
    outbound: Outbound,
}

/// One data stream.
#[derive(Debug)]
pub(crate) struct ReceiveStream<W = Socket> {
    index: u16,
    suite: Suite,
    /// The order of the records. A lane that has taken its records over returns the number after the last one; a lane
    /// that could not take them over returns nothing.
    flow: Flow<Input<W>, Option<u64>, Output<W>>,
    /// The number of threads that wait until batches are settled.
    waiting: Mutex<usize>,
    settled: Condvar,
}

/// Records held by a lane, with their place on the stream. If they are dropped before they were taken over, they
/// leave a gap: no record after them counts.
#[derive(Debug)]
pub(crate) struct TakenRecords<'a, W: Wire = Socket> {
    pub(crate) arrived: Arrived,
    records_end: u64,
    stream: &'a ReceiveStream<W>,
    pool: &'a Pool,
    ticket: Option<Ticket>,
}

impl<'a, W: Wire> TakenRecords<'a, W> {
    /// Returns the stream of the records.
    pub(crate) fn stream(&self) -> &'a ReceiveStream<W> {
        self.stream
    }

    /// Lays the records' jobs into `work`, with their buffer, for an engine to verify and open.
    pub(crate) fn lay(&mut self, work: Work) -> Result<Work, LineError> {
        self.arrived.lay(work).map_err(|_| self.forged())
    }

    /// Takes the records back from the engine, if all are genuine.
    pub(crate) fn opened(&mut self, work: Work) -> Result<(), LineError> {
        self.arrived.work = work;
        let is_genuine = self.arrived.opened().all(|(_, body)| body.is_some());
        is_genuine.then_some(()).ok_or_else(|| self.forged())
    }

    fn forged(&self) -> LineError {
        LineError::forged(self.stream.index, "a record that is not authentic")
    }

    /// Returns whether every record before these on the stream is in place, or the transfer stops, as it will when
    /// one of them was lost. Lanes that share a stream hold its batches at the same time, and a batch may need a file
    /// that the previous one announces.
    pub(crate) fn is_next(&self, stop: &Stop) -> bool {
        let (Some(ticket), flow) = (self.ticket, &self.stream.flow) else { return true };
        let is_in_place =
            || flow.ahead(ticket) == 0 && !flow.with_restored(|output| output.outbound.has_gap());
        is_in_place() || stop.is_set()
    }

    /// Waits until [`Self::is_next`]. A lane that waits must hold nothing else that others may wait for.
    pub(crate) fn wait_for_earlier(&self, stop: &Stop) {
        self.stream.wait_until(Duration::from_millis(100), || self.is_next(stop));
    }

    /// Counts the records, whose content is in place, in order; acknowledges them when that is due.
    pub(crate) fn taken(mut self) -> Result<(), LineError> {
        self.settle(Some(self.records_end));
        self.stream.count(false)
    }

    fn settle(&mut self, records_end: Option<u64>) {
        let Some(ticket) = self.ticket.take() else { return };
        let buffer = std::mem::take(&mut self.arrived.work.buffer);
        // Records that are dropped while an engine has their buffer leave it there.
        if buffer.capacity_bytes() > 0 {
            self.pool.give(buffer);
        }
        let restored = self.stream.flow.restore(ticket, records_end);
        debug_assert_eq!(restored, Ok(()), "a place is given once, and no stream opens while one is out");
    }
}

impl<W: Wire> Drop for TakenRecords<'_, W> {
    fn drop(&mut self) {
        if self.ticket.is_some() {
            self.settle(None);
            // The lane that finds the connection broken reports it.
            let _ = self.stream.count(false);
        }
    }
}

impl<W: Wire> ReceiveStream<W> {
    /// Returns a stream without a connection. At most `in_flight` batches are in work at once.
    pub(crate) fn new(index: u16, suite: Suite, in_flight: usize) -> Self {
        let inbound = Inbound::default();
        let input = Input { opening: 0, wire: None, inbound, patient: false, narrowed: 0 };
        let flow = Flow::new(in_flight, input, Output { wire: None, outbound: Outbound::default() });
        flow.close(|_| ());
        Self { index, suite, flow, waiting: Mutex::new(0), settled: Condvar::new() }
    }

    /// Returns the connection, for polling.
    pub(crate) fn socket(&self) -> Option<Arc<W>> {
        self.flow.with_given(|input| input.wire.clone())
    }

    /// Returns the number of the current or last opening.
    pub(crate) fn opening(&self) -> u32 {
        self.flow.with_given(|input| input.opening)
    }

    /// Returns the number of times that smaller segments are to be tried.
    pub(crate) fn narrowed(&self) -> u8 {
        self.flow.with_given(|input| input.narrowed)
    }

    /// Notes that the sender's segments do not arrive here, and how many times smaller ones are to be tried.
    pub(crate) fn narrow(&self, times: u8) {
        self.flow.with_given(|input| input.narrowed = input.narrowed.max(times));
    }

    /// Ends this opening's connection; the next lane that looks finds it cut.
    pub(crate) fn hang_up(&self, opening: u32) {
        self.flow.with_given(|input| {
            if let (true, Some(wire)) = (input.opening == opening, &input.wire) {
                wire.shutdown();
            }
        });
    }

    /// Removes the connection and returns the number of its records that were taken over, once every lane has
    /// finished its records.
    pub(crate) fn cut(&self, pool: &Pool) -> u64 {
        self.flow.close(|input| {
            if let Some(wire) = input.wire.take() {
                wire.shutdown();
            }
            input.inbound.cut().into_iter().for_each(|buffer| pool.give(buffer));
        });
        self.wait_until(Duration::from_secs(1), || self.flow.out() == 0);
        self.flow.with_restored(|output| output.outbound.taken())
    }

    /// Sets a new connection, after [`Self::cut`].
    pub(crate) fn open(&self, keys: &TransferKeys, opening: u32, wire: W) {
        let key = |way| keys.stream(self.suite, self.index, opening, way);
        let (forward, backward) = (key(StreamDirection::Forward), key(StreamDirection::Backward));
        let wire = Arc::new(wire);
        self.flow.open(|input, output| {
            input.opening = opening;
            input.inbound.open(forward);
            input.wire = Some(Arc::clone(&wire));
            input.patient = false;
            output.outbound.open(backward);
            output.wire = Some(wire);
        });
    }

    /// Receives the available bytes and takes the complete records; returns `None` if there are none for now.
    pub(crate) fn look<'a>(&'a self, pool: &'a Pool) -> Result<Option<TakenRecords<'a, W>>, LineError> {
        let mut failed = None;
        let given = self.flow.give(|input, _| {
            input.receive(self.index, pool).unwrap_or_else(|error| {
                failed = Some(error);
                None
            })
        });
        let in_hand = |(ticket, (arrived, records_end))| {
            let ticket = Some(ticket);
            TakenRecords { arrived, records_end, stream: self, pool, ticket }
        };
        failed.map_or_else(|| Ok(given.map(in_hand)), Err)
    }

    /// Returns whether lanes sleep until many bytes have arrived; they must not sleep long then.
    pub(crate) fn is_patient(&self) -> bool {
        self.flow.with_given(|input| input.patient)
    }

    /// Lets any byte wake a lane again: fewer bytes came than the stream waited for.
    pub(crate) fn hurry(&self) {
        self.flow.with_given(|input| {
            if let (true, Some(wire)) = (std::mem::take(&mut input.patient), &input.wire) {
                wire.wake_at(1);
            }
        });
    }

    /// Waits until a condition holds that changes as batches are settled; it is also checked at intervals of
    /// `look_again`.
    fn wait_until(&self, look_again: Duration, is_so: impl Fn() -> bool) {
        const HELD: &str = "no lane panics waiting for a stream";
        let mut waiting = self.waiting.lock().expect(HELD);
        while !is_so() {
            *waiting += 1;
            waiting = self.settled.wait_timeout(waiting, look_again).expect(HELD).0;
            *waiting -= 1;
        }
    }

    /// Acknowledges the current count, unless the sender knows it.
    pub(crate) fn acknowledge(&self) -> Result<(), LineError> {
        self.count(true)
    }

    /// Counts the settled records, in order, and acknowledges them: at once if the stream is idle.
    fn count(&self, is_idle: bool) -> Result<(), LineError> {
        let mut outcome = Ok(());
        let counted = self.flow.visit(
            |_| true,
            |output, records_end| output.outbound.take(records_end),
            |output| {
                if is_idle || output.outbound.is_due() {
                    outcome = output.send();
                }
            },
        );
        // Waking is a system call, whether or not a thread waits.
        if counted > 0 && *self.waiting.lock().expect("no lane panics waiting for a stream") > 0 {
            self.settled.notify_all();
        }
        outcome
    }
}

impl<W: Wire> Input<W> {
    fn receive(&mut self, stream: u16, pool: &Pool) -> Result<Option<(Arrived, u64)>, LineError> {
        let Some(wire) = &self.wire else { return Ok(None) };
        let mut has_ended = false;
        if let Some(room) = self.inbound.room(pool)
            && let Some(received) = wire.try_recv(room)?
        {
            has_ended = received == 0;
            self.inbound.received(received);
        }
        if let (false, Some(bytes)) = (self.patient, self.inbound.bulk_bytes()) {
            wire.wake_at(bytes);
            self.patient = true;
        }
        let arrived = self.inbound.take(stream, pool)?;
        // Bytes that arrived before the end are taken first.
        if has_ended && arrived.is_none() && !self.inbound.holds_records() {
            return Err(LineError::Cut);
        }
        Ok(arrived)
    }
}

impl<W: Wire> Output<W> {
    fn send(&mut self) -> Result<(), LineError> {
        let Some(wire) = &self.wire else { return Ok(()) };
        while let Some(bytes) = self.outbound.unsent() {
            let Some(sent) = wire.try_send(bytes)? else { break };
            self.outbound.sent(sent);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener, TcpStream};
    use std::{io::Write as _, time::Instant};

    use rustix::event::{PollFd, PollFlags};
    use sealane_engine::record::Secret;

    use super::*;
    use crate::proto::record::{DATA_BYTES_MAX, HEADER_BYTES, Header, Kind};

    const BODY_BYTES: usize = 1000;
    const SOON: Duration = Duration::from_millis(20);

    fn record() -> Vec<u8> {
        let mut record = vec![0; HEADER_BYTES + BODY_BYTES];
        Header { kind: Kind::Data, body_bytes: BODY_BYTES, file: 0, offset: 0 }.encode(&mut record);
        record
    }

    /// Takes the available records off the number of expected ones.
    fn take(stream: &ReceiveStream, pool: &Pool, ahead: &mut usize) {
        while let Some(in_hand) = stream.look(pool).unwrap() {
            *ahead -= in_hand.arrived.headers.len();
            in_hand.taken().unwrap();
        }
    }

    /// Takes this many records, and finds no more.
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
        let stream = ReceiveStream::new(0, Suite::Null, 4);
        stream.open(&keys, 1, Socket::tcp(listener.accept().unwrap().0).unwrap());
        let socket = stream.socket().unwrap();
        let wakes = || sealane_lanes::wait(&mut [PollFd::new(&*socket, PollFlags::IN)], SOON).unwrap();
        let pool = crate::shared::buffers(3, DATA_BYTES_MAX + 100);

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
