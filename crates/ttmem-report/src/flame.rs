//! A flame graph as an SVG file that can be zoomed and searched, or as folded stacks for other tools.
//!
//! The outermost line is at the top. A line of the user's program is orange, a line of a library blue.

use std::fmt::Write as _;
use std::io::{self, Write};

use crate::chart::{Color, Escaped, shown_text};
use crate::marker::{FOLDED, MARKER};
use crate::units::{count, percent_tenths, size};
use ttmem_query::{Extent, Flame, FlameName, FlameNode, FlameWhen, UNKNOWN_STACK};

/// The script for zoom and search.
const SCRIPT: &str = include_str!("../assets/flamegraph.js");

/// The width of the drawing, and its margin on both sides.
const WIDTH: u64 = 1200;
const MARGIN: u64 = 10;
/// The height of a line, and the distance of the first from the top.
const ROW: usize = 18;
const TOP: usize = 74;
/// Narrower parts are left out: they could not be seen, and a snapshot has many thousands.
const MIN_SHARE: u64 = 10_000;
/// The width of a character of the labels.
const CHARACTER: f64 = 6.4;

/// Writes a flame graph as SVG.
pub fn flame_svg(flame: &Flame, out: &mut dyn Write) -> io::Result<()> {
    out.write_all(document(flame).as_bytes())
}

/// Writes a flame graph as folded stacks: the lines from the outermost on, separated by `;`, and the bytes.
pub fn flame_folded(flame: &Flame, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{FOLDED}")?;
    let mut path: Vec<String> = Vec::new();
    for node in flame.nodes.iter().skip(1) {
        path.truncate(node.depth - 1);
        // A semicolon would begin another line of the stack.
        path.push(shown_text(&node.label()).replace(';', ","));
        if node.own_bytes > 0 {
            writeln!(out, "{} {}", path.join(";"), node.own_bytes)?;
        }
    }
    Ok(())
}

/// A node with its place.
struct Placed<'a> {
    node: &'a FlameNode,
    start: u64,
}

/// The nodes that are wide enough to be seen, each after its caller.
fn placed(flame: &Flame) -> Vec<Placed<'_>> {
    let total = flame.nodes.first().map_or(0, |root| root.bytes);
    // For each depth, where the next node begins.
    let mut next: Vec<u64> = vec![0];
    let mut shown = Vec::new();
    for node in &flame.nodes {
        let start = next.get(node.depth).copied().unwrap_or(0);
        next.truncate(node.depth);
        next.push(start.saturating_add(node.bytes));
        next.push(start);
        if node.bytes > 0 && node.bytes >= total / MIN_SHARE {
            shown.push(Placed { node, start });
        }
    }
    shown
}

