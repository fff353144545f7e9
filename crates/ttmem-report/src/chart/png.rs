//! Renders a chart to pixels with the embedded font.

use tiny_skia::{FillRule, Paint, Path, PathBuilder, Pixmap, Rect, Stroke, Transform};
use ttmem_model::{Error, Result};

use super::font::{Font, OutlinePoint};
use super::{Anchor, Chart, Color, Point, Shape, shown_text};
use crate::marker::marked_png;

/// Larger charts are refused: they would need more than 256 MiB, and `tiny-skia` computes positions in 16 bits.
const MAX_SIDE: u32 = 8192;
/// The limit for positions and sizes, outside every chart.
const MAX_POSITION: f32 = 12_000.0;

/// Renders a chart at its own size.
pub(super) fn png(chart: &Chart) -> Result<Vec<u8>> {
    let Chart { width, height, shapes } = chart;
    let pixels = if *width.max(height) <= MAX_SIDE { Pixmap::new(*width, *height) } else { None };
    let pixels =
        pixels.ok_or_else(|| Error::Bug(format!("cannot draw a chart of {width} x {height} pixels")))?;
    let font = Font::embedded().ok_or_else(|| Error::Bug("cannot read the embedded font".into()))?;
    let mut painter = Painter { pixels, font };
    painter.pixels.fill(tiny_skia::Color::WHITE);
    for shape in shapes {
        painter.draw(shape);
    }
    let png = painter.pixels.encode_png();
    let png = png.map_err(|error| Error::Bug(format!("cannot write a chart as PNG: {error}")))?;
    Ok(marked_png(&png))
}

struct Painter {
    pixels: Pixmap,
    font: Font,
}

impl Painter {
    fn draw(&mut self, shape: &Shape) {
        match shape {
            Shape::Bar { at: (x, y), width, height, color } => {
                let rect = Rect::from_xywh(pixel(*x), pixel(*y), size(*width), size(*height));
                self.fill(rect.map(PathBuilder::from_rect), *color);
            }
            Shape::Line { points, color, width } => {
                let stroke = Stroke { width: size(*width), ..Stroke::default() };
                if let Some(path) = through(points).and_then(PathBuilder::finish) {
                    self.pixels.stroke_path(&path, &paint(*color), &stroke, Transform::identity(), None);
                }
            }
            Shape::Polygon { points, color } => {
                let closed = through(points).and_then(|mut path| {
                    path.close();
                    path.finish()
                });
                self.fill(closed, *color);
            }
            Shape::Dot { at: (x, y), radius, color } => {
                self.fill(PathBuilder::from_circle(pixel(*x), pixel(*y), size(*radius)), *color);
            }
            Shape::Text { text, at, size, color, anchor } => {
                let letters = letters(&self.font, &shown_text(text), *at, *size, *anchor);
                self.fill(letters, *color);
            }
        }
    }

    /// Fills an outline. An empty one, such as a space's, is skipped.
    fn fill(&mut self, path: Option<Path>, color: Color) {
        if let Some(path) = path {
            self.pixels.fill_path(&path, &paint(color), FillRule::Winding, Transform::identity(), None);
        }
    }
}

fn paint(Color(red, green, blue): Color) -> Paint<'static> {
    let mut paint = Paint::default();
    paint.set_color_rgba8(red, green, blue, u8::MAX);
    paint
}

fn through(points: &[Point]) -> Option<PathBuilder> {
    let ((x, y), rest) = points.split_first()?;
    let mut path = PathBuilder::new();
    path.move_to(pixel(*x), pixel(*y));
    for (x, y) in rest {
        path.line_to(pixel(*x), pixel(*y));
    }
    Some(path)
}

/// The outlines of a line of text.
fn letters(font: &Font, text: &str, (x, y): Point, pixels: u32, anchor: Anchor) -> Option<Path> {
    let layout = font.layout(text);
    let scale = size(pixels) / f32::from(font.units_per_em);
    let width = float(layout.width) * scale;
    let start = pixel(x)
        - match anchor {
            Anchor::Start => 0.0,
            Anchor::Middle => width / 2.0,
            Anchor::End => width,
        };
    let baseline = pixel(y) + size(pixels) / 4.0;
    let mut path = PathBuilder::new();
    for (glyph, offset) in layout.glyphs {
        let left = start + float(offset) * scale;
        if !(-MAX_POSITION..MAX_POSITION).contains(&left) {
            continue;
        }
        let place =
            |point: OutlinePoint| (start + (float(offset) + point.x) * scale, baseline - point.y * scale);
        for contour in font.outline(glyph) {
            add_contour(&mut path, &contour, place);
        }
    }
    path.finish()
}

fn add_contour(path: &mut PathBuilder, contour: &[OutlinePoint], place: impl Fn(OutlinePoint) -> (f32, f32)) {
    let Some((first, rest)) = contour.split_first() else { return };
    let (x, y) = place(*first);
    path.move_to(x, y);
    let mut control = None;
    for point in rest.iter().chain([first]) {
        let (x, y) = place(*point);
        match control.take() {
            _ if !point.on_curve => control = Some((x, y)),
            Some((control_x, control_y)) => path.quad_to(control_x, control_y, x, y),
            None => path.line_to(x, y),
        }
    }
    path.close();
}

/// A position in pixels. Positions far outside a chart are not drawn, so they need not be exact.
fn pixel(position: i32) -> f32 {
    float(position).clamp(-MAX_POSITION, MAX_POSITION)
}

