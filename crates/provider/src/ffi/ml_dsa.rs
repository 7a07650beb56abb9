//! provider-signature(7) of ML-DSA, with the parameters of EVP_SIGNATURE-ML-DSA(7) (OpenSSL 3.5).

#![allow(unsafe_code)]

use super::params::{INTEGER, OCTET_STRING, Param, Params};
use super::signs::{duplicate, message_init, new, sign, verify};
use super::{Context, Dispatch, Settable, described, table};
use crate::ml_dsa::MlDsaSigning;
use crate::reason::Reason;
use std::ffi::{c_int, c_void};

type SigningContext = Context<MlDsaSigning>;

macro_rules! of_set {
    ($family:literal) => {
        table![
            1 => new::<MlDsaSigning, $family>,
            3 => sign::<MlDsaSigning>,
            5 => verify::<MlDsaSigning>,
            8 => message_init::<MlDsaSigning>,
            11 => sign::<MlDsaSigning>,
            12 => message_init::<MlDsaSigning>,
            15 => verify::<MlDsaSigning>,
            16 => SigningContext::free,
            17 => duplicate::<MlDsaSigning>,
            18 => get_params,
            19 => gettable_params,
            20 => SigningContext::set_params,
            21 => settable_params,
            27 => SigningContext::init,
            30 => SigningContext::init,
        ]
    };
}

pub(super) static ML_DSA_44: &[Dispatch] = of_set!(5);
pub(super) static ML_DSA_65: &[Dispatch] = of_set!(6);
pub(super) static ML_DSA_87: &[Dispatch] = of_set!(7);

/// The message is encoded as FIPS 204 has it, not given whole (`OSSL_SIGNATURE_PARAM_MESSAGE_ENCODING`).
const ENCODED: i64 = 1;

described! { settable_params(*mut c_void, *mut c_void):
    c"context-string" => OCTET_STRING,
    c"message-encoding" => INTEGER,
    c"deterministic" => INTEGER,
    c"mu" => INTEGER,
}

impl Settable for MlDsaSigning {
    fn set(&mut self, params: Params<'_>) -> Result<(), Reason> {
        if let Some(context) = params.octets(c"context-string") {
            self.set_context(context)?;
        }
        if let Some(is_deterministic) = params.number(c"deterministic") {
            self.is_deterministic = is_deterministic != 0;
        }
        if let Some(is_representative) = params.number(c"mu") {
            self.is_representative = is_representative != 0;
        }
        // The service hedges by its own random bytes, and signs no message whose encoding is not FIPS 204's.
        let is_encoded = params.number(c"message-encoding").is_none_or(|encoding| encoding == ENCODED);
        if is_encoded && !params.has(c"test-entropy") { Ok(()) } else { Err(Reason::Unsupported) }
    }
}

described! { gettable_params(*mut c_void, *mut c_void): c"algorithm-id" => OCTET_STRING }

/// # Safety
/// The contract of provider functions, see [`super`]: `context` is a value of [`new`] or [`duplicate`];
/// `array`.
unsafe extern "C" fn get_params(context: *mut c_void, array: *mut Param) -> c_int {
    // SAFETY: OpenSSL hands in a value of `new`, and an array with a terminator.
    let (own, params) = unsafe { (SigningContext::shared(context), Params::new(array)) };
    own.core.succeeds(|| {
        let is_filled =
            !params.has(c"algorithm-id") || params.fill_octets(c"algorithm-id", &own.value.algorithm_id()?);
        if is_filled { Ok(()) } else { Err(Reason::BufferTooSmall) }
    })
}