fn document(flame: &Flame) -> String {
    let nodes = placed(flame);
    let total = flame.nodes.first().map_or(0, |root| root.bytes);
    let depth = nodes.iter().map(|placed| placed.node.depth).max().unwrap_or(0);
    let height = TOP + (depth + 1) * ROW + 12;
    let inner = WIDTH - 2 * MARGIN;
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(
        out,
        "<svg width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" data-left=\"{MARGIN}\" \
         data-width=\"{inner}\" data-total=\"{total}\" xmlns=\"http://www.w3.org/2000/svg\">"
    );
    let _ = writeln!(out, "<!-- {MARKER} -->");
    out.push_str(STYLE);
    let _ = writeln!(out, "<rect class=\"paper\" x=\"0\" y=\"0\" width=\"{WIDTH}\" height=\"{height}\"/>");
    let title = Escaped(&shown_text(&title(flame))).to_string();
    let subtitle = Escaped(&shown_text(&subtitle(flame, total))).to_string();
    let _ = writeln!(out, "<text class=\"title\" x=\"{MARGIN}\" y=\"26\">{title}</text>");
    let _ = writeln!(out, "<text class=\"note\" x=\"{MARGIN}\" y=\"46\">{subtitle}</text>");
    let _ = writeln!(
        out,
        "<g class=\"legend\"><rect x=\"{MARGIN}\" y=\"54\" width=\"11\" height=\"11\" fill=\"{}\"/>\
         <text class=\"note\" x=\"26\" y=\"64\">your program</text>\
         <rect x=\"116\" y=\"54\" width=\"11\" height=\"11\" fill=\"{}\"/>\
         <text class=\"note\" x=\"132\" y=\"64\">libraries</text></g>",
        color(0, false),
        color(0, true),
    );
    let button = |x: u64, id: &str, text: &str| {
        format!(
            "<text class=\"link\" id=\"{id}\" role=\"button\" tabindex=\"0\" x=\"{x}\" y=\"64\" text-anchor=\"end\" \
             style=\"display:none\">{text}</text>\n"
        )
    };
    out.push_str(&button(WIDTH - MARGIN, "search", "Search"));
    out.push_str(&button(WIDTH - MARGIN - 60, "reset", "Reset zoom"));
    let _ = writeln!(
        out,
        "<text class=\"note\" id=\"matched\" x=\"{}\" y=\"64\" text-anchor=\"end\"></text>",
        WIDTH - MARGIN - 150
    );
    for placed in &nodes {
        write_node(placed, total, inner, &mut out);
    }
    let _ = writeln!(out, "<script><![CDATA[\n{SCRIPT}]]></script>\n</svg>");
    out
}

#[allow(clippy::cast_precision_loss, reason = "positions in a picture need no more precision")]
fn write_node(placed: &Placed<'_>, total: u64, inner: u64, out: &mut String) {
    let Placed { node, start } = placed;
    let scale = inner as f64 / total.max(1) as f64;
    let (x, width) = (MARGIN as f64 + *start as f64 * scale, (node.bytes as f64 * scale).max(0.3));
    let y = TOP + node.depth * ROW;
    let end = start.saturating_add(node.bytes);
    let (full, short) = (shown_text(&node.label()), shown_text(&short_label(node)));
    let allocations = if node.allocations == 1 { "allocation" } else { "allocations" };
    let _ = writeln!(
        out,
        "<g class=\"f\" tabindex=\"0\" data-s=\"{start}\" data-e=\"{end}\" data-d=\"{}\" data-n=\"{}\">\
         <title>{}\n{} ({}), {} {allocations}</title>\
         <rect x=\"{x:.2}\" y=\"{y}\" width=\"{width:.2}\" height=\"{}\" rx=\"1\" fill=\"{}\"/>\
         <text x=\"{:.2}\" y=\"{}\">{}</text></g>",
        node.depth,
        Escaped(&short),
        Escaped(&full),
        size(node.bytes),
        percent_tenths(node.bytes, total),
        count(node.allocations),
        ROW - 1,
        fill(node),
        x + 4.0,
        y + 13,
        Escaped(&clipped(&short, width - 6.0)),
    );
}

/// The text, or as much of it as fits.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a width in characters is small")]
fn clipped(text: &str, room: f64) -> String {
    let most = (room / CHARACTER).max(0.0) as usize;
    if text.chars().count() <= most {
        return text.to_owned();
    }
    if most < 4 {
        return String::new();
    }
    text.chars().take(most - 1).chain(['…']).collect()
}

/// The function, and the file without its folder.
fn short_label(node: &FlameNode) -> String {
    match &node.name {
        FlameName::Root | FlameName::Unknown => node.label(),
        FlameName::Line { function, file, line, .. } => {
            let file = file.rsplit(['/', '\\']).next().unwrap_or(file);
            match (file, line) {
                ("" | "??", _) => function.clone(),
                (file, 0) => format!("{function} {file}"),
                (file, line) => format!("{function} {file}:{line}"),
            }
        }
    }
}

