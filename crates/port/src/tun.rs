//! A TUN device: IP packets of this host's own network stack, in GSO packets if its offloads are on.
//!
//! Inward, one large read brings a GSO packet, which is cut into packets that lie side by side in the batch, with
//! all their checksums complete. Outward, packets that follow each other are joined and leave by one large write. The
//! device disappears when its last queue is dropped.

use crate::Batch;
use crate::errors::{Failures, is_of_packet};
use crate::looks::Looks;
use crate::memory::no_room;
use crate::pace::{Pace, pause};
use crate::room::end_of;
use crate::sys;
use crate::{Port, Room};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, ReadWriteFlags};
use sealane_wire::gso::{BUFFER_BYTES, Join, PACKET_MAX_BYTES, Pieces};
use sealane_wire::virtio::{VIRTIO_BYTES, Virtio};
use std::io::{self, IoSliceMut};
use std::sync::Arc;

/// Number of bytes at which a batch is handed on at once.
const ENOUGH_BYTES: usize = 16 * 1024;

/// Bytes of a buffer for a GSO packet with its virtio-net header.
pub const WHOLE_BYTES: usize = BUFFER_BYTES;

/// Returns the packets of a GSO packet that [`Tun::receive_whole`] has read; `None` if it is malformed.
#[must_use]
pub fn pieces(whole: &[u8]) -> Option<Pieces<'_>> {
    // The kernel's header for its own packet is right; any other packet is malformed.
    Virtio::parse(whole).and_then(|(header, packet)| Pieces::of(header, packet)).ok()
}

impl Room {
    /// Appends a packet of a GSO packet. Returns `false` if the batch has no room for it.
    pub fn push_piece(self, batch: &mut Batch, pieces: &Pieces<'_>, index: usize) -> bool {
        let Some(span) = self.push(batch, pieces.bytes(index)) else { return false };
        let into = &mut batch.work.buffer.bytes_mut()[span.range()];
        pieces.write(index, into).expect("its room has its length");
        true
    }
}

/// Options of a device.
#[derive(Debug, Clone)]
pub struct Options {
    /// The device's name; the kernel replaces `%d` in it by a number.
    pub name: String,
    /// Number of queues, each for a thread of its own; the kernel assigns each flow of packets to one. See
    /// [`Tun::open_queues`] for packets the other way.
    pub queues: usize,
    /// GSO packets, both ways.
    pub has_offloads: bool,
    /// Whether [`Port::receive`] returns [`io::ErrorKind::WouldBlock`] instead of waiting.
    pub is_nonblocking: bool,
    /// The room around received packets.
    pub room: Room,
    /// Most bytes of a GSO packet that is written.
    pub gso_packet_max_bytes: usize,
}

impl Options {
    /// Returns the options for one blocking queue with offloads.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            queues: 1,
            has_offloads: true,
            is_nonblocking: false,
            room: Room::NONE,
            gso_packet_max_bytes: PACKET_MAX_BYTES,
        }
    }
}

/// One queue of a TUN device; [`Tun::split`] gives each direction a thread.
#[derive(Debug)]
pub struct Tun {
    name: String,
    device: Arc<OwnedFd>,
    has_offloads: bool,
    is_nonblocking: bool,
    room: Room,
    /// The buffer for GSO packets that are read.
    inward: Box<[u8]>,
    /// Length of the GSO packet in `inward`, and index of its first piece that had no room yet.
    pending: Option<(usize, usize)>,
    outward: Join,
    pace: Pace,
    looks: Looks,
    /// Packets that the kernel did not take, because they are malformed or the device is down.
    pub refused_packets: u64,
}

impl Tun {
    /// Opens the device, which needs `CAP_NET_ADMIN`, and returns one port per queue.
    ///
    /// # Errors
    /// Fails if there is no `/dev/net/tun`, or the kernel refuses.
    pub fn open(options: &Options) -> io::Result<Vec<Self>> {
        let mut flags = libc::IFF_TUN | libc::IFF_NO_PI;
        if options.queues > 1 {
            flags |= libc::IFF_MULTI_QUEUE;
        }
        if options.has_offloads {
            flags |= libc::IFF_VNET_HDR;
        }
        let mut name = options.name.clone();
        let mut ports = Vec::with_capacity(options.queues);
        for _ in 0..options.queues.max(1) {
            let mut open = OFlags::RDWR | OFlags::CLOEXEC;
            if options.is_nonblocking {
                open |= OFlags::NONBLOCK;
            }
            let device = rustix::fs::open("/dev/net/tun", open, Mode::empty())?;
            name = sys::tun_attach(device.as_fd(), &name, flags)?;
            let mut has_udp = false;
            if options.has_offloads {
                let tcp = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;
                // UDP's came with Linux 6.2.
                has_udp =
                    sys::tun_set_offloads(device.as_fd(), tcp | libc::TUN_F_USO4 | libc::TUN_F_USO6).is_ok();
                if !has_udp {
                    sys::tun_set_offloads(device.as_fd(), tcp)?;
                }
            }
            // Without offloads no packets can be joined, and no packet is shorter than this.
            let max_bytes = if options.has_offloads { options.gso_packet_max_bytes } else { 0 };
            ports.push(Self {
                name: name.clone(),
                device: Arc::new(device),
                has_offloads: options.has_offloads,
                is_nonblocking: options.is_nonblocking,
                room: options.room,
                inward: vec![0; WHOLE_BYTES].into(),
                pending: None,
                outward: Join::new(max_bytes, has_udp),
                pace: Pace::default(),
                looks: Looks::default(),
                refused_packets: 0,
            });
        }
        Ok(ports)
    }

