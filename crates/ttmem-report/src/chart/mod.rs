//! Charts: answers as a list of shapes, which is written as SVG or drawn as PNG.
//!
//! `canvas` collects texts and shapes at pixels, `axis` has the scale of bytes; `bars` shows what the peaks of training
//! sessions are made of, `timeline` memory over the steps, `sessions` memory over phases. `svg` and `png` draw the same
//! shapes, and `font` has the outlines of letters for PNG. The same answer gives the same bytes everywhere: the font is
//! embedded, and nothing depends on the machine.

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
pub use timeline::{COLUMNS, over_time};

use ttmem_model::{Error, Result};

use crate::table::one_line;

/// Pixels from the left and from the top.
pub type Point = (i32, i32);

/// Red, green, blue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Colour(pub u8, pub u8, pub u8);

impl fmt::Display for Colour {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(red, green, blue) = self;
        write!(out, "#{red:02X}{green:02X}{blue:02X}")
    }
}

/// Which part of a text is at its point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// The left end.
    Start,
    /// The middle.
    Middle,
    /// The right end.
    End,
}

/// A part of a chart.
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
        /// The fill.
        colour: Colour,
    },
    /// A line through points.
    Line {
        /// In order.
        points: Vec<Point>,
        /// The stroke.
        colour: Colour,
        /// In pixels.
        width: u32,
    },
    /// A filled outline.
    Polygon {
        /// The corners in order; the last is connected with the first.
        points: Vec<Point>,
        /// The fill.
        colour: Colour,
    },
    /// A filled circle.
    Dot {
        /// The centre.
        at: Point,
        /// In pixels.
        radius: u32,
        /// The fill.
        colour: Colour,
    },
    /// A line of text, vertically centred on its point.
    Text {
        /// Any characters: each format replaces those that it cannot show.
        text: String,
        /// Where the anchor is.
        at: Point,
        /// The size of the font in pixels.
        size: u32,
        /// The fill.
        colour: Colour,
        /// Horizontally.
        anchor: Anchor,
    },
}

/// A drawing on white.
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

/// A text as every format shows it: a mark in place of each control character, none of the characters that XML forbids,
/// and single spaces, since SVG collapses them.
fn shown_text(text: &str) -> String {
    let text = plain(text);
    let words: Vec<&str> = text.split(' ').filter(|word| !word.is_empty()).collect();
    words.join(" ")
}

/// A text on one line: no control characters, and none that XML forbids.
fn plain(text: &str) -> String {
    let is_allowed = |character: &char| !matches!(character, '\u{fffe}' | '\u{ffff}');
    one_line(text).chars().filter(is_allowed).collect()
}

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
    pub fn bytes(self, chart: &Chart) -> Result<Vec<u8>> {
        match self {
            Self::Svg => Ok(chart.svg().into_bytes()),
            #[cfg(feature = "png")]
            Self::Png => chart.png(),
            #[cfg(not(feature = "png"))]
            Self::Png => {
                Err(Error::Usage("this build of ttmem can't write PNG files; write FILE.svg".into()))
            }
        }
    }
}
