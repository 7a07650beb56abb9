//! Data that go from a file to a connection without passing through this process's memory.
//!
//! Guarantees: exactly the announced number of bytes is sent; a file that ends early, or cannot be read, is marked as
//! failed, and zeros take the place of what is missing.

use std::{os::unix::net::UnixStream, sync::Arc};

use rustix::{fs::sendfile, io::Errno};

use crate::send::work::{Bytes, SendFile};

/// Bytes that are copied at a time where the kernel cannot hand on the file's pages.
const COPY_BYTES: usize = 32 << 10;

/// The data of one request.
pub(super) struct Source {
    file: Arc<SendFile>,
    offset: u64,
}

impl Source {
    pub(super) fn new(file: &Arc<SendFile>, offset: u64) -> Self {
        Self { file: file.clone(), offset }
    }

    /// Sends some of the `left` bytes that are left, and returns how many; the next call continues behind them.
    pub(super) fn send(&mut self, socket: &UnixStream, left: usize) -> Result<usize, Errno> {
        let sent = match &self.file.bytes {
            Bytes::File(open) => match sendfile(socket, open, Some(&mut self.offset.clone()), left) {
                Ok(sent) if sent > 0 => sent,
                Err(error @ (Errno::AGAIN | Errno::INTR)) => return Err(error),
                // The file ends here; or its file system has no pages to hand on, or the connection is lost, which the
                // copy shows.
                Ok(_) | Err(_) => self.copy(socket, left)?,
            },
            Bytes::Pipe(_) => self.copy(socket, left)?,
        };
        self.offset += sent as u64;
        Ok(sent)
    }

    fn copy(&self, socket: &UnixStream, left: usize) -> Result<usize, Errno> {
        let mut buffer = [0; COPY_BYTES];
        let buffer = &mut buffer[..left.min(COPY_BYTES)];
        let read = match &self.file.bytes {
            Bytes::File(open) => open.read_at(self.offset, buffer),
            Bytes::Pipe(_) => Ok(0),
        };
        match read {
            Ok(read) if read == buffer.len() => {}
            Ok(_) => self.file.fail("it became shorter while it was read".to_owned()),
            Err(error) => self.file.fail(error.to_string()),
        }
        rustix::io::write(socket, buffer)
    }
}