    /// Opens the device as [`Self::open`] does, and returns one port per queue, which receive, and another one, which only sends.
    ///
    /// A flow stays at its queue: for a packet that is written to a queue, the kernel would move the packet's flow there, and its
    /// packets could overtake those in the queue where it was.
    ///
    /// # Errors
    /// Fails as [`Self::open`] does.
    pub fn open_queues(options: &Options) -> io::Result<(Vec<Self>, Self)> {
        if options.queues <= 1 {
            let (one, sender) = Self::open(options)?.remove(0).split();
            return Ok((vec![one], sender));
        }
        let mut ports = Self::open(&Options { queues: options.queues + 1, ..options.clone() })?;
        // The kernel gives the number of the first one to the last one, and so the numbers have no gap.
        let sender = ports.remove(0);
        sys::tun_detach(sender.device.as_fd())?;
        Ok((ports, sender))
    }

    /// Returns the device's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns two handles of the queue, so that one thread can receive while another sends.
    #[must_use]
    pub fn split(self) -> (Self, Self) {
        let twin = Self {
            name: self.name.clone(),
            device: Arc::clone(&self.device),
            has_offloads: self.has_offloads,
            is_nonblocking: self.is_nonblocking,
            room: self.room,
            inward: vec![0; self.inward.len()].into(),
            pending: None,
            outward: self.outward.another(),
            pace: Pace::default(),
            looks: Looks::default(),
            refused_packets: 0,
        };
        (self, twin)
    }

    fn read(&mut self, may_wait: bool) -> io::Result<usize> {
        let start = if self.has_offloads { 0 } else { VIRTIO_BYTES };
        let into = &mut self.inward[start..];
        let read = if may_wait {
            rustix::io::retry_on_intr(|| rustix::io::read(&self.device, &mut *into))?
        } else {
            let mut slices = [IoSliceMut::new(into)];
            rustix::io::preadv2(&self.device, &mut slices, u64::MAX, ReadWriteFlags::NOWAIT)?
        };
        if start > 0 {
            self.inward[..start].copy_from_slice(&Virtio::default().to_bytes());
        }
        Ok(start + read)
    }

    /// Appends the pieces of the GSO packet read to `batch`, from `first` on; returns whether those were all.
    fn lay(&mut self, batch: &mut Batch, read: usize, first: usize) -> bool {
        let Some(pieces) = pieces(&self.inward[..read]) else {
            self.refused_packets += 1;
            return true;
        };
        for index in first..pieces.count() {
            if !self.room.push_piece(batch, &pieces, index) {
                self.pending = Some((read, index));
                return false;
            }
        }
        true
    }

    /// Reads GSO packets with their virtio-net headers until the device has no more or `keep` returns `false`, and waits for the
    /// first one if it `may_wait`. Small packets that come densely gather for a moment. `keep` gets the buffer with a GSO packet,
    /// which it may exchange for another of [`WHOLE_BYTES`], and the GSO packet's length. Returns the number of GSO packets.
    ///
    /// # Errors
    /// Returns errors of the device.
    pub fn receive_whole(
        &mut self,
        may_wait: bool,
        mut keep: impl FnMut(&mut Box<[u8]>, usize) -> bool,
    ) -> io::Result<usize> {
        let mut may_gather = may_wait && self.pace.is_dense() && !self.is_nonblocking;
        let (mut count, mut bytes, mut singles) = (0, 0, 0);
        let mut failures = Failures::default();
        loop {
            let read = self.read(may_wait && count == 0);
            if may_wait && count == 1 {
                self.looks.after(read.is_ok());
            }
            match read {
                Ok(read) => {
                    count += 1;
                    bytes += read;
                    singles += usize::from(self.inward[1] == 0);
                    if !keep(&mut self.inward, read) {
                        break;
                    }
                    if may_wait && count == 1 && !may_gather && !self.looks.pays() {
                        break;
                    }
                }
                Err(_) if count > 0 && may_gather && bytes < ENOUGH_BYTES => {
                    may_gather = false;
                    pause();
                }
                Err(_) if count > 0 => break,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && !may_wait => break,
                // The kernel could not deliver one packet.
                Err(error) if Errno::from_io_error(&error).is_some_and(is_of_packet) => {
                    failures.pause_now_and_then();
                }
                Err(error) => return Err(error),
            }
        }
        self.pace.after(singles);
        Ok(count)
    }

