//! System calls that no safe library wraps: TUN's ioctls, packet sockets' addresses, messages with the ancillary data
//! of UDP's segmentation, and messages about lost packets.
//!
//! **Guarantee:** every pointer handed to the kernel points into a value that lives to the end of the call, with its
//! true length; lengths that the kernel returns are never believed beyond that.
#![allow(unsafe_code)]

use std::io::{self, IoSlice};
use std::mem::{MaybeUninit, size_of, zeroed};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use arrayvec::ArrayVec;

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Returns the bytes of memory that a socket's packets take which have not left the host; 0 if the kernel does not say.
pub(crate) fn unsent_bytes(fd: BorrowedFd<'_>) -> u32 {
    let mut bytes: libc::c_int = 0;
    // SAFETY: SIOCOUTQ, which is TIOCOUTQ, writes one int, which lives here.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    if result < 0 { 0 } else { bytes.max(0) as u32 }
}

/// Attaches `/dev/net/tun` to the device `name`, which is made if it does not exist. Returns the name it got.
pub(crate) fn tun_attach(fd: BorrowedFd<'_>, name: &str, flags: libc::c_int) -> io::Result<String> {
    // SAFETY: all zeros are a value of this plain structure.
    let mut request: libc::ifreq = unsafe { zeroed() };
    if name.len() >= request.ifr_name.len() || name.contains('\0') {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a device's name has at most 15 bytes"));
    }
    for (place, byte) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *place = byte as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = flags as libc::c_short;
    // SAFETY: TUNSETIFF reads and writes one `ifreq`, which lives here.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETIFF, &raw mut request) })?;
    let name = request.ifr_name.iter().take_while(|&&byte| byte != 0).map(|&byte| byte as u8);
    Ok(String::from_utf8_lossy(&name.collect::<Vec<u8>>()).into_owned())
}

/// Makes a queue of a TUN device with several queues one that gets no packets; packets can still be written to it.
pub(crate) fn tun_detach(fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: all zeros are a value of this plain structure.
    let mut request: libc::ifreq = unsafe { zeroed() };
    request.ifr_ifru.ifru_flags = libc::IFF_DETACH_QUEUE as libc::c_short;
    // SAFETY: TUNSETQUEUE reads one `ifreq`, which lives here.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETQUEUE, &raw const request) })
}

/// Sets the offloads that the user of a TUN device understands.
pub(crate) fn tun_set_offloads(fd: BorrowedFd<'_>, offloads: libc::c_uint) -> io::Result<()> {
    // SAFETY: TUNSETOFFLOAD takes its argument by value.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETOFFLOAD, libc::c_ulong::from(offloads)) })
}

/// Sets an option whose value is an int.
fn set_option(
    fd: BorrowedFd<'_>,
    level: libc::c_int,
    option: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    let bytes = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the option's value is one int, which lives here.
    check(unsafe { libc::setsockopt(fd.as_raw_fd(), level, option, (&raw const value).cast(), bytes) })
}

/// Makes packets of a socket carry this mark, which the host's rules can match. Needs CAP_NET_ADMIN.
pub(crate) fn set_mark(fd: BorrowedFd<'_>, mark: u32) -> io::Result<()> {
    set_option(fd, libc::SOL_SOCKET, libc::SO_MARK, mark as libc::c_int)
}

/// Requests received datagrams of one flow as one burst.
pub(crate) fn set_udp_gro(fd: BorrowedFd<'_>) -> io::Result<()> {
    set_option(fd, libc::SOL_UDP, libc::UDP_GRO, 1)
}

/// Requests the time at which received datagrams came.
pub(crate) fn set_receive_times(fd: BorrowedFd<'_>) -> io::Result<()> {
    set_option(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)
}

/// Makes other sockets of this user share the address of `fd`, which nobody else can from then on.
pub(crate) fn set_shared(fd: BorrowedFd<'_>) -> io::Result<()> {
    set_option(fd, libc::SOL_SOCKET, libc::SO_REUSEPORT, 1)
}

