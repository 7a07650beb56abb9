//! Reads and writes big-endian fields at fixed places. The views have checked that the places exist.

/// Methods of a view that read or write one field at a fixed place each.
macro_rules! fields {
    ($($(#[$doc:meta])* $name:ident: $kind:ty = $read:ident $(::<$count:literal>)? ($at:literal);)*) => {$(
        $(#[$doc])*
        pub fn $name(&self) -> $kind {
            $crate::bytes::$read $(::<$count>)? (self.0.as_ref(), $at).into()
        }
    )*};
    ($($(#[$doc:meta])* $name:ident($kind:ty) = $put:ident($at:literal);)*) => {$(
        $(#[$doc])*
        pub fn $name(&mut self, value: $kind) {
            $crate::bytes::$put(self.0.as_mut(), $at, value);
        }
    )*};
}

pub(crate) use fields;

pub(crate) fn u8_at(bytes: &[u8], at: usize) -> u8 {
    bytes[at]
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

pub(crate) fn array_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(&bytes[at..at + N]);
    array
}

pub(crate) fn put_u16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

pub(crate) fn put_u32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
}
