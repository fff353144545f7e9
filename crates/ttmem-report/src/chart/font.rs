//! The embedded font: glyphs, advance widths, kerning and outlines.
//!
//! The font never changes at run time, so this supports only the features it uses: a character map of format 4, short
//! glyph offsets, compound glyphs that are shifted but not scaled, and one class-based kerning table. The tests fail
//! for a font that needs more.

use unicode_width::UnicodeWidthChar;

/// See `assets/fonts/README.md` for its origin.
static FILE: &[u8] = include_bytes!("../../assets/fonts/DejaVuSans-subset.ttf");

/// The glyph of characters missing in the font.
const MISSING: u16 = 0;
/// Its outline, a box, because the font has none: lower left and upper right corners of the outer and the inner edge.
const BOX: [[f32; 4]; 2] = [[102.0, -362.0, 1126.0, 1444.0], [217.0, -247.0, 1011.0, 1329.0]];
/// Fonts nest compound glyphs only a few levels deep.
const MAX_DEPTH: usize = 4;

/// A point of an outline in font units, upwards from the baseline. Points off the curve are control points of a
/// quadratic curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct OutlinePoint {
    pub x: f32,
    pub y: f32,
    pub on_curve: bool,
}

impl OutlinePoint {
    fn midpoint(self, other: Self) -> Self {
        Self { x: f32::midpoint(self.x, other.x), y: f32::midpoint(self.y, other.y), on_curve: true }
    }
}

/// A line of text with the position of every glyph, in font units.
#[derive(Debug)]
pub(super) struct Layout {
    /// Glyphs and their distance from the start.
    pub glyphs: Vec<(u16, i32)>,
    /// The sum of all advance widths and kerning.
    pub width: i32,
}

/// The font's tables, as offsets in its file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Font {
    /// The size of the em square in font units.
    pub units_per_em: u16,
    cmap: usize,
    glyf: usize,
    hmtx: usize,
    /// The number of advance widths; further glyphs have the last one.
    advances: u16,
    loca: usize,
    kerning: Option<usize>,
}

impl Font {
    /// Finds the tables; `None` if the font is not in the form described above.
    pub fn embedded() -> Option<Self> {
        let head = table(*b"head")?;
        let cmap = table(*b"cmap")?;
        // All character maps of the font are identical.
        let cmap = cmap + usize::try_from(u32_at(cmap + 8)?).ok()?;
        let is_known = u16_at(cmap)? == 4 && u16_at(head + 50)? == 0;
        is_known.then_some(Self {
            units_per_em: u16_at(head + 18)?,
            cmap,
            glyf: table(*b"glyf")?,
            hmtx: table(*b"hmtx")?,
            advances: u16_at(table(*b"hhea")? + 34)?,
            loca: table(*b"loca")?,
            kerning: kerning(),
        })
    }

    /// Positions the glyphs of a text. Zero-width characters, such as joiners, are skipped if the font lacks them.
    pub fn layout(&self, text: &str) -> Layout {
        let mut glyphs: Vec<(u16, i32)> = Vec::new();
        let mut width = 0i32;
        for character in text.chars() {
            let glyph = self.glyph(character).unwrap_or(MISSING);
            if glyph == MISSING && character.width() == Some(0) {
                continue;
            }
            let kern = glyphs.last().and_then(|(before, _)| self.kern(*before, glyph)).unwrap_or(0);
            width = width.saturating_add(kern.into());
            glyphs.push((glyph, width));
            width = width.saturating_add(self.advance(glyph).unwrap_or(0).into());
        }
        Layout { glyphs, width }
    }

    fn glyph(&self, character: char) -> Option<u16> {
        let code = u16::try_from(u32::from(character)).ok()?;
        let doubled = usize::from(u16_at(self.cmap + 6)?);
        let ends = self.cmap + 14;
        let starts = ends + doubled + 2;
        let segment = (0..doubled).step_by(2).find(|at| u16_at(ends + at).is_some_and(|end| end >= code))?;
        let start = u16_at(starts + segment)?;
        if start > code {
            return None;
        }
        let delta = u16_at(starts + doubled + segment)?;
        let range = starts + 2 * doubled + segment;
        match usize::from(u16_at(range)?) {
            0 => Some(code.wrapping_add(delta)),
            // The offset is relative to its own position.
            offset => match u16_at(range + offset + 2 * usize::from(code - start))? {
                MISSING => None,
                glyph => Some(glyph.wrapping_add(delta)),
            },
        }
    }