/// Makes the first of the sockets that share the address of `fd` get all that comes.
pub(crate) fn give_all_to_first(fd: BorrowedFd<'_>) -> io::Result<()> {
    // The program, in classic BPF, returns the number of a socket: 0.
    let mut returns = [libc::sock_filter { code: (libc::BPF_RET | libc::BPF_K) as u16, jt: 0, jf: 0, k: 0 }];
    let program = libc::sock_fprog { len: 1, filter: returns.as_mut_ptr() };
    let bytes = size_of::<libc::sock_fprog>() as libc::socklen_t;
    // SAFETY: the program and its one instruction live to the end of this call, which copies them.
    check(unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_REUSEPORT_CBPF,
            (&raw const program).cast(),
            bytes,
        )
    })
}

/// Returns the time since a moment of the system's clock; 0 if that is not past.
fn since(moment: Duration) -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    let now = Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec as u32);
    now.checked_sub(moment).unwrap_or_default()
}

/// Requests the traffic class of received datagrams: for IPv4, and on an IPv6 socket for that too.
pub(crate) fn set_receive_traffic_class(fd: BorrowedFd<'_>) -> io::Result<()> {
    let v4 = set_option(fd, libc::SOL_IP, libc::IP_RECVTOS, 1);
    set_option(fd, libc::SOL_IPV6, libc::IPV6_RECVTCLASS, 1).or(v4)
}

/// Requests the address that received datagrams were sent to.
pub(crate) fn set_receive_destination(fd: BorrowedFd<'_>, is_v6: bool) -> io::Result<()> {
    // An IPv6 socket reports the destination of IPv4 datagrams in the form of IPv6, too.
    match is_v6 {
        true => set_option(fd, libc::SOL_IPV6, libc::IPV6_RECVPKTINFO, 1),
        false => set_option(fd, libc::SOL_IP, libc::IP_PKTINFO, 1),
    }
}

/// Makes messages about a socket's IPv4 packets wait for [`receive_error`].
pub(crate) fn set_receive_errors(fd: BorrowedFd<'_>) -> io::Result<()> {
    set_option(fd, libc::SOL_IP, libc::IP_RECVERR, 1)
}

/// Makes a socket's IPv4 packets leave whole, with those refused that the device does not take; or allows the kernel
/// and routers to fragment them. In both cases the kernel's belief about their path is ignored.
pub(crate) fn set_whole(fd: BorrowedFd<'_>, is_whole: bool) -> io::Result<()> {
    let value = if is_whole { libc::IP_PMTUDISC_PROBE } else { libc::IP_PMTUDISC_OMIT };
    set_option(fd, libc::SOL_IP, libc::IP_MTU_DISCOVER, value)
}

/// Makes a TCP socket take no more bytes as long as this many wait in it without having been sent.
pub(crate) fn set_unsent_max(fd: BorrowedFd<'_>, bytes: u32) -> io::Result<()> {
    set_option(fd, libc::SOL_TCP, libc::TCP_NOTSENT_LOWAT, bytes as libc::c_int)
}

/// Place of `tcpi_delivery_rate` in the kernel's `struct tcp_info` (linux/tcp.h), which grows at its end alone.
const DELIVERY_RATE_AT: usize = 160;

/// Returns the rate at which a TCP socket's bytes have arrived lately, in bytes per second; `None` if it is not known.
pub(crate) fn delivery_rate(fd: BorrowedFd<'_>) -> Option<u64> {
    let mut info = [0u8; DELIVERY_RATE_AT + 8];
    let mut bytes = info.len() as libc::socklen_t;
    // SAFETY: the kernel writes at most `bytes` bytes into the array, and their number into `bytes`.
    let result = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut bytes,
        )
    };
    let rate =
        info.get(DELIVERY_RATE_AT..bytes as usize)?.first_chunk().map(|rate| u64::from_ne_bytes(*rate))?;
    (result == 0 && rate > 0).then_some(rate)
}

