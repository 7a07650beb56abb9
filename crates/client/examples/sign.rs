//! Signs a text with a key that stays in the engine: `cargo run -p sealane-client --example sign -- NAME TEXT
//! [SOCKET]`.

use aws_lc_rs::digest::{SHA256, digest};
use sealane_client::{Client, Hash, KeyKind, Operation, SOCKET};
use std::error::Error;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, text, rest @ ..] = arguments.as_slice() else { return Err("NAME TEXT [SOCKET]".into()) };
    let socket = rest.first().map_or(SOCKET, String::as_str);
    let mut engine = Client::connect(Path::new(socket), "example sign")?;
    let key = engine.open(name)?;
    let signature = match key.info.kind {
        KeyKind::Ed25519 => engine.call(&key, Operation::SignEd25519, text.as_bytes())?.to_vec(),
        _ => engine.sign(&key, Hash::Sha256, digest(&SHA256, text.as_bytes()).as_ref())?,
    };
    let digits: String = signature.iter().map(|byte| format!("{byte:02x}")).collect();
    println!("{} signed {} bytes: {digits}", key.info.kind, text.len());
    Ok(())
}
