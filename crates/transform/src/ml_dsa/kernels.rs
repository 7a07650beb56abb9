//! The list of the kernels of [`super::arithmetic`], of which every instruction set has its own.

/// Passes the kernels' names and arguments on.
macro_rules! kernels {
    ($then:ident $($arguments:tt)*) => {
        $then! {
            $($arguments)*
            transform(f: &mut Poly);
            inverse(f: &mut Poly);
            reorder(f: &mut Poly);
            reduce(f: &mut Poly);
            multiply_row(row: &[Poly], v: &[Poly], sum: &mut Poly);
            add(f: &mut Poly, other: &Poly);
            subtract(f: &mut Poly, other: &Poly);
            is_below(f: &Poly, bound: i32) -> bool;
            decompose(gamma2: u32, f: &mut Poly, high: &mut Poly);
            power2_round(f: &mut Poly, high: &mut Poly);
            unpack_z(bytes: &[u8], gamma1_bits: u32, f: &mut Poly);
            make_hint(gamma2: u32, f: &mut Poly, high: &Poly);
        }
    };
}

/// Compiles the kernels over a type of vectors for instructions, as functions.
#[cfg(target_arch = "x86_64")]
macro_rules! compiled {
    ($vector:ty, $features:literal, $($name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?;)*) => {
        $(
            #[doc = concat!("See [`arithmetic::", stringify!($name), "`].")]
            #[inline(never)]
            #[target_feature(enable = $features)]
            pub(crate) fn $name($($argument: $type),*) $(-> $result)? {
                arithmetic::$name::<$vector>($($argument),*)
            }
        )*
    };
}

#[cfg(target_arch = "x86_64")]
pub(crate) use compiled;
pub(crate) use kernels;
