//! A gateway gives up its capabilities, and root, once its device, sockets and files are open.
//!
//! Guarantees: no program that is started from here gets a capability back; if the system has the user [`USER`], a
//! gateway that root has started is that user from then on, with only its own group; a step that fails is an error,
//! and the gateway does not continue with a part of its rights.

use std::{
    fs::File,
    io::{self, Read as _},
};

use rustix::{
    process::{Gid, Uid},
    thread::{
        CapabilitySet, CapabilitySets, set_capabilities, set_no_new_privs, set_thread_groups,
        set_thread_res_gid, set_thread_res_uid,
    },
};

/// The user of gateways and daemons, which the package creates.
pub const USER: &str = "sealane";
/// The list of the system's users.
const PASSWD: &str = "/etc/passwd";
/// The maximum length of a list of users in bytes.
const PASSWD_BYTES_MAX: u64 = 16 << 20;

/// A user of the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Account {
    uid: Uid,
    gid: Gid,
}

/// Returns the user that this process is to become: [`USER`], if root has started it and the system has that user.
///
/// # Errors
/// Fails if the list of users cannot be read, or if the user's line is malformed.
pub fn account() -> io::Result<Option<Account>> {
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    let mut text = Vec::new();
    match File::open(PASSWD) {
        // The process runs in a container that contains only the program.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?.take(PASSWD_BYTES_MAX).read_to_end(&mut text)?,
    };
    find(&text, USER)
}

/// Returns the user of this name in a list such as passwd(5); `None` if there is no such user or it is root.
///
/// # Errors
/// Fails if the user's line is malformed.
pub fn find(passwd: &[u8], name: &str) -> io::Result<Option<Account>> {
    let damaged =
        || io::Error::new(io::ErrorKind::InvalidData, format!("{PASSWD} is damaged at user {name}"));
    for line in passwd.split(|&byte| byte == b'\n') {
        let mut fields = line.split(|&byte| byte == b':');
        if fields.next() != Some(name.as_bytes()) {
            continue;
        }
        // The password is stored elsewhere since before Linux.
        let mut fields = fields.skip(1);
        let mut number = || -> Option<u32> {
            let digits = str::from_utf8(fields.next()?).ok()?;
            digits.parse().ok().filter(|&number| number != u32::MAX)
        };
        let (uid, gid) = (number().ok_or_else(damaged)?, number().ok_or_else(damaged)?);
        // If the system's `sealane` is root, there is no user to become.
        return Ok((uid != 0).then(|| Account { uid: Uid::from_raw(uid), gid: Gid::from_raw(gid) }));
    }
    Ok(None)
}

/// Gives up every capability of this thread, and so of those that it starts, and becomes `account`.
///
/// # Errors
/// Fails if the system refuses. The thread may then have a part of its rights, and should end.
pub fn give_up(account: Option<Account>) -> io::Result<()> {
    if let Some(Account { uid, gid }) = account {
        set_thread_groups(&[])?;
        set_thread_res_gid(gid, gid, gid)?;
        set_thread_res_uid(uid, uid, uid)?;
    }
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?;
    set_no_new_privs(true)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_found_by_its_whole_name() {
        let text = b"root:x:0:0:root:/root:/bin/sh\nsealane2:x:7:7::/:/bin/sh\nsealane:x:998:997:d:/var:/bin/false\n";
        let account = find(text, "sealane").expect("a good list").expect("it is there");
        assert_eq!((account.uid.as_raw(), account.gid.as_raw()), (998, 997));
        assert_eq!(find(text, "seal").expect("a good list"), None);
        assert_eq!(find(text, "root").expect("a good list"), None);
        assert_eq!(find(b"", "sealane").expect("a good list"), None);
        for damaged in ["sealane", "sealane:x", "sealane:x:1", "sealane:x:1:-1:", "sealane:x:4294967295:1"] {
            assert!(find(damaged.as_bytes(), "sealane").is_err(), "{damaged}");
        }
    }
}
