//! Captures of other programs' negotiations, from Wireshark's own tests: with the keys that belong to them we open what
//! tshark opens, and read the same bytes.

#[path = "../../../testing/skip.rs"]
mod skip;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use sealane_ike::{
    crypto::{Encryption, Integrity, Sealer},
    wire::{HEADER_BYTES, Header, PayloadType, payload::parse_all},
};

/// The place of the captures and their keys, which `cargo xtask peers` unpacks.
const CAPTURES: &str = "/usr/local/lib/sealane-peers/wireshark";

fn unhex(word: &str) -> Vec<u8> {
    let digits = word.as_bytes().chunks_exact(2);
    digits
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).expect("digits"), 16).expect("hexadecimal"))
        .collect()
}

/// A row of Wireshark's table of keys: SPIs, both encryption keys, and both integrity keys.
struct Row {
    spis: [u64; 2],
    encryption: (String, [Vec<u8>; 2]),
    integrity: (String, [Vec<u8>; 2]),
}

impl Row {
    /// Reads `SPIi,SPIr,SK_ei,SK_er,"cipher",SK_ai,SK_ar,"integrity"`; names may contain commas.
    fn read(line: &str) -> Option<Self> {
        let mut quoted = line.split('"');
        let (keys, cipher) = (quoted.next()?, quoted.next()?);
        let (more, integrity) = (quoted.next()?, quoted.next()?);
        let keys: Vec<&str> = keys.split(',').map(str::trim).collect();
        let more: Vec<&str> = more.split(',').map(str::trim).collect();
        let spi = |word: &str| u64::from_str_radix(word, 16).ok();
        Some(Self {
            spis: [spi(keys.first()?)?, spi(keys.get(1)?)?],
            encryption: (cipher.to_owned(), [unhex(keys.get(2)?), unhex(keys.get(3)?)]),
            integrity: (integrity.to_owned(), [unhex(more.get(1)?), unhex(more.get(2)?)]),
        })
    }

    /// Returns the initiator's and the responder's keys, if the algorithms are ours.
    fn sealers(&self) -> Option<[Sealer; 2]> {
        let (cipher, keys) = &self.encryption;
        let encryption = match cipher.split(" [").next()? {
            "AES-GCM-256 with 16 octet ICV" => Encryption::Aes256Gcm,
            "AES-GCM-128 with 16 octet ICV" => Encryption::Aes128Gcm,
            "AES-CCM-256 with 16 octet ICV" => Encryption::Aes256Ccm16,
            "AES-CCM-128 with 12 octet ICV" => Encryption::Aes128Ccm12,
            "AES-CBC-256" => Encryption::Aes256Cbc,
            "AES-CBC-128" => Encryption::Aes128Cbc,
            _ => return None,
        };
        let (name, checks) = &self.integrity;
        let integrity = match name.split(" [").next()? {
            _ if encryption.is_combined() => None,
            "HMAC_SHA1_96" => Some(Integrity::HmacSha1),
            "HMAC_SHA2_256_128" => Some(Integrity::HmacSha256),
            "HMAC_SHA2_384_192" => Some(Integrity::HmacSha384),
            "HMAC_SHA2_512_256" => Some(Integrity::HmacSha512),
            _ => return None,
        };
        let of = |end: usize| {
            let check = if integrity.is_some() { &checks[end][..] } else { &[] };
            Sealer::new(encryption, integrity, &keys[end], check).expect("keys of the algorithms' lengths")
        };
        Some([of(0), of(1)])
    }
}

/// A capture as tshark reads it.
struct Read {
    /// The messages, without markers.
    messages: Vec<Vec<u8>>,
    /// The payloads that were decrypted, of each message that has some.
    decrypted: Vec<Vec<u8>>,
}

/// Has tshark read a capture with the table of keys in `folder`.
fn tshark(folder: &Path, capture: &Path) -> Read {
    let output = Command::new("tshark")
        .env("WIRESHARK_CONFIG_DIR", folder)
        .arg("-r")
        .arg(capture)
        .args(["-Y", "isakmp", "-T", "jsonraw"])
        .output()
        .expect("tshark runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let told = String::from_utf8(output.stdout).expect("text");
    // A field is a list, which begins with the bytes in hexadecimal.
    let all = |field: &str| -> Vec<Vec<u8>> {
        let name = format!("\"{field}_raw\"");
        let values = told.split(&name).skip(1);
        values.map(|value| unhex(value.split('"').nth(1).expect("it has bytes"))).collect()
    };
    let stripped = |payload: Vec<u8>| payload.strip_prefix(&[0; 4]).unwrap_or(&payload).to_vec();
    Read {
        messages: all("udp.payload").into_iter().map(stripped).collect(),
        decrypted: all("isakmp.enc.contained"),
    }
}

#[test]
fn what_others_have_said_is_opened_as_tshark_opens_it() {
    let root = Path::new(CAPTURES);
    let Ok(table) = fs::read_to_string(root.join("config/ikev2_decryption_table.tmpl")) else {
        return skip::skip(format!("no captures in {CAPTURES}"));
    };
    if Command::new("tshark").arg("--version").output().is_err() {
        return skip::skip("no tshark");
    }
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("ikev2_decryption_table"), &table).expect("a file");
    let rows: Vec<Row> = table.lines().filter_map(Row::read).collect();
    let entries = fs::read_dir(root.join("captures")).expect("the folder was unpacked");
    let mut captures: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    captures.sort();
    let mut opened = Vec::new();
    for capture in &captures {
        let name = capture.file_name().expect("a name").to_string_lossy().into_owned();
        let Read { messages, decrypted } = tshark(folder.path(), capture);
        let parsed: Vec<Header> =
            messages.iter().map(|message| Header::parse(message).expect("a message")).collect();
        // Every message of another program is at least read up to its encryption.
        for (header, message) in parsed.iter().zip(&messages) {
            if header.first != PayloadType::ENCRYPTED {
                parse_all(header.first, &message[HEADER_BYTES..]).expect(&name);
            }
        }
        let row = rows.iter().find(|row| {
            parsed.iter().any(|header| [header.spis.initiator, header.spis.responder] == row.spis)
        });
        let Some(sealers) = row.expect("the table has its keys").sealers() else { continue };
        let mut ours = Vec::new();
        for (header, message) in parsed.iter().zip(&messages) {
            if header.first != PayloadType::ENCRYPTED {
                continue;
            }
            let sealer = &sealers[usize::from(!header.is_from_initiator)];
            let clear = sealer.open(message, HEADER_BYTES + 4).expect(&name);
            let payloads = parse_all(PayloadType(message[HEADER_BYTES]), &clear).expect(&name);
            // An answer to a deletion has no payload.
            assert_eq!(payloads.is_empty(), clear.is_empty(), "{name}");
            // Nothing altered is opened.
            let mut altered = message.clone();
            *altered.last_mut().expect("a message") ^= 1;
            assert!(sealer.open(&altered, HEADER_BYTES + 4).is_err(), "{name}");
            if !clear.is_empty() {
                ours.push(clear.to_vec());
            }
        }
        assert!(ours.len() >= 2, "{name}: {} messages", ours.len());
        assert_eq!(ours, decrypted, "{name}");
        opened.push(name);
    }
    for algorithm in ["aes256cbc", "aes256gcm16", "aes128ccm12", "aes256ccm16"] {
        assert!(opened.iter().any(|name| name.contains(algorithm)), "{algorithm} is not among {opened:?}");
    }
}