    fn advance(&self, glyph: u16) -> Option<u16> {
        u16_at(self.hmtx + 4 * usize::from(glyph.min(self.advances.saturating_sub(1))))
    }

    /// How much closer the second of two glyphs is, as a negative number.
    fn kern(&self, first: u16, second: u16) -> Option<i16> {
        let at = self.kerning?;
        if !is_covered(at + usize::from(u16_at(at + 2)?), first)? {
            return None;
        }
        let row = class(at + usize::from(u16_at(at + 8)?), first)?;
        let column = class(at + usize::from(u16_at(at + 10)?), second)?;
        let columns = usize::from(u16_at(at + 14)?);
        i16_at(at + 16 + 2 * (usize::from(row) * columns + usize::from(column)))
    }

    /// The closed contours of a glyph. Each starts on the curve, and no two consecutive points are off it.
    pub fn outline(&self, glyph: u16) -> Vec<Vec<OutlinePoint>> {
        if glyph == MISSING {
            return missing();
        }
        let mut contours = Vec::new();
        let _ = self.add_outline(glyph, (0, 0), 0, &mut contours);
        contours
    }

    fn add_outline(
        &self,
        glyph: u16,
        by: (i32, i32),
        depth: usize,
        contours: &mut Vec<Vec<OutlinePoint>>,
    ) -> Option<()> {
        let entry = self.loca + 2 * usize::from(glyph);
        let (start, end) = (u16_at(entry)?, u16_at(entry + 2)?);
        // A space has no outline.
        if start >= end || depth > MAX_DEPTH {
            return None;
        }
        let at = self.glyf + 2 * usize::from(start);
        match usize::try_from(i16_at(at)?) {
            Ok(count) => add_simple(at + 10, count, by, contours),
            Err(_) => self.add_compound(at + 10, by, depth, contours),
        }
    }

    fn add_compound(
        &self,
        mut at: usize,
        by: (i32, i32),
        depth: usize,
        contours: &mut Vec<Vec<OutlinePoint>>,
    ) -> Option<()> {
        const WORDS: u16 = 0x01;
        const MORE: u16 = 0x20;
        loop {
            let (flags, glyph) = (u16_at(at)?, u16_at(at + 2)?);
            let (x, y, length) = if flags & WORDS == 0 {
                (i8_at(at + 4)?.into(), i8_at(at + 5)?.into(), 6)
            } else {
                (i16_at(at + 4)?, i16_at(at + 6)?, 8)
            };
            let _ = self.add_outline(glyph, (by.0 + i32::from(x), by.1 + i32::from(y)), depth + 1, contours);
            if flags & MORE == 0 {
                return Some(());
            }
            at += length;
        }
    }
}

/// A box. The inner edge has the opposite direction, which makes it a hole.
fn missing() -> Vec<Vec<OutlinePoint>> {
    let [outer, mut inner] = BOX.map(|[left, bottom, right, top]| {
        let corners = [(left, bottom), (left, top), (right, top), (right, bottom)];
        corners.map(|(x, y)| OutlinePoint { x, y, on_curve: true }).to_vec()
    });
    inner.reverse();
    vec![outer, inner]
}

/// The contours of a glyph that is not compound.
fn add_simple(at: usize, count: usize, by: (i32, i32), contours: &mut Vec<Vec<OutlinePoint>>) -> Option<()> {
    const ON_CURVE: u8 = 0x01;
    const REPEAT: u8 = 0x08;
    let ends: Vec<usize> =
        (0..count).map(|index| u16_at(at + 2 * index).map(usize::from)).collect::<Option<_>>()?;
    let points = ends.last()? + 1;
    let instructions = at + 2 * count;
    let mut at = instructions + 2 + usize::from(u16_at(instructions)?);
    let mut flags = Vec::new();
    while flags.len() < points {
        let flag = u8_at(at)?;
        at += 1;
        let mut times = 1;
        if flag & REPEAT != 0 {
            times += usize::from(u8_at(at)?);
            at += 1;
        }
        flags.extend(std::iter::repeat_n(flag, times));
    }
    flags.truncate(points);
    let xs = coordinates(&mut at, &flags, (0x02, 0x10), by.0)?;
    let ys = coordinates(&mut at, &flags, (0x04, 0x20), by.1)?;
    let mut start = 0;
    for end in ends {
        let contour = (start..=end).map(|index| {
            let on_curve = flags.get(index)? & ON_CURVE != 0;
            Some(OutlinePoint { x: *xs.get(index)?, y: *ys.get(index)?, on_curve })
        });
        contours.extend(completed(&contour.collect::<Option<Vec<_>>>()?));
        start = end + 1;
    }
    Some(())
}

