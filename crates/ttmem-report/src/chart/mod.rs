//! Charts: answers as SVG, and as PNG made from it.
//!
//! `canvas` draws texts and shapes at pixels, `axis` has the scale of bytes; `bars` shows what the peaks of training
//! sessions are made of, `timeline` memory over the steps, `sessions` memory over phases; `png` makes pixels of an SVG.
//! The same answer gives the same bytes everywhere: the font is embedded, and nothing depends on the machine.

mod axis;
mod bars;
mod canvas;
#[cfg(feature = "png")]
mod png;
mod sessions;
mod timeline;

use std::path::Path;

pub use bars::peak_bars;
pub use sessions::over_phases;
pub use timeline::{COLUMNS, over_time};

use ttmem_model::{Error, Result};

/// What a chart is written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Picture {
    /// Shapes and texts.
    Svg,
    /// Pixels.
    Png,
}

impl Picture {
    /// As the ending of a file says.
    pub fn of(path: &Path) -> Result<Self> {
        let ending = path.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase());
        match ending.as_deref() {
            Some("svg") => Ok(Self::Svg),
            Some("png") => Ok(Self::Png),
            _ => Err(Error::Usage(format!(
                "a chart is written as FILE.svg or FILE.png, and {} ends with neither",
                path.display()
            ))),
        }
    }

    /// The bytes of a chart.
    pub fn bytes(self, svg: String) -> Result<Vec<u8>> {
        match self {
            Self::Svg => Ok(svg.into_bytes()),
            #[cfg(feature = "png")]
            Self::Png => png::png(&svg),
            #[cfg(not(feature = "png"))]
            Self::Png => {
                Err(Error::Usage("this build of ttmem can't write PNG files; write FILE.svg".into()))
            }
        }
    }
}
