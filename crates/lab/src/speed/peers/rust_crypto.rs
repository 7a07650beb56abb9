//! The RustCrypto crates: portable code, with AES and SHA instructions if a crate detects them.

use super::super::SpeedError;
use super::super::work::{Handler, Runner, Task, iv, one_by_one};
use super::Peer;
use cipher::block_padding::NoPadding;
use cipher::consts::{U12, U16, U20};
use cipher::{
    BlockCipherDecrypt, BlockCipherEncrypt, BlockModeDecrypt as _, BlockModeEncrypt as _, InnerIvInit as _,
    KeyInit, StreamCipher as _,
};
use hmac::Hmac;
use sealane_transform::{Algorithm, BlockCipher, Cipher, Digest, Direction, Mode};
use std::hint::black_box;

type Rc5 = rc5::RC5<u32, U12, U16>;
type Rc5R16 = rc5::RC5<u32, U16, U16>;
type Rc6 = rc6::RC6<u32, U20, U16>;

/// Returns whether there is a crate for the algorithm.
pub(super) fn has(algorithm: Algorithm) -> bool {
    let runs = match algorithm {
        Algorithm::Cipher(Cipher::Block(_, mode)) => mode == Mode::Cbc,
        Algorithm::Digest(_) | Algorithm::Cipher(_) | Algorithm::Aead(_) | Algorithm::Gmac(_) => true,
    };
    runs && algorithm.peers().rust_crypto.is_some()
}

/// The crates as a runner.
pub(super) struct RustCrypto;

fn refused(task: &Task) -> SpeedError {
    Peer::RustCrypto.refuses(task.algorithm)
}

impl Runner for RustCrypto {
    fn with(&self, task: &Task, scope: &mut dyn FnMut(&mut Handler<'_>)) -> Result<(), SpeedError> {
        match task.algorithm {
            Algorithm::Digest(Digest::Md5) => hash::<md5::Md5>(task, scope),
            Algorithm::Digest(Digest::Sha1) => hash::<sha1::Sha1>(task, scope),
            Algorithm::Digest(Digest::Sha224) => hash::<sha2::Sha224>(task, scope),
            Algorithm::Digest(Digest::Sha256) => hash::<sha2::Sha256>(task, scope),
            Algorithm::Digest(Digest::HmacMd5) => mac::<Hmac<md5::Md5>>(task, scope),
            Algorithm::Digest(Digest::HmacSha1) => mac::<Hmac<sha1::Sha1>>(task, scope),
            Algorithm::Digest(Digest::HmacSha256) => mac::<Hmac<sha2::Sha256>>(task, scope),
            Algorithm::Digest(Digest::Sha384) => hash::<sha2::Sha384>(task, scope),
            Algorithm::Digest(Digest::Sha512) => hash::<sha2::Sha512>(task, scope),
            Algorithm::Digest(Digest::HmacSha384) => mac::<Hmac<sha2::Sha384>>(task, scope),
            Algorithm::Digest(Digest::HmacSha512) => mac::<Hmac<sha2::Sha512>>(task, scope),
            Algorithm::Cipher(Cipher::Rc4) => rc4(task, scope),
            Algorithm::Cipher(Cipher::Block(cipher, Mode::Cbc)) => match cipher {
                BlockCipher::Des => cbc_mode::<des::Des>(task, scope),
                BlockCipher::TripleDes => cbc_mode::<des::TdesEde3>(task, scope),
                BlockCipher::Aes128 => cbc_mode::<aes::Aes128>(task, scope),
                BlockCipher::Aes192 => cbc_mode::<aes::Aes192>(task, scope),
                BlockCipher::Aes256 => cbc_mode::<aes::Aes256>(task, scope),
                BlockCipher::Rc5 => cbc_mode::<Rc5>(task, scope),
                BlockCipher::Rc5R16 => cbc_mode::<Rc5R16>(task, scope),
                BlockCipher::Rc6 => cbc_mode::<Rc6>(task, scope),
                BlockCipher::Blowfish => cbc_mode::<blowfish::Blowfish>(task, scope),
                BlockCipher::Idea => cbc_mode::<idea::Idea>(task, scope),
                #[allow(unreachable_patterns, reason = "a new cipher may have no crate")]
                _ => Err(refused(task)),
            },
            _ => Err(refused(task)),
        }
    }
}

type Scope<'a> = dyn FnMut(&mut Handler<'_>) + 'a;

fn hash<H: sha2::Digest>(task: &Task, scope: &mut Scope<'_>) -> Result<(), SpeedError> {
    one_by_one(task, Peer::RustCrypto, scope, |_, message| {
        black_box(H::digest(message));
        true
    })
}

/// Returns the keys of a task, each expanded once.
fn keys<K: KeyInit>(task: &Task) -> Result<Vec<K>, SpeedError> {
    let keys = task.keys().iter().map(|key| <K as KeyInit>::new_from_slice(key)).collect::<Result<_, _>>();
    keys.map_err(|_| refused(task))
}

fn mac<M: hmac::Mac + KeyInit + Clone>(task: &Task, scope: &mut Scope<'_>) -> Result<(), SpeedError> {
    let keys = keys::<M>(task)?;
    one_by_one(task, Peer::RustCrypto, scope, |index, message| {
        black_box(keys[index % keys.len()].clone().chain_update(&*message).finalize());
        true
    })
}

fn rc4(task: &Task, scope: &mut Scope<'_>) -> Result<(), SpeedError> {
    let mut keys = keys::<rc4::Rc4>(task)?;
    one_by_one(task, Peer::RustCrypto, scope, |index, message| {
        let key = index % keys.len();
        keys[key].apply_keystream(message);
        true
    })
}

/// Runs CBC with the key expanded once.
fn cbc_mode<C>(task: &Task, scope: &mut Scope<'_>) -> Result<(), SpeedError>
where
    C: BlockCipherEncrypt + BlockCipherDecrypt + KeyInit,
{
    let keys = keys::<C>(task)?;
    let mut block = cipher::Iv::<cbc::Encryptor<C>>::default();
    let mut count = 0_u64;
    one_by_one(task, Peer::RustCrypto, scope, |index, message| {
        count += 1;
        block[..8].copy_from_slice(&iv(count)[..8]);
        let key = &keys[index % keys.len()];
        let bytes = message.len();
        if task.direction == Direction::Encrypt {
            let mode = cbc::Encryptor::<&C>::inner_iv_init(key, &block);
            mode.encrypt_padded::<NoPadding>(message, bytes).is_ok()
        } else {
            let mode = cbc::Decryptor::<&C>::inner_iv_init(key, &block);
            mode.decrypt_padded::<NoPadding>(message).is_ok()
        }
    })
}