/// Reads the coordinates of one axis, which are stored as differences. A short difference has one byte, and the second
/// flag is its sign; otherwise the second flag means that the difference is zero.
#[allow(clippy::cast_precision_loss, reason = "font units are below 32768")]
fn coordinates(at: &mut usize, flags: &[u8], (short, second): (u8, u8), start: i32) -> Option<Vec<f32>> {
    let mut value = start;
    let mut next = |flag: &u8| {
        let (short, second) = (flag & short != 0, flag & second != 0);
        let (distance, length) = match (short, second) {
            (true, true) => (u8_at(*at)?.into(), 1),
            (true, false) => (-i32::from(u8_at(*at)?), 1),
            (false, true) => (0, 0),
            (false, false) => (i16_at(*at)?.into(), 2),
        };
        *at += length;
        value += distance;
        Some(value as f32)
    };
    flags.iter().map(&mut next).collect()
}

/// A contour that starts on the curve, with the points that TrueType omits: the midpoint between two consecutive points
/// off the curve.
fn completed(points: &[OutlinePoint]) -> Option<Vec<OutlinePoint>> {
    let mut all: Vec<OutlinePoint> = Vec::new();
    let mut before = *points.last()?;
    for point in points {
        if !before.on_curve && !point.on_curve {
            all.push(before.midpoint(*point));
        }
        all.push(*point);
        before = *point;
    }
    let first = all.iter().position(|point| point.on_curve)?;
    all.rotate_left(first);
    Some(all)
}

/// The start of the kerning table: pairs of classes that change the first glyph's advance width.
fn kerning() -> Option<usize> {
    let table = table(*b"GPOS")?;
    let lookups = table + usize::from(u16_at(table + 8)?);
    let lookup = lookups + usize::from(u16_at(lookups + 2)?);
    let pairs = lookup + usize::from(u16_at(lookup + 6)?);
    let is_known =
        u16_at(lookup)? == 2 && u16_at(pairs)? == 2 && u16_at(pairs + 4)? == 4 && u16_at(pairs + 6)? == 0;
    is_known.then_some(pairs)
}

/// Whether a sorted list of glyphs contains a glyph.
fn is_covered(at: usize, glyph: u16) -> Option<bool> {
    let glyphs = usize::from(u16_at(at + 2)?);
    Some((0..glyphs).any(|index| u16_at(at + 4 + 2 * index) == Some(glyph)))
}

/// The kerning class of a glyph, from ranges of glyphs. Glyphs outside all ranges have class 0.
fn class(at: usize, glyph: u16) -> Option<u16> {
    let ranges = usize::from(u16_at(at + 2)?);
    let has_glyph = |range: &usize| {
        u16_at(*range).is_some_and(|first| first <= glyph)
            && u16_at(range + 2).is_some_and(|last| glyph <= last)
    };
    match (0..ranges).map(|index| at + 4 + 6 * index).find(has_glyph) {
        Some(range) => u16_at(range + 4),
        None => Some(0),
    }
}

fn table(tag: [u8; 4]) -> Option<usize> {
    let count = usize::from(u16_at(4)?);
    let record =
        (0..count).map(|index| 12 + 16 * index).find(|at| FILE.get(*at..at + 4) == Some(&tag[..]))?;
    usize::try_from(u32_at(record + 8)?).ok()
}

fn bytes_at<const N: usize>(at: usize) -> Option<[u8; N]> {
    FILE.get(at..)?.first_chunk().copied()
}