/// A width or height in pixels.
#[allow(clippy::cast_precision_loss, reason = "large numbers become the limit")]
fn size(pixels: u32) -> f32 {
    (pixels as f32).min(MAX_POSITION)
}

#[allow(clippy::cast_precision_loss, reason = "below 2^24 where it matters")]
fn float(number: i32) -> f32 {
    number as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    const INK: Color = Color(0x22, 0x22, 0x22);

    fn drawn(shapes: Vec<Shape>) -> Pixmap {
        Pixmap::decode_png(&Chart { width: 400, height: 60, shapes }.png().unwrap()).unwrap()
    }

    fn text(text: &str, at: Point, anchor: Anchor) -> Shape {
        Shape::Text { text: text.to_owned(), at, size: 20, color: INK, anchor }
    }

    /// The range of columns and of rows that are not white.
    fn extent(pixels: &Pixmap) -> Option<((u32, u32), (u32, u32))> {
        let is_drawn = |x, y| pixels.pixel(x, y).is_some_and(|pixel| pixel.red() != u8::MAX);
        let all: Vec<(u32, u32)> = (0..pixels.width())
            .flat_map(|x| (0..pixels.height()).map(move |y| (x, y)))
            .filter(|(x, y)| is_drawn(*x, *y))
            .collect();
        let range = |of: fn(&(u32, u32)) -> u32| Some((all.iter().map(of).min()?, all.iter().map(of).max()?));
        Some((range(|(x, _)| *x)?, range(|(_, y)| *y)?))
    }

    #[test]
    fn an_empty_chart_is_white() {
        assert_eq!(extent(&drawn(Vec::new())), None);
        let nothing = [
            Shape::Bar { at: (9, 9), width: 0, height: 5, color: INK },
            Shape::Line { points: Vec::new(), color: INK, width: 2 },
            Shape::Line { points: vec![(9, 9)], color: INK, width: 2 },
            Shape::Polygon { points: Vec::new(), color: INK },
            Shape::Dot { at: (9, 9), radius: 0, color: INK },
            text("", (9, 9), Anchor::Middle),
            text(" \u{200b} ", (9, 9), Anchor::Middle),
        ];
        assert_eq!(extent(&drawn(nothing.to_vec())), None);
    }

    #[test]
    fn charts_without_pixels_and_huge_charts_are_refused() {
        for (width, height) in [(0, 10), (10, 0), (u32::MAX, u32::MAX), (100_000, 100_000)] {
            let error = Chart { width, height, shapes: Vec::new() }.png().unwrap_err();
            assert!(error.to_string().contains(&format!("{width} x {height} pixels")), "{error}");
        }
    }

    /// Shapes may extend outside the chart, and names may have any length and any characters.
    #[test]
    fn whatever_is_drawn_is_a_picture() {
        let (most, least) = (i32::MAX, i32::MIN);
        let pixels = drawn(vec![
            Shape::Bar { at: (least, least), width: u32::MAX, height: 3, color: INK },
            Shape::Line { points: vec![(least, 5), (most, 5)], color: INK, width: u32::MAX },
            Shape::Polygon { points: vec![(least, least), (most, 0), (0, most)], color: INK },
            Shape::Dot { at: (most, least), radius: u32::MAX, color: INK },
            text("<b>&\u{1}\u{b}\u{ffff}\u{202e}e\u{301}\u{10ffff}🦀", (most, least), Anchor::End),
            text(&"wide ".repeat(1 << 12), (0, 30), Anchor::Middle),
        ]);
        assert_eq!((pixels.width(), pixels.height()), (400, 60));
    }

    /// The drawn letters span the layout's width from the anchor, except for the side bearings of the outer letters.
    #[test]
    fn a_text_is_drawn_over_its_width() {
        let font = Font::embedded().unwrap();
        for words in ["AVATAR To 12.50 GiB", "HHHH", "tinyllama (default)", "Ж — é…", "a  漢  b", " padded "]
        {
            let width = float(font.layout(&shown_text(words)).width) * 20.0 / f32::from(font.units_per_em);
            for (anchor, at, before) in
                [(Anchor::Start, 100, 0.0), (Anchor::Middle, 200, width / 2.0), (Anchor::End, 300, width)]
            {
                let start = float(at) - before;
                let ((left, right), (top, bottom)) =
                    extent(&drawn(vec![text(words, (at, 30), anchor)])).unwrap();
                let (left, right) = (size(left) - start, start + width - size(right) - 1.0);
                assert!(
                    (-1.0..3.5).contains(&left) && (-1.0..3.5).contains(&right),
                    "{words} {left} {right}"
                );
                assert!(top >= 14 && bottom <= 42 && top < 30 && bottom > 30, "{words} {top} {bottom}");
            }
        }
    }

    /// Half the x-height is above the point and half below, like `dy="0.5ex"` in an SVG.
    #[test]
    fn a_text_is_centred_on_its_point() {
        for pixels in 10..=20 {
            let shape = Shape::Text {
                text: "x".into(),
                at: (50, 30),
                size: pixels,
                color: INK,
                anchor: Anchor::Middle,
            };
            let (_, (top, bottom)) = extent(&drawn(vec![shape])).unwrap();
            let middle = f32::midpoint(size(top), size(bottom + 1));
            assert!((middle - 30.0).abs() <= 1.0, "{pixels}: {top} to {bottom}");
        }
    }
}
