//! `Debug` for types that hold secrets, or parts that have no `Debug`: the name and chosen fields, never the rest.

/// Implements `Debug` for a type by its name, the fields that are named, and two dots for all others.
///
/// A field may have a value of its own: `debug_only!(self: Users<'_> { names: self.names.len() })`.
#[macro_export]
macro_rules! debug_only {
    ($name:ident $(<$lifetime:lifetime>)? { $($field:ident),* }) => {
        $crate::debug_only!(self: $name $(<$lifetime>)? { $($field: self.$field),* });
    };
    ($this:ident: $name:ident $(<$lifetime:lifetime>)? { $($field:ident: $value:expr),* }) => {
        impl ::core::fmt::Debug for $name $(<$lifetime>)? {
            fn fmt(&$this, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                f.debug_struct(stringify!($name))$(.field(stringify!($field), &$value))*.finish_non_exhaustive()
            }
        }
    };
}
