//! Channels over socket pairs: deadlines, bounds and ends.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::thread;

use rustix::event::PollFlags;

use super::*;
use crate::frame::{FrameError, MAX_FRAME_BYTES};

fn after(ms: u64) -> Instant {
    Instant::now() + Duration::from_millis(ms)
}

fn soon() -> Instant {
    after(20_000)
}

/// Returns a channel and the bare socket at its other end.
fn channel_and_socket() -> (Channel, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let wire = Wire::socket(ours.into()).unwrap();
    (Channel::plain(wire, ChannelKind::Local, PeerName::Local, None), theirs)
}

#[test]
fn frames_of_all_sizes_both_ways() {
    let (mut a, mut b) = Channel::pair().unwrap();
    let echo = thread::spawn(move || {
        while let Ok(frame) = b.recv(soon()) {
            b.send(&frame.unwrap(), soon()).unwrap();
        }
    });
    for len in [0, 1, 65_531, 65_532, 65_533, 1 << 17, MAX_FRAME_BYTES] {
        let frame: Vec<u8> = (0..len).map(|i| i as u8).collect();
        a.send(&frame, soon()).unwrap();
        assert!(a.recv(soon()).unwrap() == Some(frame), "{len} bytes");
    }
    let too_long = a.send(&vec![0; MAX_FRAME_BYTES + 1], soon()).unwrap_err();
    assert!(matches!(too_long, ChannelError::SendTooLong { .. }), "{too_long}");
    a.send(b"still usable", soon()).unwrap();
    assert_eq!(a.recv(soon()).unwrap().as_deref(), Some(&b"still usable"[..]));
    drop(a);
    echo.join().unwrap();
}

#[test]
fn two_ends_that_both_send_do_not_block_each_other() {
    let (mut a, mut b) = Channel::pair().unwrap();
    let frame = vec![3; MAX_FRAME_BYTES];
    thread::scope(|scope| {
        for channel in [&mut a, &mut b] {
            let frame = &frame;
            scope.spawn(move || {
                channel.send(frame, soon()).unwrap();
                assert!(channel.recv(soon()).unwrap().as_ref() == Some(frame));
            });
        }
    });
}

#[test]
fn a_silent_peer_costs_the_deadline() {
    let (mut a, _b) = Channel::pair().unwrap();
    assert_eq!(a.recv(Instant::now()).unwrap(), None);
    assert_eq!(a.recv(after(20)).unwrap(), None);
    let mut sent = 0;
    let error = loop {
        match a.send(&[0; 100_000], after(20)) {
            Ok(()) => sent += 1,
            Err(error) => break error,
        }
        assert!(sent < 1000, "a socket has no such buffer");
    };
    assert!(matches!(error, ChannelError::Deadline { .. }), "{error}");
    let error = a.send(b"x", soon()).unwrap_err();
    assert!(matches!(error, ChannelError::Poisoned), "half a frame is out: {error}");
}

#[test]
fn a_slow_peer_gains_no_time() {
    let (mut a, mut b) = channel_and_socket();
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let slow = thread::spawn(move || {
        b.write_all(&1000_u32.to_le_bytes()).unwrap();
        while stopped
            .recv_timeout(Duration::from_millis(2))
            .is_err_and(|e| e == std::sync::mpsc::RecvTimeoutError::Timeout)
        {
            b.write_all(b"x").unwrap();
        }
        b
    });
    // Some fifty of the thousand bytes arrive in this time; each of them is progress.
    assert_eq!(a.recv(after(100)).unwrap(), None);
    drop(stop);
    let mut b = slow.join().unwrap();
    // A late frame is not lost.
    b.write_all(&[b'x'; 1000]).unwrap();
    assert_eq!(a.recv(soon()).unwrap(), Some(vec![b'x'; 1000]));
}

#[test]
fn an_over_long_frame_is_refused_after_what_came_before() {
    let (mut a, mut b) = channel_and_socket();
    b.write_all(b"\x02\0\0\0ok\xff\xff\xff\xff").unwrap();
    assert_eq!(a.recv(soon()).unwrap().as_deref(), Some(&b"ok"[..]));
    let error = a.recv(soon()).unwrap_err();
    assert!(matches!(error, ChannelError::Frame(FrameError { len_bytes: u32::MAX })), "{error}");
    assert!(matches!(a.recv(soon()), Err(ChannelError::Poisoned)));
    assert!(matches!(a.send(b"x", soon()), Err(ChannelError::Poisoned)));
}

