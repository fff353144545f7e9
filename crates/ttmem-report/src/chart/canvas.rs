//! Texts and shapes at pixels. Nothing here knows what a chart shows.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use ttmem_model::{Error, Result};

use crate::table::one_line;

/// The font of all charts, which is embedded for PNG.
pub(super) const FONT: &str = "DejaVu Sans";
/// What a viewer of an SVG takes where it does not have it: such as are as wide.
const FONTS: &str = "DejaVu Sans, Verdana, Geneva, sans-serif";
/// What plotters divides the size of a font by before it writes it.
const PLOTTERS_SHRINKS: f64 = 1.24;

/// Red, green, blue.
pub(super) use plotters::style::RGBColor as Colour;

/// The text of a chart.
pub(super) const INK: Colour = RGBColor(0x22, 0x22, 0x22);
/// What stands in the background.
pub(super) const FAINT: Colour = RGBColor(0x66, 0x66, 0x66);
/// The lines of a scale.
pub(super) const GRID: Colour = RGBColor(0xe4, 0xe4, 0xe4);
/// What the device has.
pub(super) const LIMIT: Colour = RGBColor(0xd6, 0x27, 0x28);

/// Where a text stands to its point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// To the right of it.
    Right,
    /// To the left.
    Left,
    /// In the middle.
    Middle,
}

/// How a text looks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    pub pixels: i32,
    pub colour: Colour,
    pub place: Place,
}

impl Look {
    pub const fn new(pixels: i32, colour: Colour, place: Place) -> Self {
        Self { pixels, colour, place }
    }
}

/// A chart being drawn.
pub(super) struct Canvas<'a> {
    area: DrawingArea<SVGBackend<'a>, plotters::coord::Shift>,
}

/// Draws a chart of a size.
pub(super) fn draw(
    (width, height): (i32, i32),
    paint: impl FnOnce(&Canvas<'_>) -> Result<()>,
) -> Result<String> {
    let mut svg = String::new();
    {
        let size = (width.unsigned_abs(), height.unsigned_abs());
        let canvas = Canvas { area: SVGBackend::with_string(&mut svg, size).into_drawing_area() };
        canvas.area.fill(&WHITE).map_err(failed)?;
        paint(&canvas)?;
        canvas.area.present().map_err(failed)?;
    }
    Ok(svg)
}

fn failed(error: impl std::fmt::Display) -> Error {
    Error::Bug(format!("a chart cannot be drawn: {error}"))
}

type Point = (i32, i32);

impl Canvas<'_> {
    /// A filled rectangle; nothing where it has no height or width.
    pub fn bar(&self, from: Point, to: Point, colour: Colour) -> Result<()> {
        if from.0 == to.0 || from.1 == to.1 {
            return Ok(());
        }
        self.area.draw(&Rectangle::new([from, to], colour.filled())).map_err(failed)
    }

    /// A line through points.
    pub fn line(&self, points: Vec<Point>, colour: Colour, width: u32) -> Result<()> {
        self.area.draw(&PathElement::new(points, colour.stroke_width(width))).map_err(failed)
    }

    /// A dashed line between two points of one height.
    pub fn dashes(&self, (from, y): Point, to: i32, colour: Colour) -> Result<()> {
        const DASH: i32 = 8;
        const GAP: i32 = 5;
        let mut at = from;
        while at < to {
            self.line(vec![(at, y), ((at + DASH).min(to), y)], colour, 2)?;
            at += DASH + GAP;
        }
        Ok(())
    }

    /// A filled outline.
    pub fn shape(&self, points: Vec<Point>, colour: Colour) -> Result<()> {
        self.area.draw(&Polygon::new(points, colour.filled())).map_err(failed)
    }

    /// A filled circle.
    pub fn dot(&self, at: Point, radius: i32, colour: Colour) -> Result<()> {
        self.area.draw(&Circle::new(at, radius, colour.filled())).map_err(failed)
    }

    /// A text whose middle is as high as its point.
    pub fn text(&self, text: &str, at: Point, look: Look) -> Result<()> {
        let place = match look.place {
            Place::Right => HPos::Left,
            Place::Left => HPos::Right,
            Place::Middle => HPos::Center,
        };
        let size = f64::from(look.pixels) * PLOTTERS_SHRINKS;
        let style =
            TextStyle::from((FONTS, size).into_font()).color(&look.colour).pos(Pos::new(place, VPos::Center));
        self.area.draw(&Text::new(plain(text), at, style)).map_err(failed)
    }
}

/// A text that can stand in a document: no control characters, and none that XML forbids.
fn plain(text: &str) -> String {
    let allowed = |character: char| !matches!(character, '\u{fffe}' | '\u{ffff}');
    one_line(text).chars().filter(|character| allowed(*character)).collect()
}

