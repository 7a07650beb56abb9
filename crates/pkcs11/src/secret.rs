//! Secrets that were agreed on: objects of a session, which the program may read and destroy.
//!
//! **Guarantee:** a secret is zeroed when its session ends or it is destroyed; a template that promises what is not so is refused.

use crate::attribute::{Template, flag, number};
use crate::refused::Refused;
use cryptoki_sys as c;
use zeroize::Zeroizing;

const INCONSISTENT: Refused = Refused(c::CKR_TEMPLATE_INCONSISTENT);

/// A secret key.
pub(crate) struct Secret {
    value: Zeroizing<Vec<u8>>,
    kind: c::CK_KEY_TYPE,
    label: Vec<u8>,
    id: Vec<u8>,
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Secret({} bytes)", self.value.len())
    }
}

/// The properties of a secret that a template asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    kind: c::CK_KEY_TYPE,
    bytes: Option<usize>,
    label: Vec<u8>,
    id: Vec<u8>,
}

fn number_of(value: &[u8]) -> Result<c::CK_ULONG, Refused> {
    let digits = value.try_into().map_err(|_| Refused(c::CKR_ATTRIBUTE_VALUE_INVALID))?;
    Ok(c::CK_ULONG::from_ne_bytes(digits))
}

impl Wanted {
    /// Reads a template. The value will be here and readable, so it cannot be one of the token, nor sensitive.
    pub(crate) fn of(template: &Template) -> Result<Self, Refused> {
        let mut wanted = Self { kind: c::CKK_GENERIC_SECRET, bytes: None, label: Vec::new(), id: Vec::new() };
        for (kind, value) in template {
            match *kind {
                c::CKA_CLASS if number_of(value)? != c::CKO_SECRET_KEY => return Err(INCONSISTENT),
                c::CKA_TOKEN | c::CKA_SENSITIVE if *value != flag(false) => return Err(INCONSISTENT),
                c::CKA_EXTRACTABLE if *value != flag(true) => return Err(INCONSISTENT),
                c::CKA_KEY_TYPE => {
                    wanted.kind = number_of(value)?;
                    if ![c::CKK_GENERIC_SECRET, c::CKK_AES].contains(&wanted.kind) {
                        return Err(INCONSISTENT);
                    }
                }
                c::CKA_VALUE_LEN => {
                    let bytes = usize::try_from(number_of(value)?).ok().filter(|bytes| *bytes > 0);
                    wanted.bytes = Some(bytes.ok_or(Refused(c::CKR_ATTRIBUTE_VALUE_INVALID))?);
                }
                c::CKA_LABEL => wanted.label.clone_from(value),
                c::CKA_ID => wanted.id.clone_from(value),
                _ => {}
            }
        }
        Ok(wanted)
    }

    /// Returns the secret with this value, whose first bytes go if there are too many (PKCS#11 2.40, mechanisms, 2.3.7).
    pub(crate) fn made_of(self, mut value: Zeroizing<Vec<u8>>) -> Result<Secret, Refused> {
        let bytes = self.bytes.unwrap_or(value.len());
        let from = value.len().checked_sub(bytes).ok_or(Refused(c::CKR_KEY_SIZE_RANGE))?;
        value.drain(..from);
        if self.kind == c::CKK_AES && ![16, 24, 32].contains(&bytes) {
            return Err(Refused(c::CKR_KEY_SIZE_RANGE));
        }
        Ok(Secret { value, kind: self.kind, label: self.label, id: self.id })
    }
}

impl Secret {
    pub(crate) fn attribute(&self, kind: c::CK_ATTRIBUTE_TYPE) -> Result<Vec<u8>, Refused> {
        Ok(match kind {
            c::CKA_CLASS => number(c::CKO_SECRET_KEY),
            c::CKA_KEY_TYPE => number(self.kind),
            c::CKA_VALUE => self.value.to_vec(),
            c::CKA_VALUE_LEN => number(self.value.len() as c::CK_ULONG),
            c::CKA_LABEL => self.label.clone(),
            c::CKA_ID => self.id.clone(),
            c::CKA_EXTRACTABLE | c::CKA_DESTROYABLE => flag(true),
            c::CKA_TOKEN | c::CKA_PRIVATE | c::CKA_SENSITIVE | c::CKA_LOCAL | c::CKA_MODIFIABLE => {
                flag(false)
            }
            c::CKA_ALWAYS_SENSITIVE | c::CKA_NEVER_EXTRACTABLE | c::CKA_COPYABLE | c::CKA_TRUSTED => {
                flag(false)
            }
            c::CKA_SIGN | c::CKA_VERIFY | c::CKA_ENCRYPT | c::CKA_DECRYPT | c::CKA_DERIVE => flag(false),
            c::CKA_WRAP | c::CKA_UNWRAP | c::CKA_WRAP_WITH_TRUSTED => flag(false),
            c::CKA_START_DATE | c::CKA_END_DATE => Vec::new(),
            c::CKA_KEY_GEN_MECHANISM => number(c::CK_UNAVAILABLE_INFORMATION),
            _ => return Err(Refused(c::CKR_ATTRIBUTE_TYPE_INVALID)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_promises_only_what_is_so() {
        let wanted = |template: &[(c::CK_ATTRIBUTE_TYPE, Vec<u8>)]| Wanted::of(&template.to_vec());
        for (kind, value) in [
            (c::CKA_TOKEN, flag(true)),
            (c::CKA_SENSITIVE, flag(true)),
            (c::CKA_EXTRACTABLE, flag(false)),
            (c::CKA_CLASS, number(c::CKO_PRIVATE_KEY)),
            (c::CKA_KEY_TYPE, number(c::CKK_DES3)),
        ] {
            assert_eq!(wanted(&[(kind, value)]), Err(INCONSISTENT));
        }
        let value = || Zeroizing::new((0..32).collect::<Vec<u8>>());
        let short = wanted(&[(c::CKA_VALUE_LEN, number(16)), (c::CKA_KEY_TYPE, number(c::CKK_AES))]).unwrap();
        let secret = short.made_of(value()).unwrap();
        assert_eq!(secret.attribute(c::CKA_VALUE), Ok((16..32).collect()));
        let long = wanted(&[(c::CKA_VALUE_LEN, number(33))]).unwrap();
        assert!(long.made_of(value()).is_err());
        assert!(
            wanted(&[(c::CKA_VALUE_LEN, number(0))]).is_err()
                && wanted(&[(c::CKA_VALUE_LEN, vec![1])]).is_err()
        );
    }
}
