//! Requests of programs that the service makes something: pairs of keys, and secrets that it agrees on with a peer.
//!
//! **Guarantees:** a pair is one of the token and stays in the service, if the policy lets the user manage keys; a secret needs the
//! policy's use `derive`, and is one of the session; templates that ask for something else are refused.

use crate::attribute::{Template, flag, number};
use crate::mechanism;
use crate::object::{Content, Half, Object, kind_of_curve, parameter_set};
use crate::refused::Refused;
use cryptoki_sys as c;
use sealane_client::key::is_name;
use sealane_client::{KeyKind, MlDsaSet};

/// The maximum length of a peer's public half in bytes.
pub(crate) const PEER_BYTES_MAX: usize = 256;

const INCONSISTENT: Refused = Refused(c::CKR_TEMPLATE_INCONSISTENT);

fn value(template: &Template, wanted: c::CK_ATTRIBUTE_TYPE) -> Option<&[u8]> {
    template.iter().find(|(kind, _)| *kind == wanted).map(|(_, value)| value.as_slice())
}

/// Returns the name and the kind of the pair that two templates, of the public and of the private half, ask for.
pub(crate) fn pair_of(
    mechanism: c::CK_MECHANISM_TYPE,
    public: &Template,
    private: &Template,
) -> Result<(String, KeyKind), Refused> {
    let incomplete = Refused(c::CKR_TEMPLATE_INCOMPLETE);
    for template in [public, private] {
        if value(template, c::CKA_TOKEN).is_some_and(|value| value != flag(true)) {
            return Err(INCONSISTENT);
        }
    }
    let is_not = |kind, wrong| value(private, kind).is_some_and(|value| value == flag(wrong));
    if is_not(c::CKA_SENSITIVE, false) || is_not(c::CKA_EXTRACTABLE, true) {
        return Err(INCONSISTENT);
    }
    let label = value(private, c::CKA_LABEL).or_else(|| value(public, c::CKA_LABEL)).ok_or(incomplete)?;
    let name = std::str::from_utf8(label).ok().filter(|name| is_name(name));
    let name = name.ok_or(Refused(c::CKR_ATTRIBUTE_VALUE_INVALID))?.to_owned();
    let curve = || {
        let parameters = value(public, c::CKA_EC_PARAMS).ok_or(incomplete)?;
        kind_of_curve(parameters).ok_or(Refused(c::CKR_CURVE_NOT_SUPPORTED))
    };
    let kind = match mechanism {
        c::CKM_RSA_PKCS_KEY_PAIR_GEN => {
            let digits = value(public, c::CKA_MODULUS_BITS).ok_or(incomplete)?;
            let digits = digits.try_into().map_err(|_| Refused(c::CKR_ATTRIBUTE_VALUE_INVALID))?;
            let bits = u16::try_from(c::CK_ULONG::from_ne_bytes(digits)).unwrap_or(0);
            let exponent = value(public, c::CKA_PUBLIC_EXPONENT).unwrap_or(&[1, 0, 1]);
            let zeros = exponent.iter().take_while(|digit| **digit == 0).count();
            let kind = KeyKind::Rsa { bits };
            // Others than those of names are not made.
            if exponent[zeros..] != [1, 0, 1] || kind.to_string().parse() != Ok(kind) {
                return Err(Refused(c::CKR_KEY_SIZE_RANGE));
            }
            kind
        }
        c::CKM_EC_KEY_PAIR_GEN => curve()?,
        c::CKM_ML_DSA_KEY_PAIR_GEN => {
            let set = value(public, c::CKA_PARAMETER_SET).ok_or(incomplete)?;
            let mut all = MlDsaSet::ALL.into_iter();
            let found = all.find(|known| number(parameter_set(*known)) == set);
            KeyKind::MlDsa(found.ok_or(Refused(c::CKR_ATTRIBUTE_VALUE_INVALID))?)
        }
        c::CKM_EC_EDWARDS_KEY_PAIR_GEN if curve()? == KeyKind::Ed25519 => KeyKind::Ed25519,
        c::CKM_EC_MONTGOMERY_KEY_PAIR_GEN if curve()? == KeyKind::X25519 => KeyKind::X25519,
        c::CKM_EC_EDWARDS_KEY_PAIR_GEN | c::CKM_EC_MONTGOMERY_KEY_PAIR_GEN => return Err(INCONSISTENT),
        _ => return Err(Refused(c::CKR_MECHANISM_INVALID)),
    };
    Ok((name, kind))
}