/// The color of a node. The shade depends on the function, so that neighbors differ and a function looks the same in
/// every picture.
fn fill(node: &FlameNode) -> Color {
    match &node.name {
        FlameName::Root => Color(0xd8, 0xdb, 0xe2),
        FlameName::Unknown => Color(0xc4, 0xc8, 0xd0),
        FlameName::Line { function, file, library, .. } => {
            let letters = function.bytes().chain(file.bytes());
            let hash = letters.fold(7u32, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into()));
            color(u8::try_from(hash % 5).unwrap_or(0), *library)
        }
    }
}

fn color(shade: u8, library: bool) -> Color {
    if library {
        Color(0xa9 + shade * 7, 0xc6 + shade * 4, 0xea)
    } else {
        Color(0xf6, 0xa5 + shade * 8, 0x50 + shade * 10)
    }
}

/// `CUDA:0: live memory at the peak, by call stack`
fn title(flame: &Flame) -> String {
    let what = match flame.when {
        FlameWhen::Peak(_) => "live memory at the peak".to_owned(),
        FlameWhen::At(step) => format!("live memory before step {}", count(step.into())),
        FlameWhen::Steps(..) => "allocated memory".to_owned(),
    };
    format!("{}: {what}, by call stack", flame.pool)
}

/// `1.20 of 1.31 GiB, before step 1,517, train.ttmem`
fn subtitle(flame: &Flame, total: u64) -> String {
    let extent = match flame.extent {
        Extent::Bank => " per bank",
        Extent::Core => " per core",
        Extent::Device => "",
    };
    let part = match flame.held {
        Some(held) if held > total => {
            format!("{} in tracked allocations, {} allocated", size(total), size(held))
        }
        _ => size(total),
    };
    let when = match flame.when {
        FlameWhen::Peak(step) => format!(", before step {}", count(step.into())),
        FlameWhen::At(_) => String::new(),
        FlameWhen::Steps(first, end) => {
            format!(" in steps {} to {}", count(first.into()), count(u64::from(end.max(first + 1) - 1)))
        }
    };
    let unknown = flame.nodes.iter().find(|node| node.name == FlameName::Unknown);
    let unknown =
        unknown.map_or_else(String::new, |node| format!(", {} with {UNKNOWN_STACK}", size(node.bytes)));
    let rank = flame.rank.as_ref().map_or_else(String::new, |rank| format!(", rank {rank}"));
    format!("{part}{extent}{when}{unknown}{rank}, {}", crate::name_of_file(&flame.file))
}

