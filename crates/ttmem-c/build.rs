//! Sets the name of the shared library. By default, Rust sets no SONAME on Linux, and the build path on macOS.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    match std::env::var("CARGO_CFG_TARGET_OS").as_deref() {
        Ok("macos") => println!("cargo::rustc-cdylib-link-arg=-Wl,-install_name,@rpath/libttmem.dylib"),
        Ok("linux") => println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libttmem.so"),
        _ => {}
    }
}