    /// Returns the room around received packets.
    pub fn room(&self) -> Room {
        self.room
    }

    fn write(&mut self) -> io::Result<()> {
        let packets = self.outward.count() as u64;
        let Some(joined) = self.outward.take() else { return Ok(()) };
        let outward = Outward { device: &self.device, has_offloads: self.has_offloads };
        outward.write(joined, packets, &mut self.refused_packets)
    }

    /// Joins the passed packets of `batch`, and passes on each GSO packet that [`Self::write_whole`] takes: the buffer, which may be
    /// exchanged for another of [`WHOLE_BYTES`], the GSO packet's length, and the number of its packets.
    pub fn join(&mut self, batch: &Batch, mut keep: impl FnMut(&mut Box<[u8]>, usize, usize)) {
        let join = &mut self.outward;
        let mut take = |join: &mut Join| {
            let count = join.count();
            if let Some((buffer, bytes)) = join.take_whole() {
                keep(buffer, bytes, count);
            }
        };
        for bytes in batch.passed().filter(|bytes| !bytes.is_empty()) {
            if !join.push(bytes) {
                take(join);
                join.push(bytes);
            }
        }
        take(join);
    }

    /// Writes a GSO packet of `packets` packets with its virtio-net header.
    ///
    /// # Errors
    /// Returns errors of the device; a packet that it does not take is counted.
    pub fn write_whole(&mut self, whole: &[u8], packets: u64) -> io::Result<()> {
        let outward = Outward { device: &self.device, has_offloads: self.has_offloads };
        outward.write(whole, packets, &mut self.refused_packets)
    }
}

/// The end of a queue that takes GSO packets.
struct Outward<'a> {
    device: &'a OwnedFd,
    has_offloads: bool,
}

impl Outward<'_> {
    fn write(&self, whole: &[u8], packets: u64, refused_packets: &mut u64) -> io::Result<()> {
        let start = if self.has_offloads { 0 } else { VIRTIO_BYTES };
        match rustix::io::retry_on_intr(|| rustix::io::write(self.device, &whole[start..])) {
            Ok(_) => Ok(()),
            // The kernel rejects the packet, has no memory for it, or the device is down: the packet is lost, as on
            // any network.
            Err(error) if is_of_packet(error) => {
                *refused_packets += packets;
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }
}

impl Port for Tun {
    fn receive(&mut self, batch: &mut Batch) -> io::Result<usize> {
        let before = batch.packets.len();
        let start = end_of(batch);
        if let Some((read, first)) = self.pending.take()
            && !self.lay(batch, read, first)
        {
            let laid = batch.packets.len() - before;
            return if laid == 0 { Err(no_room()) } else { Ok(laid) };
        }
        // Small packets come one by one: those that are there already share a batch, and if they come densely, a few
        // more.
        let mut may_gather = self.pace.is_dense() && !self.is_nonblocking;
        let (mut singles, mut reads, mut failures) = (0, 0, Failures::default());
        while end_of(batch) - start < ENOUGH_BYTES && batch.packets.len() < batch.packets.capacity() {
            let laid = batch.packets.len() - before;
            let read = self.read(laid == 0);
            if reads == 1 {
                self.looks.after(read.is_ok());
            }
            reads += 1;
            match read {
                Ok(read) => {
                    let before = batch.packets.len();
                    let is_laid = self.lay(batch, read, 0);
                    singles += usize::from(batch.packets.len() - before == 1);
                    if !is_laid || reads == 1 && !may_gather && !self.looks.pays() {
                        break;
                    }
                }
                Err(_) if laid > 0 && may_gather => {
                    may_gather = false;
                    pause();
                }
                Err(_) if laid > 0 => break,
                // The kernel could not deliver one packet.
                Err(error) if Errno::from_io_error(&error).is_some_and(is_of_packet) => {
                    failures.pause_now_and_then();
                }
                Err(error) => return Err(error),
            }
        }
        self.pace.after(singles);
        match batch.packets.len() - before {
            0 => Err(no_room()),
            laid => Ok(laid),
        }
    }

    fn send(&mut self, batch: &Batch, from: usize) -> io::Result<usize> {
        for (index, packet) in batch.packets.iter().enumerate().skip(from) {
            if !packet.is_passed() || packet.is_empty() {
                continue;
            }
            let bytes = batch.bytes(index);
            if !self.outward.push(bytes) {
                self.write()?;
                self.outward.push(bytes);
            }
        }
        self.write()?;
        Ok(batch.packets.len() - from)
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.device.as_fd())
    }
}
