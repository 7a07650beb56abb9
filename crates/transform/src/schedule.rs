//! The expanded keys of all ciphers, as the list in `list.rs` names them.

/// Defines the enum of all ciphers' expanded keys.
macro_rules! schedules {
    ($($kind:ident {
        $($folder:ident { $($variant:ident = $descriptor:ident($key:ident) $doc:literal),* })*
    })*) => {
        /// The expanded key of a cipher.
        #[derive(Clone)]
        pub(crate) enum Schedule {
            Null,
            $( $( $( $variant(crate::$folder::$key), )* )* )*
        }
    };
}
ciphers!(schedules);

/// Defines the enum of all AEADs' expanded keys.
macro_rules! aead_schedules {
    (aead { $($folder:ident($name:ident: $key:ident) { $($list:tt)* })* }) => {
        /// The expanded key of an AEAD.
        pub(crate) enum AeadSchedule {
            $( $name(crate::$folder::$key), )*
        }
    };
}
aeads!(aead_schedules);
