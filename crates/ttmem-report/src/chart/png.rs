//! Pixels of an SVG, with the embedded font and no other.

use std::sync::Arc;

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree, fontdb};
use ttmem_model::{Error, Result};

use super::canvas::FONT;

/// See `assets/fonts/README.md` for where it is from.
static FONT_FILE: &[u8] = include_bytes!("../../assets/fonts/DejaVuSans-subset.ttf");

/// Draws an SVG at its own size.
pub(super) fn png(svg: &str) -> Result<Vec<u8>> {
    let failed = |what: String| Error::Bug(format!("a chart cannot be drawn: {what}"));
    let mut fonts = fontdb::Database::new();
    fonts.load_font_data(FONT_FILE.to_vec());
    fonts.set_sans_serif_family(FONT);
    let options = Options { font_family: FONT.to_owned(), fontdb: Arc::new(fonts), ..Options::default() };
    let tree = Tree::from_str(svg, &options).map_err(|error| failed(error.to_string()))?;
    let size = tree.size().to_int_size();
    let mut pixels =
        Pixmap::new(size.width(), size.height()).ok_or_else(|| failed("it has no size".into()))?;
    resvg::render(&tree, Transform::identity(), &mut pixels.as_mut());
    pixels.encode_png().map_err(|error| failed(error.to_string()))
}
