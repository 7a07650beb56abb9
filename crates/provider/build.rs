//! Tells the linker that the library stays where it is loaded: it has thread-local values with destructors, which would run after it
//! was unloaded.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
