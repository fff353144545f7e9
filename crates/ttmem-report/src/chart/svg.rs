//! A chart as an SVG document.

use std::fmt::{Display, Formatter, Result, Write};

use super::{Anchor, Chart, Point, Shape, shown_text};

/// The embedded font of PNG files, and fonts of about its width for viewers that do not have it.
const FONTS: &str = "DejaVu Sans, Verdana, Geneva, sans-serif";

/// One element per line.
pub(super) struct Document<'a>(pub &'a Chart);

impl Display for Document<'_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> Result {
        let Chart { width, height, shapes } = self.0;
        let size = format_args!(r#"width="{width}" height="{height}""#);
        writeln!(out, r#"<svg {size} viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">"#)?;
        writeln!(out, r##"<rect x="0" y="0" {size} fill="#FFFFFF"/>"##)?;
        for shape in shapes {
            write_shape(shape, out)?;
        }
        writeln!(out, "</svg>")
    }
}

fn write_shape(shape: &Shape, out: &mut Formatter<'_>) -> Result {
    match shape {
        Shape::Bar { at: (x, y), width, height, colour } => {
            writeln!(out, r#"<rect x="{x}" y="{y}" width="{width}" height="{height}" fill="{colour}"/>"#)
        }
        Shape::Line { points, colour, width } => {
            let points = Points(points);
            writeln!(
                out,
                r#"<polyline fill="none" stroke="{colour}" stroke-width="{width}" points="{points}"/>"#
            )
        }
        Shape::Polygon { points, colour } => {
            writeln!(out, r#"<polygon fill="{colour}" points="{}"/>"#, Points(points))
        }
        Shape::Dot { at: (x, y), radius, colour } => {
            writeln!(out, r#"<circle cx="{x}" cy="{y}" r="{radius}" fill="{colour}"/>"#)
        }
        Shape::Text { text, at: (x, y), size, colour, anchor } => {
            let anchor = match anchor {
                Anchor::Start => "start",
                Anchor::Middle => "middle",
                Anchor::End => "end",
            };
            write!(out, r#"<text x="{x}" y="{y}" dy="0.5ex" text-anchor="{anchor}" "#)?;
            write!(out, r#"font-family="{FONTS}" font-size="{size}" fill="{colour}">"#)?;
            writeln!(out, "{}</text>", Escaped(&shown_text(text)))
        }
    }
}

struct Points<'a>(&'a [Point]);

impl Display for Points<'_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> Result {
        for (index, (x, y)) in self.0.iter().enumerate() {
            let gap = if index == 0 { "" } else { " " };
            write!(out, "{gap}{x},{y}")?;
        }
        Ok(())
    }
}

struct Escaped<'a>(&'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> Result {
        for character in self.0.chars() {
            match character {
                '<' => out.write_str("&lt;"),
                '>' => out.write_str("&gt;"),
                '&' => out.write_str("&amp;"),
                '"' => out.write_str("&quot;"),
                '\'' => out.write_str("&apos;"),
                other => out.write_char(other),
            }?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Colour;
    use super::*;

    fn document(shapes: Vec<Shape>) -> String {
        Chart { width: 20, height: 10, shapes }.svg()
    }

    #[test]
    fn every_shape_is_an_element() {
        let colour = Colour(1, 0xab, 255);
        let points = vec![(1, 2), (-3, 4)];
        let svg = document(vec![
            Shape::Bar { at: (1, 2), width: 3, height: 4, colour },
            Shape::Line { points: points.clone(), colour, width: 2 },
            Shape::Polygon { points, colour },
            Shape::Dot { at: (5, 6), radius: 7, colour },
            Shape::Text { text: "GiB".into(), at: (8, 9), size: 12, colour, anchor: Anchor::End },
        ]);
        let lines = [
            r#"<svg width="20" height="10" viewBox="0 0 20 10" xmlns="http://www.w3.org/2000/svg">"#,
            r##"<rect x="0" y="0" width="20" height="10" fill="#FFFFFF"/>"##,
            r##"<rect x="1" y="2" width="3" height="4" fill="#01ABFF"/>"##,
            r##"<polyline fill="none" stroke="#01ABFF" stroke-width="2" points="1,2 -3,4"/>"##,
            r##"<polygon fill="#01ABFF" points="1,2 -3,4"/>"##,
            r##"<circle cx="5" cy="6" r="7" fill="#01ABFF"/>"##,
            concat!(
                r#"<text x="8" y="9" dy="0.5ex" text-anchor="end" "#,
                r#"font-family="DejaVu Sans, Verdana, Geneva, sans-serif" "#,
                r##"font-size="12" fill="#01ABFF">GiB</text>"##
            ),
            "</svg>",
        ];
        assert_eq!(svg.lines().collect::<Vec<_>>(), lines);
        assert_eq!(document(Vec::new()).lines().count(), 3);
    }

    #[test]
    fn hostile_names_make_a_document_that_can_be_read() {
        let text = "<script>&\"'\u{1}\u{b}\u{ffff}]]>\n  </text>".to_owned();
        let svg = document(vec![Shape::Text {
            text,
            at: (1, 1),
            size: 12,
            colour: Colour(0, 0, 0),
            anchor: Anchor::Start,
        }]);
        let expected = ">&lt;script&gt;&amp;&quot;&apos;··]]&gt;· &lt;/text&gt;</text>";
        assert!(svg.contains(expected) && svg.matches("</text>").count() == 1, "{svg}");
        let is_forbidden = |character: char| character.is_control() || character == '\u{ffff}';
        assert!(!svg.lines().any(|line| line.contains(is_forbidden)), "{svg:?}");
    }
}
