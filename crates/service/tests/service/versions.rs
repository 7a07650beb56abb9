//! A client of the last version of the protocol, written down as it was, against the present service. When the version grows,
//! what is here becomes that of the version before it.

use super::common::Engine;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{read, write};
use rustix::net::{RecvFlags, SendFlags};
use sealane_asymmetric::{PublicKey, Verification};
use sealane_client::ring::{Consumer, Direction, Head, Producer};
use sealane_client::setup::VERSION;
use sealane_client::{KeyKind, Memory, Operation, Status, socket};
use serde::{Deserialize, Serialize};
use std::os::fd::{AsFd as _, OwnedFd};
use zeroize::Zeroizing;

/// The version that this client speaks.
const LAST: u16 = 1;

const _: () = assert!(LAST + 1 == VERSION);

#[derive(Serialize, Deserialize)]
enum Ask {
    Hello { lowest: u16, highest: u16, program: String },
    Open(Source),
    _Lend { _pkcs8: Vec<u8> },
    _Close { _handle: u32 },
    List { after: String },
}

#[derive(Serialize, Deserialize)]
enum Source {
    Name(String),
}

#[derive(Debug, Serialize, Deserialize)]
enum Told {
    Welcome { version: u16, service: String },
    Key { handle: u32, info: Info },
    Keys(Vec<Info>),
    _Done,
    _Status,
    Refused(Refused),
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum Refused {
    _Version { _lowest: u16, _highest: u16 },
    _NotAllowed,
    _NotAdmin,
    NoSuchKey,
}

#[derive(Debug, Serialize, Deserialize)]
struct Info {
    name: String,
    kind: Kind,
    public: Vec<u8>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum Kind {
    Rsa { bits: u16 },
    P256,
    P384,
    Ed25519,
    X25519,
}

#[test]
fn a_program_with_the_client_of_the_last_version_goes_on() {
    let (_folder, mut engine) = Engine::fresh();
    engine.client().generate("web", KeyKind::Ed25519).unwrap();
    let connection = socket::connect_to(&engine.socket).unwrap();
    let ask = |ask: &Ask| {
        socket::send(&connection, ask, &[], SendFlags::empty()).unwrap();
        socket::receive::<Told>(&connection, RecvFlags::empty()).unwrap().expect("an answer")
    };
    let (told, fds) = ask(&Ask::Hello { lowest: LAST, highest: LAST, program: "of before".to_owned() });
    assert!(matches!(told, Told::Welcome { version: LAST, .. }), "{told:?}");
    // The ends of two pipes: to write, to read, and to keep.
    let [memory, theirs, own, _kept] = <[OwnedFd; 4]>::try_from(fds).unwrap();
    let memory = Memory::map(memory.as_fd()).unwrap();
    let (told, _) = ask(&Ask::Open(Source::Name("web".to_owned())));
    let Told::Key { handle, info } = told else { panic!("{told:?}") };
    assert_eq!((info.name.as_str(), info.kind), ("web", Kind::Ed25519));
    // Keys of kinds that it does not know are not there for it.
    engine.client().generate("new", KeyKind::P521).unwrap();
    let (told, _) = ask(&Ask::List { after: String::new() });
    assert!(matches!(&told, Told::Keys(all) if all.len() == 1 && all[0].name == "web"), "{told:?}");
    let (told, _) = ask(&Ask::Open(Source::Name("new".to_owned())));
    assert!(matches!(told, Told::Refused(Refused::NoSuchKey)), "{told:?}");
    let mut requests = Producer::new(Direction::Requests);
    let mut answers = Consumer::new(Direction::Answers);
    let mut content = Zeroizing::default();
    for tag in 1..100 {
        let (code, parameters) = Operation::SignEd25519.to_numbers();
        requests.push(&memory, Head { tag, code, key: handle, parameters }, b"a message").unwrap();
        requests.publish(&memory);
        if memory.bells().must_wake_service() {
            write(&theirs, &[1]).unwrap();
        }
        let head = loop {
            memory.bells().client_is_about_to_wait();
            if let Some(head) = answers.take(&memory, &mut content, true).unwrap() {
                break head;
            }
            poll(&mut [PollFd::new(&own, PollFlags::IN)], None).unwrap();
            assert!(read(&own, &mut [0u8; 64][..]).unwrap() > 0);
        };
        answers.release(&memory);
        assert_eq!((head.tag, head.code), (tag, Status::Done.to_number()));
        let public = PublicKey::of_der(&info.public).unwrap();
        assert!(public.verifies(Verification::Ed25519, b"a message", &content));
    }
    // With pipes, whose other end it kept open, it raised no signal when the service was gone; what is in their place raises none.
    engine.stop();
    assert_ne!(write(&theirs, &[1]), Err(rustix::io::Errno::PIPE));
    assert!(read(&own, &mut [0u8; 64][..]).is_err(), "it does not wait");
}