/// Makes a packet socket send by the device of this index; it still receives nothing.
pub(crate) fn bind_link(fd: BorrowedFd<'_>, device: u32) -> io::Result<()> {
    // SAFETY: all zeros are a value of this plain structure.
    let mut address: libc::sockaddr_ll = unsafe { zeroed() };
    address.sll_family = libc::AF_PACKET as libc::c_ushort;
    address.sll_ifindex = device as libc::c_int;
    let bytes = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the address is one of a packet socket, which lives here.
    check(unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), bytes) })
}

/// Returns an address in the kernel's form, and its length.
fn encode(address: SocketAddr) -> (libc::sockaddr_storage, libc::socklen_t) {
    // SAFETY: all zeros are a value of this plain structure.
    let mut storage: libc::sockaddr_storage = unsafe { zeroed() };
    match address {
        SocketAddr::V4(v4) => {
            let plain = libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: v4.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from(*v4.ip()).to_be() },
                sin_zero: [0; 8],
            };
            // SAFETY: the storage is as large and as aligned as any address.
            unsafe { (&raw mut storage).cast::<libc::sockaddr_in>().write(plain) };
            (storage, size_of::<libc::sockaddr_in>() as libc::socklen_t)
        }
        SocketAddr::V6(v6) => {
            let plain = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: v6.port().to_be(),
                sin6_flowinfo: v6.flowinfo(),
                sin6_addr: libc::in6_addr { s6_addr: v6.ip().octets() },
                sin6_scope_id: v6.scope_id(),
            };
            // SAFETY: the storage is as large and as aligned as any address.
            unsafe { (&raw mut storage).cast::<libc::sockaddr_in6>().write(plain) };
            (storage, size_of::<libc::sockaddr_in6>() as libc::socklen_t)
        }
    }
}

