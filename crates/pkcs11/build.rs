//! Tells the linker that the library is never unloaded: it has thread-local values with destructors, which would
//! otherwise run after unloading.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