/// How wide a text is, at most: plotters has no font to measure it with.
pub(super) fn width(text: &str, pixels: i32) -> i32 {
    let thousandths: i64 = text.chars().map(|character| i64::from(advance(character))).sum();
    i32::try_from(in_pixels(thousandths, pixels)).unwrap_or(i32::MAX)
}

/// Thousandths of a font's size as pixels, rounded up.
fn in_pixels(thousandths: i64, pixels: i32) -> i64 {
    thousandths.saturating_mul(pixels.into()).saturating_add(999) / 1000
}

/// What a character takes of the font's size, in thousandths.
fn advance(character: char) -> i32 {
    match character {
        'i' | 'j' | 'l' | '\'' | 'I' => 300,
        ' ' | '.' | ',' | ':' | ';' | '|' => 340,
        '!' | 'f' | 't' | '(' | ')' | '[' | ']' | '-' => 410,
        'M' => 870,
        'w' => 820,
        'm' | 'W' | '%' | '@' | '…' => 1000,
        'A'..='Z' => 790,
        '_' | 'a'..='z' | '0'..='9' => 640,
        '+' | '−' | '=' | '<' | '>' | '~' | '#' => 840,
        _ => 1000,
    }
}

/// A text within a width. What is cut is cut out near the front: names differ at their ends.
///
/// It grows from the `…` to what fits, so that the work depends on the width and not on the square of the length: names
/// of the evidence may have any length.
pub(super) fn fitted(text: &str, pixels: i32, room: i32) -> String {
    let text = plain(text);
    if width(&text, pixels) <= room {
        return text;
    }
    let mut wide = i64::from(advance('…'));
    let (mut front, mut back) = (text.chars(), text.chars().rev());
    let (mut head, mut tail) = (String::new(), Vec::new());
    // One character in four is of the front.
    for kept in 1..text.chars().count() {
        let is_front = kept % 4 == 0;
        let Some(next) = (if is_front { front.next() } else { back.next() }) else { break };
        wide += i64::from(advance(next));
        if in_pixels(wide, pixels) > room.into() {
            break;
        }
        if is_front { head.push(next) } else { tail.push(next) }
    }
    head.chars().chain(['…']).chain(tail.into_iter().rev()).collect()
}

/// A name in lines, broken where its words end; what is too long for them is cut.
pub(super) fn broken(name: &str, pixels: i32, room: i32, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in plain(name).split_inclusive([' ', '_', '/']) {
        match lines.last_mut() {
            Some(line) if width(&format!("{line}{}", word.trim_end()), pixels) <= room => line.push_str(word),
            _ => lines.push(word.to_owned()),
        }
    }
    if lines.len() > most {
        let rest = lines.split_off(most.saturating_sub(1)).concat();
        lines.push(rest);
    }
    lines.iter().map(|line| fitted(line.trim_end(), pixels, room)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_break_where_their_words_end() {
        assert_eq!(broken("FIRST_ITERATION_COMPLETE", 12, 100, 3), ["FIRST_", "ITERATION_", "COMPLETE"]);
        assert_eq!(broken("tinyllama (default)", 13, 300, 3), ["tinyllama (default)"]);
        let cut = broken(&"very long words ".repeat(9), 13, 120, 3);
        assert!(cut.len() == 3 && cut.iter().all(|line| width(line, 13) <= 120), "{cut:?}");
        assert!(broken("", 13, 120, 3).is_empty());
        assert_eq!(fitted("abc", 12, 0), "…");
    }

    #[test]
    fn a_text_is_cut_as_little_as_its_room_demands() {
        let name = "model.layers.31.mlp.down_proj (weight, f32)";
        for room in 0..=width(name, 12) {
            let cut = fitted(name, 12, room);
            assert!(width(&cut, 12) <= room || cut == "…", "{room}: {cut}");
            let kept = cut.chars().count();
            let longer = ttmem_query::words::brief(name, kept + 1);
            assert!(cut == name || width(&longer, 12) > room, "{room}: {cut} could be {longer}");
            assert_eq!(cut, ttmem_query::words::brief(name, kept));
        }
    }

    /// Work that grows with the square of the length would take hours here.
    #[test]
    fn a_line_may_have_any_length() {
        let line = "a b/".repeat(1 << 20);
        assert!(width(&fitted(&line, 20, 60), 20) <= 60);
        assert_eq!(broken(&line, 12, 100, 3).len(), 3);
        let word = "m".repeat(1 << 20);
        assert_eq!(width(&word, 20), 20 << 20, "no overflow");
        assert_eq!(broken(&word, 12, 100, 3).len(), 1);
    }

    #[test]
    fn hostile_names_make_a_document_that_can_be_read() {
        let svg = draw((200, 100), |canvas| {
            canvas.text("<script>&\"'\u{1}\u{b}\u{ffff}]]>", (10, 10), Look::new(12, INK, Place::Right))
        })
        .unwrap();
        assert!(!svg.contains("<script>") && svg.contains("&lt;script&gt;&amp;"), "{svg}");
        assert!(super::super::png::png(&svg).is_ok());
    }
}
