//! Names the shared library. Rust gives it no SONAME on Linux, and on macOS the path where it was built.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    match std::env::var("CARGO_CFG_TARGET_OS").as_deref() {
        Ok("macos") => println!("cargo::rustc-cdylib-link-arg=-Wl,-install_name,@rpath/libttmem.dylib"),
        Ok("linux") => println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libttmem.so"),
        _ => {}
    }
}