fn u8_at(at: usize) -> Option<u8> {
    bytes_at(at).map(u8::from_be_bytes)
}

fn i8_at(at: usize) -> Option<i8> {
    bytes_at(at).map(i8::from_be_bytes)
}

fn u16_at(at: usize) -> Option<u16> {
    bytes_at(at).map(u16::from_be_bytes)
}

fn i16_at(at: usize) -> Option<i16> {
    bytes_at(at).map(i16::from_be_bytes)
}

fn u32_at(at: usize) -> Option<u32> {
    bytes_at(at).map(u32::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The ranges of `assets/fonts/README.md`, and characters that charts use.
    #[test]
    fn characters_have_glyphs_and_outlines() {
        let font = Font::embedded().unwrap();
        assert_eq!(font.units_per_em, 2048);
        for character in ('!'..='~').chain('\u{a1}'..='\u{17f}').chain('А'..='я').chain("…−→αΩ‰×".chars())
        {
            let glyph = font.glyph(character).filter(|glyph| *glyph != MISSING);
            let glyph = glyph.unwrap_or_else(|| panic!("{character} has no glyph"));
            assert!(!font.outline(glyph).is_empty() || character == '\u{ad}', "{character} has no outline");
            assert!(font.advance(glyph) > Some(0), "{character} has no width");
        }
        for contour in font.outline(font.glyph('g').unwrap()) {
            assert!(contour[0].on_curve);
            assert!(contour.windows(2).all(|pair| pair[0].on_curve || pair[1].on_curve), "{contour:?}");
        }
        let space = font.layout(" ");
        assert!(space.width > 0 && font.outline(space.glyphs[0].0).is_empty());
    }

    /// A box, and nothing for zero-width characters.
    #[test]
    fn characters_that_the_font_lacks_are_boxes() {
        let font = Font::embedded().unwrap();
        let layout = font.layout("漢🦀");
        assert_eq!(layout.glyphs.iter().map(|(glyph, _)| *glyph).collect::<Vec<_>>(), [MISSING; 2]);
        let outline = font.outline(MISSING);
        let right = outline.iter().flatten().map(|point| point.x).fold(f32::MIN, f32::max);
        assert!(outline.len() == 2 && right < font.advance(MISSING).unwrap().into());
        assert_eq!(font.layout("a\u{200b}\u{feff}b").width, font.layout("ab").width);
        assert_eq!(font.outline(u16::MAX), Vec::<Vec<OutlinePoint>>::new());
    }

    #[test]
    fn an_accented_letter_is_a_letter_and_an_accent() {
        let font = Font::embedded().unwrap();
        let outline = |character| font.outline(font.glyph(character).unwrap());
        let (letter, accented) = (outline('e'), outline('é'));
        assert_eq!(accented[..letter.len()], letter[..]);
        let top = |contours: &[Vec<OutlinePoint>]| {
            contours.iter().flatten().map(|point| point.y).fold(f32::MIN, f32::max)
        };
        assert!(accented.len() == letter.len() + 1 && top(&accented) > top(&letter));
    }

    #[test]
    fn a_text_is_as_wide_as_its_advances_and_its_kerning() {
        let font = Font::embedded().unwrap();
        // Digits have the same width and no kerning, so that numbers line up.
        assert_eq!(font.layout("1234567890").width, 10 * font.layout("0").width);
        let kern = |first, second| font.kern(font.glyph(first).unwrap(), font.glyph(second).unwrap());
        assert!(kern('A', 'V') < Some(-50) && kern('T', 'o') < Some(-50), "{:?}", kern('A', 'V'));
        assert_eq!(kern('H', 'H').unwrap_or(0), 0);
        let text = "AVATAR: To 12.50 GiB";
        let glyphs: Vec<u16> = text.chars().map(|character| font.glyph(character).unwrap()).collect();
        let advances: i32 = glyphs.iter().map(|glyph| i32::from(font.advance(*glyph).unwrap())).sum();
        let kerning: i32 =
            glyphs.windows(2).filter_map(|pair| font.kern(pair[0], pair[1])).map(i32::from).sum();
        assert!(kerning < 0);
        assert_eq!(font.layout(text).width, advances + kerning);
        assert_eq!(font.layout("").width, 0);
    }
}
