//! Texts and shapes at pixel positions, independent of the chart's subject.

use std::ops::RangeInclusive;

use super::{Anchor, Chart, Color, Point, Shape, plain};

/// The color of text.
pub(super) const INK: Color = Color(0x22, 0x22, 0x22);
/// The color of secondary text.
pub(super) const FAINT: Color = Color(0x66, 0x66, 0x66);
/// The color of a scale's lines.
pub(super) const GRID: Color = Color(0xe4, 0xe4, 0xe4);
/// The color of the device memory.
pub(super) const LIMIT: Color = Color(0xd6, 0x27, 0x28);

/// The style of a text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    pub pixels: i32,
    pub color: Color,
    pub anchor: Anchor,
}

impl Look {
    pub const fn new(pixels: i32, color: Color, anchor: Anchor) -> Self {
        Self { pixels, color, anchor }
    }
}

/// A chart being drawn.
pub(super) struct Canvas {
    chart: Chart,
}

impl Canvas {
    pub fn new((width, height): (i32, i32)) -> Self {
        let (width, height) = (width.unsigned_abs(), height.unsigned_abs());
        Self { chart: Chart { width, height, shapes: Vec::new() } }
    }

    pub fn finish(self) -> Chart {
        self.chart
    }

    /// A filled rectangle between two corners. Skipped if it has no height or width.
    pub fn bar(&mut self, from: Point, to: Point, color: Color) {
        let (width, height) = (from.0.abs_diff(to.0), from.1.abs_diff(to.1));
        if width > 0 && height > 0 {
            let at = (from.0.min(to.0), from.1.min(to.1));
            self.chart.shapes.push(Shape::Bar { at, width, height, color });
        }
    }

    /// A line through points.
    pub fn line(&mut self, points: Vec<Point>, color: Color, width: u32) {
        self.chart.shapes.push(Shape::Line { points, color, width });
    }

    /// A horizontal dashed line.
    pub fn dashes(&mut self, (from, y): Point, to: i32, color: Color) {
        const DASH: i32 = 8;
        const GAP: i32 = 5;
        let mut at = from;
        while at < to {
            self.line(vec![(at, y), ((at + DASH).min(to), y)], color, 2);
            at += DASH + GAP;
        }
    }

    /// A filled outline.
    pub fn polygon(&mut self, points: Vec<Point>, color: Color) {
        self.chart.shapes.push(Shape::Polygon { points, color });
    }

    /// A filled circle.
    pub fn dot(&mut self, at: Point, radius: u32, color: Color) {
        self.chart.shapes.push(Shape::Dot { at, radius, color });
    }

    /// A centered text on a rectangle that covers lines.
    pub fn text_on(&mut self, background: Color, text: &str, at: Point, look: Look) {
        let (wide, tall) = (width(text, look.pixels) / 2 + 2, look.pixels / 2 + 2);
        self.bar((at.0 - wide, at.1 - tall), (at.0 + wide, at.1 + tall), background);
        self.text(text, at, look);
    }

    /// A text that is vertically centered on its point.
    pub fn text(&mut self, text: &str, at: Point, look: Look) {
        let Look { pixels, color, anchor } = look;
        let text = text.to_owned();
        self.chart.shapes.push(Shape::Text { text, at, size: pixels.unsigned_abs(), color, anchor });
    }
}

/// Finds the height nearest to `y` within a range where horizontal lines do not strike a text through.
pub(super) fn clear_of(lines: &[i32], y: i32, range: &RangeInclusive<i32>, pixels: i32) -> Option<i32> {
    let room = pixels / 2 + 5;
    let is_clear = |y: &i32| range.contains(y) && lines.iter().all(|line| (y - line).abs() >= room);
    let furthest = (y - range.start()).abs().max((y - range.end()).abs());
    (0..=furthest).flat_map(|by| [y - by, y + by]).find(is_clear)
}

/// The maximum width of a text. An estimate that does not use the embedded font: an SVG viewer may use another one, and
/// builds without PNG have none.
pub(super) fn width(text: &str, pixels: i32) -> i32 {
    let thousandths: i64 = text.chars().map(|character| i64::from(advance(character))).sum();
    i32::try_from(in_pixels(thousandths, pixels)).unwrap_or(i32::MAX)
}

/// Thousandths of a font's size as pixels, rounded up.
fn in_pixels(thousandths: i64, pixels: i32) -> i64 {
    thousandths.saturating_mul(pixels.into()).saturating_add(999) / 1000
}

/// The width of a character in thousandths of the font size.
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
        '‰' => 1350,
        'Œ' | 'œ' | 'Љ' | 'Њ' | 'Ж' | 'Ш' | 'Щ' | 'Ю' | '\u{fffd}' => 1100,
        '+' | '−' | '=' | '<' | '>' | '~' | '#' => 840,
        _ => 1000,
    }
}

/// Shortens a text to a width. The ellipsis is near the front because names differ at their ends.
///
/// The result grows from the `…` outwards, so that the cost depends on the width and not on the square of the length:
/// names in a log may have any length.
pub(super) fn fitted(text: &str, pixels: i32, room: i32) -> String {
    let text = plain(text);
    if width(&text, pixels) <= room {
        return text;
    }
    let mut wide = i64::from(advance('…'));
    let (mut front, mut back) = (text.chars(), text.chars().rev());
    let (mut head, mut tail) = (String::new(), Vec::new());
    // Keeps one character at the front for every three at the end.
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

/// Breaks a name into lines between words, and shortens what does not fit.
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
    fn texts_move_as_little_as_lines_demand() {
        // Nothing is in the way.
        assert_eq!(clear_of(&[], 50, &(0..=100), 12), Some(50));
        assert_eq!(clear_of(&[38], 50, &(0..=100), 12), Some(50));
        // Up or down, whichever is nearer.
        assert_eq!(clear_of(&[52], 50, &(0..=100), 12), Some(41));
        assert_eq!(clear_of(&[48], 50, &(0..=100), 12), Some(59));
        // There is only room on one side, or none.
        assert_eq!(clear_of(&[52], 50, &(46..=100), 12), Some(63));
        assert_eq!(clear_of(&[52], 50, &(46..=58), 12), None);
        assert_eq!(clear_of(&[52, 40], 50, &(0..=100), 12), Some(63));
        assert_eq!(clear_of(&[], 50, &(60..=70), 12), Some(60));
    }

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

    /// A cost quadratic in the length would take hours here.
    #[test]
    fn a_line_may_have_any_length() {
        let line = "a b/".repeat(1 << 20);
        assert!(width(&fitted(&line, 20, 60), 20) <= 60);
        assert_eq!(broken(&line, 12, 100, 3).len(), 3);
        let word = "m".repeat(1 << 20);
        assert_eq!(width(&word, 20), 20 << 20, "no overflow");
        assert_eq!(broken(&word, 12, 100, 3).len(), 1);
    }

    /// Otherwise a text would exceed the space that it was fitted into.
    #[cfg(feature = "png")]
    #[test]
    fn no_character_is_wider_than_estimated() {
        let font = super::super::font::Font::embedded().unwrap();
        for character in (' '..='\u{17f}').chain('\u{370}'..='\u{45f}').chain("…−→‰×漢".chars()) {
            let units = i64::from(font.layout(character.encode_utf8(&mut [0; 4])).width);
            let thousandths = units * 1000 / i64::from(font.units_per_em);
            let estimate = i64::from(advance(character));
            assert!(thousandths <= estimate, "{character} {thousandths} > {estimate}");
        }
    }
}
