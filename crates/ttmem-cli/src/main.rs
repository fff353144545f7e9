//! The command `ttmem`.
#![allow(clippy::print_stdout, clippy::print_stderr)]
fn main() {
    let files: Vec<String> = std::env::args().skip(1).collect();
    let mut profiles = Vec::new();
    for f in &files {
        match ttmem::read::open(f) {
            Ok(p) => profiles.push(p),
            Err(e) => {
                eprintln!("{e}");
                return;
            }
        }
    }
    let s = ttmem::query::summary(&profiles, &ttmem::query::Request::default()).unwrap();
    println!("{}", serde_json::to_string(&s).unwrap());
}
