//! Generates `include/ttmem.h` from the sources of `crates/ttmem-c`. With `--check`, only checks that it is up to date.

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let is_check = std::env::args().any(|argument| argument == "--check");
    match generate(&root)
        .and_then(|header| compare_or_write(&root.join("include/ttmem.h"), &header, is_check))
    {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("ttmem-c-header: {problem}");
            ExitCode::FAILURE
        }
    }
}

/// The header generated from the sources.
fn generate(root: &Path) -> Result<String, String> {
    let folder = root.join("crates/ttmem-c");
    let config = cbindgen::Config::from_file(folder.join("cbindgen.toml"))?;
    let mut builder = cbindgen::Builder::new().with_config(config);
    for file in ["crossing.rs", "capture.rs", "usage.rs"] {
        builder = builder.with_src(folder.join("src").join(file));
    }
    let mut header = Vec::new();
    builder.generate().map_err(|error| error.to_string())?.write(&mut header);
    String::from_utf8(header).map_err(|error| error.to_string())
}

fn compare_or_write(path: &Path, header: &str, is_check: bool) -> Result<(), String> {
    if !is_check {
        return std::fs::write(path, header).map_err(|error| error.to_string());
    }
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    if committed == header {
        Ok(())
    } else {
        Err("include/ttmem.h is out of date with crates/ttmem-c; run 'make bless' and commit it".into())
    }
}
