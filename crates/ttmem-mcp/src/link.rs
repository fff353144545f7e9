//! Links to a moment on the page of a report.

use std::path::{Path, PathBuf};

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use serde_json::{Value, json};
use ttmem::report;

use crate::profiles::Chosen;
use crate::roots::Roots;

/// What is encoded in the path of an address.
const PATH: &AsciiSet =
    &CONTROLS.add(b' ').add(b'"').add(b'#').add(b'%').add(b'<').add(b'>').add(b'?').add(b'`');
/// What is encoded in the parameters after `#`.
const PARAMETER: &AsciiSet = &PATH.add(b'&').add(b'+').add(b'=').add(b',');

/// A link to a moment, as an object: the address of a page that exists, otherwise the command that writes it.
pub(crate) fn link(chosen: Chosen<'_>, roots: &Roots, pool: Option<&str>, step: Option<u32>) -> Value {
    let fragment = fragment(chosen, pool, step);
    let path = &chosen.opened.path;
    match page_of(chosen.opened.file(), roots) {
        Some(page) => {
            let page = page.display().to_string();
            let address = format!("file://{}#{fragment}", utf8_percent_encode(&page, PATH));
            json!({ "url": address })
        }
        None => {
            let file = path.display().to_string();
            json!({
                "command": format!("ttmem report {} --open", shell_words::quote(&file)),
                "fragment": format!("#{fragment}"),
            })
        }
    }
}

/// The parameters of a moment, as `web/src/link.ts` reads them.
fn fragment(chosen: Chosen<'_>, pool: Option<&str>, step: Option<u32>) -> String {
    let encoded = |text: &str| utf8_percent_encode(text, PARAMETER).to_string();
    let step = step.map(|step| format!("op={step}"));
    let pool = pool.map(|pool| format!("pool={}", encoded(pool)));
    let rank = (chosen.index > 0).then(|| format!("rank={}", encoded(&rank_name(chosen))));
    [step, pool, rank].into_iter().flatten().collect::<Vec<_>>().join("&")
}

/// The name of a rank in links: its label, or its number if the label is missing or not unique.
fn rank_name(chosen: Chosen<'_>) -> String {
    let ranks = &chosen.opened.summary.ranks;
    let is_unique = ranks.iter().filter(|rank| rank.rank == chosen.rank.rank).count() == 1;
    match &chosen.rank.rank {
        Some(label) if is_unique => label.clone(),
        _ => format!("number {}", chosen.index),
    }
}

/// The page of a report next to a file, if it is not older than the file.
fn page_of(path: &Path, roots: &Roots) -> Option<PathBuf> {
    let stem = report::title_of(&path.to_string_lossy());
    let stem = stem.strip_suffix("_memory").unwrap_or(&stem);
    let page = path.with_file_name(format!("{stem}_report.html"));
    let modified = |path: &Path| path.metadata().ok()?.modified().ok();
    let is_current = page.is_file() && modified(&page)? >= modified(path)?;
    (is_current && roots.has(&page.canonicalize().ok()?)).then_some(page)
}