/// Returns the address in the kernel's form. An IPv4 address is returned as such, whatever the socket's family.
fn decode(storage: &libc::sockaddr_storage) -> Option<SocketAddr> {
    match i32::from(storage.ss_family) {
        libc::AF_INET => {
            // SAFETY: the storage is as large and as aligned as any address, and plain data.
            let plain = unsafe { (&raw const *storage).cast::<libc::sockaddr_in>().read() };
            let ip = Ipv4Addr::from(u32::from_be(plain.sin_addr.s_addr));
            Some(SocketAddrV4::new(ip, u16::from_be(plain.sin_port)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: the storage is as large and as aligned as any address, and plain data.
            let plain = unsafe { (&raw const *storage).cast::<libc::sockaddr_in6>().read() };
            let ip = Ipv6Addr::from(plain.sin6_addr.s6_addr);
            let (port, flow, scope) =
                (u16::from_be(plain.sin6_port), plain.sin6_flowinfo, plain.sin6_scope_id);
            Some(match ip.to_ipv4_mapped() {
                Some(ip) => SocketAddrV4::new(ip, port).into(),
                None => SocketAddrV6::new(ip, port, flow, scope).into(),
            })
        }
        _ => None,
    }
}

/// Room for the ancillary data of either direction, with the alignment of its header.
#[repr(C, align(8))]
struct Control([u8; CONTROL_BYTES]);

/// Bytes of five items and more.
const CONTROL_BYTES: usize = 192;

/// The headers of datagrams.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Headers {
    /// The destination; `None` if the socket is connected.
    pub(crate) to: Option<SocketAddr>,
    /// The source; `None` lets the kernel choose it.
    pub(crate) from: Option<IpAddr>,
    /// The traffic class in the IP header.
    pub(crate) traffic_class: u8,
}

/// Writes the value of a control item, and returns the place of the next one.
///
/// # Safety
/// `header` is a header of `message`'s control buffer, writable and aligned. From it on the buffer has room
/// for a header with the value, and for one more header; `message` has the buffer's pointer and length.
unsafe fn put<T>(
    message: &libc::msghdr,
    header: *mut libc::cmsghdr,
    (level, kind): (libc::c_int, libc::c_int),
    value: T,
) -> *mut libc::cmsghdr {
    // SAFETY: the contract: the buffer has room for the header with its value, and for the next header.
    unsafe {
        (*header).cmsg_level = level;
        (*header).cmsg_type = kind;
        (*header).cmsg_len = libc::CMSG_LEN(size_of::<T>() as _) as _;
        libc::CMSG_DATA(header).cast::<T>().write_unaligned(value);
        libc::CMSG_NXTHDR(&raw const *message, header)
    }
}

/// Sends the bytes of `slices` as one datagram, or, if `segment_bytes` is given, as a burst of datagrams of that
/// length each but the last.
pub(crate) fn send_burst(
    fd: BorrowedFd<'_>,
    slices: &[IoSlice<'_>],
    segment_bytes: Option<u16>,
    headers: &Headers,
) -> io::Result<usize> {
    let &Headers { to, from, traffic_class } = headers;
    // SAFETY: all zeros are a value of this plain structure.
    let mut message: libc::msghdr = unsafe { zeroed() };
    let mut address = to.map(encode);
    if let Some((storage, bytes)) = &mut address {
        message.msg_name = (&raw mut *storage).cast();
        message.msg_namelen = *bytes;
    }
    // An IoSlice has the layout of an iovec by its documentation; the kernel only reads the bytes.
    message.msg_iov = slices.as_ptr().cast::<libc::iovec>().cast_mut();
    message.msg_iovlen = slices.len() as _;
    let mut control = Control([0; CONTROL_BYTES]);
    let is_v6 = to.is_some_and(|to| to.ip().to_canonical().is_ipv6());
    let (v4_bytes, v6_bytes) = (size_of::<libc::in_pktinfo>(), size_of::<libc::in6_pktinfo>());
    // SAFETY: arithmetic alone.
    let space = |bytes: usize| unsafe { libc::CMSG_SPACE(bytes as _) };
    let used = u32::from(segment_bytes.is_some()) * space(2)
        + u32::from(traffic_class != 0) * space(4)
        + from.map_or(0, |from| space(if from.is_ipv4() { v4_bytes } else { v6_bytes }));
    if used > 0 {
        message.msg_control = control.0.as_mut_ptr().cast();
        message.msg_controllen = used as _;
        // SAFETY: the control buffer is aligned for headers and long enough for all items, and its length says how many
        // there are, so that each header returned here has room for its value.
        unsafe {
            let mut header = libc::CMSG_FIRSTHDR(&raw const message);
            if let Some(segment_bytes) = segment_bytes {
                header = put(&message, header, (libc::SOL_UDP, libc::UDP_SEGMENT), segment_bytes);
            }
            if traffic_class != 0 {
                let v6 = (libc::SOL_IPV6, libc::IPV6_TCLASS);
                let place = if is_v6 { v6 } else { (libc::SOL_IP, libc::IP_TOS) };
                header = put(&message, header, place, libc::c_int::from(traffic_class));
            }
            match from {
                Some(IpAddr::V4(v4)) => {
                    let mut info: libc::in_pktinfo = zeroed();
                    info.ipi_spec_dst.s_addr = u32::from(v4).to_be();
                    put(&message, header, (libc::SOL_IP, libc::IP_PKTINFO), info);
                }
                Some(IpAddr::V6(v6)) => {
                    let mut info: libc::in6_pktinfo = zeroed();
                    info.ipi6_addr.s6_addr = v6.octets();
                    put(&message, header, (libc::SOL_IPV6, libc::IPV6_PKTINFO), info);
                }
                None => {}
            }
        }
    }
    // SAFETY: name, slices and control live to the end of this call, with the lengths given.
    let sent = unsafe { libc::sendmsg(fd.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(sent as usize) }
}

/// The datagrams that arrived in one call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Burst {
    /// Bytes written to the buffer.
    pub(crate) bytes: usize,
    /// Length of each datagram but the last, in bytes; `None` if there is one datagram.
    pub(crate) segment_bytes: Option<usize>,
    /// Sender of the datagrams.
    pub(crate) source: Option<SocketAddr>,
    /// The address that they were sent to; `None` if the kernel does not report it.
    pub(crate) destination: Option<IpAddr>,
    /// The traffic class in the IP header; 0 if the kernel does not report it.
    pub(crate) traffic_class: u8,
    /// The time for which the first of them waited in the socket; 0 if the kernel does not report when it came.
    pub(crate) waited: Duration,
    /// Whether the buffer was too short, and the rest is lost.
    pub(crate) is_cut_short: bool,
}

/// The result of one call of recvmsg.
struct Received {
    /// Number of bytes, at most the size of the room.
    bytes: usize,
    /// The address that came with it: the sender, or the destination that an error is about.
    address: Option<SocketAddr>,
    flags: libc::c_int,
}

/// Receives one message into `into`, and passes on its ancillary data item by item: level, type and bytes.
fn receive_message(
    fd: BorrowedFd<'_>,
    into: &mut [u8],
    flags: libc::c_int,
    mut item: impl FnMut(libc::c_int, libc::c_int, &[u8]),
) -> io::Result<Received> {
    let mut slice = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let mut control = Control([0; CONTROL_BYTES]);
    // SAFETY: all zeros are values of these plain structures.
    let (mut message, mut storage): (libc::msghdr, libc::sockaddr_storage) = unsafe { (zeroed(), zeroed()) };
    message.msg_name = (&raw mut storage).cast();
    message.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
    message.msg_iov = &raw mut slice;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = control.0.len() as _;
    // SAFETY: name, slice, its bytes and control live to the end of this call, with the lengths given.
    let received = unsafe { libc::recvmsg(fd.as_raw_fd(), &raw mut message, flags) };
    if received < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has set the control data's length to what it wrote there; the macros stay within that, and an item has
    // as many bytes behind its header as its length says.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(&raw const message);
        while !header.is_null() {
            let bytes = ((*header).cmsg_len as usize).saturating_sub(libc::CMSG_LEN(0) as usize);
            let data = std::slice::from_raw_parts(libc::CMSG_DATA(header), bytes);
            item((*header).cmsg_level, (*header).cmsg_type, data);
            header = libc::CMSG_NXTHDR(&raw const message, header);
        }
    }
    Ok(Received {
        bytes: (received as usize).min(into.len()),
        address: decode(&storage),
        flags: message.msg_flags,
    })
}

/// Receives a datagram or, with [`set_udp_gro`], a burst of them.
pub(crate) fn receive_burst(fd: BorrowedFd<'_>, into: &mut [u8], may_wait: bool) -> io::Result<Burst> {
    let flags = if may_wait { 0 } else { libc::MSG_DONTWAIT };
    let (mut segment_bytes, mut traffic_class, mut destination) = (None, 0, None);
    let mut came = None;
    let number = |data: &[u8]| data.first_chunk().copied().map(libc::c_int::from_ne_bytes);
    let received = receive_message(fd, into, flags, |level, kind, data| match (level, kind) {
        (libc::SOL_UDP, libc::UDP_GRO) => {
            segment_bytes =
                number(data).and_then(|value| usize::try_from(value).ok()).filter(|&bytes| bytes > 0);
        }
        (libc::SOL_IP, libc::IP_TOS) => traffic_class = data.first().copied().unwrap_or(0),
        (libc::SOL_IPV6, libc::IPV6_TCLASS) => traffic_class = number(data).unwrap_or(0) as u8,
        (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) if data.len() >= size_of::<libc::timespec>() => {
            // SAFETY: the item has as many bytes as this plain structure, of which any are a value.
            let time = unsafe { data.as_ptr().cast::<libc::timespec>().read_unaligned() };
            came = u64::try_from(time.tv_sec).ok().map(|s| Duration::new(s, time.tv_nsec as u32));
        }
        // The index of the device, our address, and the address in the header, which may be that of a whole network.
        (libc::SOL_IP, libc::IP_PKTINFO) => {
            let own = data.get(4..).and_then(<[u8]>::first_chunk::<4>);
            destination = own.map(|&own| IpAddr::from(own));
        }
        (libc::SOL_IPV6, libc::IPV6_PKTINFO) => {
            destination = data.first_chunk::<16>().map(|&own| IpAddr::from(own).to_canonical());
        }
        _ => {}
    })?;
    Ok(Burst {
        bytes: received.bytes,
        segment_bytes,
        source: received.address,
        destination: destination.filter(|own| !own.is_unspecified() && !own.is_multicast()),
        traffic_class,
        waited: came.map_or(Duration::ZERO, since),
        is_cut_short: received.flags & libc::MSG_TRUNC != 0,
    })
}

/// Most datagrams of one call of [`receive_many`].
pub(crate) const MANY: usize = 32;

/// Receives up to as many datagrams as `lengths` has places ([`MANY`] at most), each into a slot of `slot_bytes` of
/// `into`, and writes their lengths. Waits for the first if `may_wait`.
pub(crate) fn receive_many(
    fd: BorrowedFd<'_>,
    into: &mut [u8],
    slot_bytes: usize,
    lengths: &mut [usize],
    may_wait: bool,
) -> io::Result<usize> {
    let count = lengths.len().min(MANY).min(into.len() / slot_bytes.max(1));
    let mut slices = [MaybeUninit::<libc::iovec>::uninit(); MANY];
    // SAFETY: all zeros are values of this plain structure.
    let mut messages: [libc::mmsghdr; MANY] = unsafe { zeroed() };
    for ((slot, slice), message) in
        into.chunks_exact_mut(slot_bytes.max(1)).zip(&mut slices).zip(&mut messages)
    {
        let slice = slice.write(libc::iovec { iov_base: slot.as_mut_ptr().cast(), iov_len: slot.len() });
        message.msg_hdr.msg_iov = &raw mut *slice;
        message.msg_hdr.msg_iovlen = 1;
    }
    // The flag's type is the C library's own.
    let flags = if may_wait { libc::MSG_WAITFORONE } else { libc::MSG_DONTWAIT };
    // SAFETY: the first `count` messages have slots that live to the end of this call, with the lengths given.
    let received = unsafe {
        libc::recvmmsg(fd.as_raw_fd(), messages.as_mut_ptr(), count as _, flags as _, std::ptr::null_mut())
    };
    check(received)?;
    for (length, message) in lengths.iter_mut().zip(&messages).take(received as usize) {
        *length = (message.msg_len as usize).min(slot_bytes);
    }
    Ok(received as usize)
}

/// Bytes of a quoted packet that are handed on: ESP's header or AH's, as far as its layout is fixed.
pub(crate) const QUOTE_BYTES: usize = 12;

/// A message about a packet that the socket sent.
#[derive(Debug)]
pub(crate) struct ErrorMessage {
    /// Destination of the packet.
    pub(crate) to: Option<SocketAddr>,
    /// The kernel's `errno`.
    pub(crate) error: u32,
    /// Origin of the message: `SO_EE_ORIGIN_LOCAL`, `SO_EE_ORIGIN_ICMP`, …
    pub(crate) origin: u8,
    /// For a packet that was too long: the limit of the link.
    pub(crate) info: u32,
    /// The quoted bytes of its payload.
    pub(crate) quoted: ArrayVec<u8, QUOTE_BYTES>,
}

/// Returns the next message about a packet that the socket sent.
pub(crate) fn receive_error(fd: BorrowedFd<'_>) -> io::Result<ErrorMessage> {
    let mut quoted = [0; QUOTE_BYTES];
    let (mut error, mut origin, mut info) = (0, 0, 0);
    let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
    let received = receive_message(fd, &mut quoted, flags, |level, kind, data| {
        // An IPv6 socket reports on its IPv4 packets in the other form.
        let tells = [(libc::SOL_IP, libc::IP_RECVERR), (libc::SOL_IPV6, libc::IPV6_RECVERR)];
        // The fields of `struct sock_extended_err`.
        if let (true, Some(fields)) = (tells.contains(&(level, kind)), data.first_chunk::<12>()) {
            let word =
                |at: usize| u32::from_ne_bytes([fields[at], fields[at + 1], fields[at + 2], fields[at + 3]]);
            (error, origin, info) = (word(0), fields[4], word(8));
        }
    })?;
    let quoted = quoted.into_iter().take(received.bytes).collect();
    Ok(ErrorMessage { to: received.address, error, origin, info, quoted })
}