/// Returns the peer's public half as the service takes it: programs give the point as it is, or within an OCTET STRING.
pub(crate) fn peer_of<'a>(object: &Object, peer: &'a [u8]) -> Result<&'a [u8], Refused> {
    let Content { key, .. } = &*object.content;
    if object.half != Half::Private {
        return Err(Refused(c::CKR_KEY_FUNCTION_NOT_PERMITTED));
    }
    if !mechanism::derives(key.info.kind) {
        return Err(Refused(c::CKR_KEY_TYPE_INCONSISTENT));
    }
    let length = key.info.kind.coordinate_bytes().map_or(32, |bytes| 1 + 2 * bytes);
    let within = match peer {
        [0x04, first, rest @ ..] if usize::from(*first) == rest.len() => Some(rest),
        [0x04, 0x81, first, rest @ ..] if usize::from(*first) == rest.len() => Some(rest),
        _ => None,
    };
    let found =
        within.filter(|point| point.len() == length).or_else(|| (peer.len() == length).then_some(peer));
    found.ok_or(Refused(c::CKR_MECHANISM_PARAM_INVALID))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_name_a_pair() {
        let of = |mechanism,
                  public: &[(c::CK_ATTRIBUTE_TYPE, Vec<u8>)],
                  private: &[(c::CK_ATTRIBUTE_TYPE, Vec<u8>)]| {
            pair_of(mechanism, &public.to_vec(), &private.to_vec())
        };
        let label = || (c::CKA_LABEL, b"web".to_vec());
        let rsa = |bits| [(c::CKA_MODULUS_BITS, number(bits)), (c::CKA_PUBLIC_EXPONENT, vec![0, 1, 0, 1])];
        let made = of(c::CKM_RSA_PKCS_KEY_PAIR_GEN, &rsa(3072), &[label()]);
        assert_eq!(made, Ok(("web".to_owned(), KeyKind::Rsa { bits: 3072 })));
        for bits in [1024, 2047, 1 << 20] {
            let refused = of(c::CKM_RSA_PKCS_KEY_PAIR_GEN, &rsa(bits), &[label()]);
            assert_eq!(refused, Err(Refused(c::CKR_KEY_SIZE_RANGE)));
        }
        let curve = [(c::CKA_EC_PARAMS, vec![6, 3, 0x2b, 0x65, 0x6e])];
        assert_eq!(of(c::CKM_EC_MONTGOMERY_KEY_PAIR_GEN, &curve, &[label()]).unwrap().1, KeyKind::X25519);
        assert_eq!(of(c::CKM_EC_EDWARDS_KEY_PAIR_GEN, &curve, &[label()]), Err(INCONSISTENT));
        assert_eq!(of(c::CKM_EC_KEY_PAIR_GEN, &curve, &[]), Err(Refused(c::CKR_TEMPLATE_INCOMPLETE)));
        for wrong in
            [(c::CKA_TOKEN, flag(false)), (c::CKA_EXTRACTABLE, flag(true)), (c::CKA_SENSITIVE, flag(false))]
        {
            assert_eq!(of(c::CKM_EC_KEY_PAIR_GEN, &curve, &[label(), wrong]), Err(INCONSISTENT));
        }
        for set in MlDsaSet::ALL {
            let wanted = [(c::CKA_PARAMETER_SET, number(parameter_set(set)))];
            let made = of(c::CKM_ML_DSA_KEY_PAIR_GEN, &wanted, &[label()]);
            assert_eq!(made, Ok(("web".to_owned(), KeyKind::MlDsa(set))));
        }
        let none = [(c::CKA_PARAMETER_SET, number(4))];
        let refused = of(c::CKM_ML_DSA_KEY_PAIR_GEN, &none, &[label()]);
        assert_eq!(refused, Err(Refused(c::CKR_ATTRIBUTE_VALUE_INVALID)));
        let refused = of(c::CKM_ML_DSA_KEY_PAIR_GEN, &[], &[label()]);
        assert_eq!(refused, Err(Refused(c::CKR_TEMPLATE_INCOMPLETE)));
        let slash = [(c::CKA_LABEL, b"../web".to_vec())];
        assert_eq!(of(c::CKM_EC_KEY_PAIR_GEN, &curve, &slash), Err(Refused(c::CKR_ATTRIBUTE_VALUE_INVALID)));
    }
}
