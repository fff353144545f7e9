//! `include/ttmem.h` is what the crate's sources make.

// The helpers of tests are tests; clippy's allowance does not see that.
#![allow(clippy::unwrap_used)]

use std::path::Path;

#[test]
fn the_header_is_made_from_the_sources() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut builder = cbindgen::Builder::new()
        .with_config(cbindgen::Config::from_file(folder.join("cbindgen.toml")).unwrap());
    for file in ["crossing.rs", "capture.rs", "usage.rs"] {
        builder = builder.with_src(folder.join("src").join(file));
    }
    let mut made = Vec::new();
    builder.generate().unwrap().write(&mut made);
    let made = String::from_utf8(made).unwrap();
    let path = folder.join("../../include/ttmem.h");
    if std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always") {
        std::fs::write(&path, &made).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(
        committed, made,
        "include/ttmem.h is not what crates/ttmem-c makes: run 'make bless' and commit it"
    );
}
