//! Captures (pcap files) as ports: one that reads packets, one that writes packets, and one that records those of
//! another port.

use crate::Batch;
use crate::memory::no_room;
use crate::{Port, Room};
use rustix::fd::BorrowedFd;
use sealane_wire::pcap::{FILE_HEADER_BYTES, Format, Link, RECORD_HEADER_BYTES, Record};
use std::io::{self, Read, Write};
use std::ops::Range;
use std::time::{Duration, Instant, SystemTime};

fn malformed(error: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

/// Gives the packets of a capture, without delay.
#[derive(Debug)]
pub struct Reader<R> {
    file: R,
    format: Format,
    room: Room,
    batch_packets: usize,
    /// A record whose packet has not been read.
    next: Option<Record>,
    /// Time at which the packet given last was captured, since 1970.
    pub time: Duration,
}

impl<R: Read + Send> Reader<R> {
    /// Reads a capture's header; each call of `receive` will give up to `batch_packets` packets. `file` is best
    /// buffered.
    ///
    /// # Errors
    /// Fails if the file cannot be read or is not a capture.
    pub fn new(mut file: R, room: Room, batch_packets: usize) -> io::Result<Self> {
        let mut header = [0; FILE_HEADER_BYTES];
        file.read_exact(&mut header)?;
        let format = Format::parse(&header).map_err(malformed)?;
        Ok(Self { file, format, room, batch_packets, next: None, time: Duration::ZERO })
    }

    /// Returns the kind of header that packets begin with.
    pub const fn link(&self) -> Link {
        self.format.link
    }

    /// Returns the next record, or `None` if the file ends before it.
    fn record(&mut self) -> io::Result<Option<Record>> {
        if let Some(record) = self.next.take() {
            return Ok(Some(record));
        }
        let mut header = [0; RECORD_HEADER_BYTES];
        let mut filled = 0;
        while filled < header.len() {
            match self.file.read(&mut header[filled..])? {
                0 if filled == 0 => return Ok(None),
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                bytes => filled += bytes,
            }
        }
        self.format.record(&header).map(Some).map_err(malformed)
    }
}

impl<R: Read + Send> Port for Reader<R> {
    fn receive(&mut self, batch: &mut Batch) -> io::Result<usize> {
        let mut received = 0;
        while received < self.batch_packets
            && let Some(record) = self.record()?
        {
            let Some(span) = self.room.push(batch, record.captured_bytes) else {
                self.next = Some(record);
                return if received == 0 { Err(no_room()) } else { Ok(received) };
            };
            if let Err(error) = self.file.read_exact(&mut batch.work.buffer.bytes_mut()[span.range()]) {
                batch.packets.pop();
                return Err(error);
            }
            self.time = record.time;
            received += 1;
        }
        Ok(received)
    }

    fn send(&mut self, _: &Batch, _: usize) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Writes packets to a capture, with the time of their arrival.
#[derive(Debug)]
pub struct Writer<W> {
    file: W,
}

impl<W: Write + Send> Writer<W> {
    /// Begins a capture whose packets begin with headers of the kind `link`. `file` is best buffered.
    ///
    /// # Errors
    /// Fails if the file cannot be written to.
    pub fn new(mut file: W, link: Link) -> io::Result<Self> {
        file.write_all(&Format::new(link).file_header())?;
        Ok(Self { file })
    }

    /// Writes the packets of `batch` that were not refused.
    fn write(&mut self, batch: &Batch, indices: Range<usize>) -> io::Result<()> {
        let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        for index in indices {
            let packet = &batch.packets[index];
            if packet.is_passed() {
                let record =
                    Record { time, captured_bytes: packet.len(), original_bytes: packet.len() as u32 };
                self.file.write_all(&record.to_bytes())?;
                self.file.write_all(batch.bytes(index))?;
            }
        }
        Ok(())
    }

    /// Writes buffered data and returns the file.
    ///
    /// # Errors
    /// Fails if the file cannot be written to.
    pub fn finish(mut self) -> io::Result<W> {
        self.file.flush()?;
        Ok(self.file)
    }
}

impl<W: Write + Send> Port for Writer<W> {
    fn receive(&mut self, _: &mut Batch) -> io::Result<usize> {
        Ok(0)
    }

    fn send(&mut self, batch: &Batch, from: usize) -> io::Result<usize> {
        self.write(batch, from..batch.packets.len())?;
        Ok(batch.packets.len() - from)
    }
}

/// A port with a capture of all packets that it sends and receives, in the order in which they pass here.
#[derive(Debug)]
pub struct Tapped<P, W> {
    port: P,
    capture: Writer<W>,
}

impl<P: Port, W: Write + Send> Tapped<P, W> {
    /// Puts `capture` beside `port`.
    pub const fn new(port: P, capture: Writer<W>) -> Self {
        Self { port, capture }
    }
}

impl<P: Port, W: Write + Send> Port for Tapped<P, W> {
    fn receive(&mut self, batch: &mut Batch) -> io::Result<usize> {
        let before = batch.packets.len();
        let received = self.port.receive(batch)?;
        self.capture.write(batch, before..before + received)?;
        Ok(received)
    }

    fn send(&mut self, batch: &Batch, from: usize) -> io::Result<usize> {
        let sent = self.port.send(batch, from)?;
        self.capture.write(batch, from..from + sent)?;
        Ok(sent)
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.port.fd()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.port.poll_timeout()
    }
}