const STYLE: &str = "<style>
svg { font-family: DejaVu Sans, Verdana, Geneva, sans-serif; font-size: 11px }
.paper { fill: #fff } text { fill: #14161a }
.title { font-size: 16px; font-weight: bold } .note { fill: #555b66 } .title, .note { user-select: text }
.link { fill: #1a5fb4; cursor: pointer; text-decoration: underline }
.f { cursor: pointer } .f rect { stroke: #fff; stroke-width: 0.5 } .f text { pointer-events: none }
.f:hover rect, .f:focus rect { stroke: #14161a; stroke-width: 1 } .f:focus { outline: none }
.f.hit rect { fill: #d63fd6 } .f.hit text { fill: #fff }
@media (prefers-color-scheme: dark) {
.paper { fill: #16181d } .title { fill: #eceef2 } .note { fill: #a8afbb } .link { fill: #7ab7ff }
.f rect { stroke: #16181d } .f:hover rect, .f:focus rect { stroke: #fff }
}
</style>
";

#[cfg(test)]
mod tests {
    use super::*;

    fn line(function: &str, parent: usize, depth: usize, bytes: u64, own_bytes: u64) -> FlameNode {
        FlameNode {
            name: FlameName::Line {
                function: function.into(),
                file: "/home/me/train.py".into(),
                line: 7,
                library: false,
            },
            parent: Some(parent),
            depth,
            bytes,
            own_bytes,
            allocations: 2,
        }
    }

    fn flame(nodes: Vec<FlameNode>) -> Flame {
        let bytes = nodes.iter().filter(|node| node.depth == 1).map(|node| node.bytes).sum();
        let root =
            FlameNode { name: FlameName::Root, parent: None, depth: 0, bytes, own_bytes: 0, allocations: 2 };
        Flame {
            file: "train.ttmem".into(),
            rank: None,
            other_ranks: 0,
            pool: "CUDA:0".into(),
            extent: Extent::Device,
            when: FlameWhen::Peak(1517),
            held: Some(bytes),
            nodes: std::iter::once(root).chain(nodes).collect(),
        }
    }

    fn two_branches() -> Flame {
        flame(vec![
            line("main", 0, 1, 3 << 20, 0),
            line("forward", 1, 2, 2 << 20, 2 << 20),
            line("loss", 1, 2, 1 << 20, 1 << 20),
            FlameNode { name: FlameName::Unknown, ..line("", 0, 1, 1 << 20, 1 << 20) },
        ])
    }

    #[test]
    fn parts_lie_below_their_callers_and_have_sizes() {
        let svg = document(&two_branches());
        let places: Vec<(&str, &str)> = svg
            .lines()
            .filter(|line| line.starts_with("<g class=\"f\""))
            .map(|line| {
                let of = |name: &str| line.split_once(name).unwrap().1.split_once('"').unwrap().0;
                (of("data-s=\""), of("data-e=\""))
            })
            .collect();
        let expected = [
            ("0", "4194304"),
            ("0", "3145728"),
            ("0", "2097152"),
            ("2097152", "3145728"),
            ("3145728", "4194304"),
        ];
        assert_eq!(places, expected);
        for text in [
            "CUDA:0: live memory at the peak, by call stack",
            "4.0 MiB, before step 1,517, 1.0 MiB with unknown stack, train.ttmem",
            "<title>forward (/home/me/train.py:7)\n2.0 MiB (50.0%), 2 allocations</title>",
            ">forward train.py:7</text>",
        ] {
            assert!(svg.contains(text), "{text}\n{svg:.2000}");
        }
    }

    #[test]
    fn hostile_names_cannot_leave_their_place() {
        let name = "</title><script>alert(1)</script>]]>\"'&\u{1}\n;x";
        let mut hostile = flame(vec![line(name, 0, 1, 1 << 20, 1 << 20)]);
        hostile.pool = name.into();
        hostile.file = name.into();
        let svg = document(&hostile);
        assert_eq!(svg.matches("<script>").count(), 1, "{svg:.3000}");
        assert_eq!(svg.matches("]]>").count(), 1);
        assert!(!svg.contains('\u{1}') && svg.contains("&lt;/title&gt;&lt;script&gt;"));
        let mut folded = Vec::new();
        flame_folded(&hostile, &mut folded).unwrap();
        let folded = String::from_utf8(folded).unwrap();
        assert_eq!(folded.lines().count(), 2, "{folded}");
        assert!(!folded.contains(';') && folded.ends_with(" 1048576\n"), "{folded}");
    }

    #[test]
    fn folded_stacks_have_the_bytes_of_each_stack() {
        let mut folded = Vec::new();
        flame_folded(&two_branches(), &mut folded).unwrap();
        let expected = "# generated by ttmem\n\
            main (/home/me/train.py:7);forward (/home/me/train.py:7) 2097152\n\
            main (/home/me/train.py:7);loss (/home/me/train.py:7) 1048576\n\
            unknown stack 1048576\n";
        assert_eq!(String::from_utf8(folded).unwrap(), expected);
    }

    #[test]
    fn parts_that_cannot_be_seen_are_left_out() {
        let mut nodes = vec![line("main", 0, 1, 1 << 30, 0)];
        nodes.push(line("seen", 1, 2, (1 << 30) - 5000, (1 << 30) - 5000));
        nodes.extend((0..5000).map(|number| line(&format!("tiny{number}"), 1, 2, 1, 1)));
        let svg = document(&flame(nodes));
        assert!(svg.contains("seen") && !svg.contains("tiny") && svg.len() < 20_000);
    }
}
