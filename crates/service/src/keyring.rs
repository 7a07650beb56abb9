//! Reads a passphrase from the kernel's keyring: `keyctl padd user NAME @u < FILE` puts it there until the next boot.

#![allow(unsafe_code)]

use std::ffi::CString;
use std::io;
use zeroize::Zeroizing;

/// The maximum length of a passphrase in bytes.
const BYTES_MAX: usize = 1024;

/// Reads the key of type `user` with this description (keyctl(2)) from the keyrings of the process.
///
/// # Errors
/// Fails with `NotFound` if there is none, with `InvalidInput` if the name contains a zero byte, or if the kernel
/// fails.
pub fn passphrase(description: &str) -> io::Result<Zeroizing<Vec<u8>>> {
    let description = CString::new(description).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    let kind = c"user";
    let nothing = std::ptr::null::<libc::c_char>();
    // SAFETY: request_key(2) reads two strings that end with a zero byte and live through the call.
    let id = unsafe { libc::syscall(libc::SYS_request_key, kind.as_ptr(), description.as_ptr(), nothing, 0) };
    if id < 0 {
        let error = io::Error::last_os_error();
        let is_missing = error.raw_os_error() == Some(libc::ENOKEY);
        return Err(if is_missing { io::ErrorKind::NotFound.into() } else { error });
    }
    let mut content = Zeroizing::new(vec![0u8; BYTES_MAX]);
    let (to, capacity) = (content.as_mut_ptr(), content.len());
    // SAFETY: KEYCTL_READ writes at most `capacity` bytes to the buffer, and returns the length of the key.
    let length =
        unsafe { libc::syscall(libc::SYS_keyctl, libc::KEYCTL_READ as libc::c_ulong, id, to, capacity) };
    match usize::try_from(length) {
        Err(_) => Err(io::Error::last_os_error()),
        Ok(length) if length > BYTES_MAX => Err(io::ErrorKind::InvalidData.into()),
        Ok(length) => {
            content.truncate(length);
            Ok(content)
        }
    }
}
