//! The TypeScript types of the pages in `web/` are generated from the Rust types.

use std::path::Path;
use std::{env, fs};

use ttmem::query::typescript::Declarations;

#[test]
fn the_generated_types_are_up_to_date() {
    let mut declarations = Declarations::default();
    ttmem_serve::declare(&mut declarations);
    let made = declarations.module();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web/src/generated/answers.ts");
    if env::var("INSTA_UPDATE").is_ok_and(|update| update == "always") {
        fs::write(&file, &made).unwrap();
    }
    let committed = fs::read_to_string(&file).unwrap_or_default();
    assert!(committed == made, "web/src/generated/answers.ts is stale: run `make bless` and `make web`");
}
