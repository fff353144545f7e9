//! Charts: a response as a list of shapes, written as SVG or PNG.
//!
//! `canvas` collects texts and shapes, `axis` draws the byte scale. `bars` shows the composition of training sessions'
//! peaks, `timeline` memory over the steps, `sessions` memory over the phases. `svg` and `png` draw the same shapes,
//! and `font` provides glyph outlines for PNG. The same response gives the same bytes everywhere: the font is embedded,
//! and nothing depends on the machine.

mod axis;
mod bars;
mod canvas;
#[cfg(feature = "png")]
mod font;
#[cfg(feature = "png")]
mod png;
mod sessions;
mod svg;
mod timeline;

use std::fmt;
use std::path::Path;

pub use bars::peak_bars;
pub use sessions::over_phases;
pub(crate) use svg::Escaped;
pub use timeline::{COLUMNS, over_time};

use ttmem_model::{Error, Result};

use crate::table::one_line;

/// Pixels from the left and from the top.
pub type Point = (i32, i32);

/// Red, green, blue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Color(pub u8, pub u8, pub u8);

impl fmt::Display for Color {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(red, green, blue) = self;
        write!(out, "#{red:02X}{green:02X}{blue:02X}")
    }
}

/// The part of a text that is at its point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// The left end.
    Start,
    /// The middle.
    Middle,
    /// The right end.
    End,
}

/// An element of a chart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A filled rectangle.
    Bar {
        /// The upper left corner.
        at: Point,
        /// In pixels.
        width: u32,
        /// In pixels.
        height: u32,
        /// The fill color.
        color: Color,
    },
    /// A line through points.
    Line {
        /// In order.
        points: Vec<Point>,
        /// The stroke color.
        color: Color,
        /// In pixels.
        width: u32,
    },
    /// A filled outline.
    Polygon {
        /// The corners in order; the last is connected to the first.
        points: Vec<Point>,
        /// The fill color.
        color: Color,
    },
    /// A filled circle.
    Dot {
        /// The center.
        at: Point,
        /// In pixels.
        radius: u32,
        /// The fill color.
        color: Color,
    },
    /// A line of text, vertically centered on its point.
    Text {
        /// Any characters: each format replaces those it cannot show.
        text: String,
        /// The position of the anchor.
        at: Point,
        /// The font size in pixels.
        size: u32,
        /// The fill color.
        color: Color,
        /// The horizontal alignment.
        anchor: Anchor,
    },
}

/// A drawing on a white background.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chart {
    /// In pixels.
    pub width: u32,
    /// In pixels.
    pub height: u32,
    /// Later shapes cover earlier ones.
    pub shapes: Vec<Shape>,
}

impl Chart {
    /// An SVG document.
    pub fn svg(&self) -> String {
        svg::Document(self).to_string()
    }

    /// A PNG file.
    #[cfg(feature = "png")]
    pub fn png(&self) -> Result<Vec<u8>> {
        png::png(self)
    }
}

/// A text as every format shows it: a mark for each control character, no characters that XML forbids, and single
/// spaces, because SVG collapses them.
pub(crate) fn shown_text(text: &str) -> String {
    let text = plain(text);
    let words: Vec<&str> = text.split(' ').filter(|word| !word.is_empty()).collect();
    words.join(" ")
}

/// A text on one line, without control characters and characters that XML forbids.
fn plain(text: &str) -> String {
    let is_allowed = |character: &char| !matches!(character, '\u{fffe}' | '\u{ffff}');
    one_line(text).chars().filter(is_allowed).collect()
}

/// The file format of a chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Picture {
    /// Vector graphics.
    Svg,
    /// A bitmap.
    Png,
}

impl Picture {
    /// The format for a file name extension.
    pub fn of(path: &Path) -> Result<Self> {
        let ending = path.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase());
        match ending.as_deref() {
            Some("svg") => Ok(Self::Svg),
            Some("png") => Ok(Self::Png),
            _ => Err(Error::Usage(format!(
                "{}: unsupported chart format; use FILE.svg or FILE.png",
                path.display()
            ))),
        }
    }

    /// Encodes a chart.
    pub fn bytes(self, chart: &Chart) -> Result<Vec<u8>> {
        match self {
            Self::Svg => Ok(chart.svg().into_bytes()),
            #[cfg(feature = "png")]
            Self::Png => chart.png(),
            #[cfg(not(feature = "png"))]
            Self::Png => Err(Error::Usage("this build of ttmem has no PNG support; use FILE.svg".into())),
        }
    }
}