#[test]
fn the_end_is_told_from_a_cut() {
    for (bytes, orderly) in
        [(&b""[..], true), (b"\x01\0\0\0x", true), (b"\x01\0", false), (b"\x02\0\0\0x", false)]
    {
        let (mut a, mut b) = channel_and_socket();
        b.write_all(bytes).unwrap();
        drop(b);
        let error = loop {
            match a.recv(soon()) {
                Ok(frame) => assert_eq!(frame.as_deref(), Some(&b"x"[..])),
                Err(error) => break error,
            }
        };
        assert_eq!(matches!(error, ChannelError::Closed), orderly, "{bytes:?}: {error}");
        assert_eq!(matches!(error, ChannelError::Truncated), !orderly, "{bytes:?}: {error}");
        // And again, for whoever asks later.
        assert_eq!(a.recv(soon()).unwrap_err().to_string(), error.to_string());
    }
}

#[test]
fn closing_takes_two() {
    let (mut a, mut b) = Channel::pair().unwrap();
    a.send(b"last", soon()).unwrap();
    let other = thread::spawn(move || {
        assert_eq!(b.recv(soon()).unwrap().as_deref(), Some(&b"last"[..]));
        assert!(matches!(b.recv(soon()), Err(ChannelError::Closed)));
        // An end that has closed already drops it.
        b.send(b"late", soon()).unwrap();
        b.close(soon()).unwrap();
    });
    a.close(soon()).unwrap();
    other.join().unwrap();

    let (a, _b) = Channel::pair().unwrap();
    assert!(matches!(a.close(after(20)), Err(ChannelError::Deadline { .. })));
}

#[test]
fn a_wake_interrupts_and_a_frame_goes_first() {
    let (mut a, mut b) = Channel::pair().unwrap();
    let (wake, waker) = UnixStream::pair().unwrap();
    let wakes = [PollFd::new(&wake, PollFlags::IN)];
    assert_eq!(a.recv_or_wake(after(10), &wakes, false).unwrap(), Received::Deadline);
    (&waker).write_all(b"!").unwrap();
    assert_eq!(a.recv_or_wake(soon(), &wakes, false).unwrap(), Received::Woken);
    b.send(b"frame", soon()).unwrap();
    assert_eq!(a.recv_or_wake(soon(), &wakes, false).unwrap(), Received::Frame(b"frame".to_vec()));
    assert_eq!(a.recv_or_wake(soon(), &wakes, false).unwrap(), Received::Woken);
}

#[test]
fn room_for_a_frame_is_waited_for() {
    let (mut a, mut b) = Channel::pair().unwrap();
    assert!(a.has_room());
    assert_eq!(a.recv_or_wake(soon(), &[], true).unwrap(), Received::Woken);
    let frame = vec![1; 64 << 10];
    while a.has_room() {
        a.send(&frame, after(100)).unwrap();
    }
    assert_eq!(a.recv_or_wake(after(10), &[], true).unwrap(), Received::Deadline);
    while b.recv(after(0)).unwrap().is_some() {}
    assert_eq!(a.recv_or_wake(soon(), &[], true).unwrap(), Received::Woken);
}

#[test]
fn a_flood_stays_in_the_socket() {
    let (mut a, mut b) = Channel::pair().unwrap();
    let frame = vec![1; 256 << 10];
    // The bytes kept while sending are bounded: 2 MiB, one chunk, and the frame under way.
    let flood = thread::spawn(move || {
        let mut sent = 0;
        while b.send(&frame, after(100)).is_ok() {
            sent += 1;
        }
        (sent, b)
    });
    assert!(matches!(
        a.send(&vec![0; MAX_FRAME_BYTES], after(400)),
        Err(ChannelError::Deadline { .. }) | Ok(())
    ));
    let (sent, _b) = flood.join().unwrap();
    assert!(sent < 40, "{sent} frames of 256 KiB went somewhere");
}

#[test]
fn pipes_instead_of_a_socket() {
    let pipe = || rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
    let ((r1, w1), (r2, w2)) = (pipe(), pipe());
    let end = |r, w| Channel::plain(Wire::pair(r, w).unwrap(), ChannelKind::Stdio, PeerName::Local, None);
    let (mut a, mut b) = (end(r1, w2), end(r2, w1));
    let big = vec![9; MAX_FRAME_BYTES];
    thread::scope(|scope| {
        scope.spawn(|| a.send(&big, soon()).unwrap());
        assert!(b.recv(soon()).unwrap().as_ref() == Some(&big));
    });
    b.send(b"back", soon()).unwrap();
    assert_eq!(a.recv(soon()).unwrap().as_deref(), Some(&b"back"[..]));
    let other = thread::spawn(move || b.close(soon()).unwrap());
    a.close(soon()).unwrap();
    other.join().unwrap();
}

#[test]
fn flags_are_given_back() {
    let (r, w) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
    let (r_too, w_too) = (r.try_clone().unwrap(), w.try_clone().unwrap());
    let nonblocking =
        |fd: &OwnedFd| rustix::fs::fcntl_getfl(fd).unwrap().contains(rustix::fs::OFlags::NONBLOCK);
    let wire = Wire::pair(r, w).unwrap();
    assert!(nonblocking(&r_too) && nonblocking(&w_too));
    drop(wire);
    assert!(!nonblocking(&r_too) && !nonblocking(&w_too));
}
