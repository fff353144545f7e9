//! Makes `include/ttmem.h` from the sources of `crates/ttmem-c`; with `--check`, only says whether it is what they make.

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let is_check = std::env::args().any(|argument| argument == "--check");
    match made(&root).and_then(|made| compare_or_write(&root.join("include/ttmem.h"), &made, is_check)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("ttmem-c-header: {problem}");
            ExitCode::FAILURE
        }
    }
}

/// The header that the sources make.
fn made(root: &Path) -> Result<String, String> {
    let folder = root.join("crates/ttmem-c");
    let config = cbindgen::Config::from_file(folder.join("cbindgen.toml"))?;
    let mut builder = cbindgen::Builder::new().with_config(config);
    for file in ["crossing.rs", "capture.rs", "usage.rs"] {
        builder = builder.with_src(folder.join("src").join(file));
    }
    let mut made = Vec::new();
    builder.generate().map_err(|error| error.to_string())?.write(&mut made);
    String::from_utf8(made).map_err(|error| error.to_string())
}

fn compare_or_write(path: &Path, made: &str, is_check: bool) -> Result<(), String> {
    if !is_check {
        return std::fs::write(path, made).map_err(|error| error.to_string());
    }
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    if committed == made {
        Ok(())
    } else {
        Err("include/ttmem.h is not what crates/ttmem-c makes: run 'make bless' and commit it".into())
    }
}
