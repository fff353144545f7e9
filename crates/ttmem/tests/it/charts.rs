//! Charts: what is on them, in which colors, and that they are the same every time.

use std::collections::BTreeMap;
use std::fs;
use std::ops::{Range, RangeInclusive};
use std::path::Path;

use tiny_skia::Pixmap;
use ttmem::model::{Phase, Profile, SessionId};
use ttmem::query::over_time::{OverTime, PointOverTime};
use ttmem::query::{ChartRequest, Drawn, Phases, PhasesRequest, Request, RunFilter, chart, phases, summary};
use ttmem::report::chart::{
    Anchor, COLUMNS, Chart, Color, Picture, Shape, over_phases, over_time, peak_bars,
};
use ttmem::{Error, read};

use crate::training::{corpus, log_of, opened};

const COLORS: [&str; 5] = ["#CCCCCC", "#4DA6B8", "#E789AB", "#CEC0FA", "#E38A42"];
const LIMIT: &str = "#D62728";

fn tinyllama() -> Phases {
    let mut profile = corpus("tt_train/tinyllama.log");
    profile.source.file = "tinyllama.log".into();
    phases(&[profile], &PhasesRequest::default()).unwrap()
}

fn bars_of(log: &str, request: &PhasesRequest) -> String {
    peak_bars(&phases(&[opened(log)], request).unwrap(), None).unwrap().svg()
}

/// The texts of an SVG, in order.
fn texts(svg: &str) -> Vec<&str> {
    let texts = svg.split("<text").skip(1);
    texts.map(|text| text.split_once('>').unwrap().1.split("</text>").next().unwrap().trim()).collect()
}

fn dashes(svg: &str) -> usize {
    let is_dash = |line: &&str| line.contains("<polyline") && line.contains(LIMIT);
    svg.lines().filter(is_dash).count()
}

fn pixels(png: &[u8]) -> Pixmap {
    Pixmap::decode_png(png).unwrap()
}

fn span(start: u32, length: u32) -> Range<u32> {
    start..start + length
}

/// The most frequent color of a rectangle: labels and lines cover some of a bar.
fn main_color(image: &Pixmap, columns: Range<u32>, rows: Range<u32>) -> String {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for (x, y) in rows.flat_map(|y| columns.clone().map(move |x| (x, y))) {
        let pixel = image.pixel(x, y).unwrap();
        *counts.entry(Color(pixel.red(), pixel.green(), pixel.blue()).to_string()).or_default() += 1;
    }
    counts.into_iter().max_by_key(|(_, count)| *count).unwrap().0
}

/// Where two images of one size differ.
fn differing(image: &Pixmap, other: &Pixmap) -> Vec<(i32, i32)> {
    let width = usize::try_from(image.width()).unwrap();
    let pairs = image.pixels().iter().zip(other.pixels()).enumerate();
    let differing = pairs.filter(|(_, (pixel, other))| pixel != other);
    let place = |index: usize| (i32::try_from(index % width).unwrap(), i32::try_from(index / width).unwrap());
    differing.map(|(index, _)| place(index)).collect()
}

fn attribute<'a>(element: &'a str, name: &str) -> &'a str {
    element.split_once(&format!(" {name}=\"")).unwrap().1.split('"').next().unwrap()
}

fn has_pixel(image: &Pixmap, color: &str) -> bool {
    let part = |at: usize| u8::from_str_radix(&color[at..at + 2], 16).unwrap();
    let wanted = (part(1), part(3), part(5));
    image.pixels().iter().any(|pixel| (pixel.red(), pixel.green(), pixel.blue()) == wanted)
}

#[test]
fn bars_have_their_parts_numbers_and_limit() {
    let svg = peak_bars(&tinyllama(), Some("TinyLlama & <co>")).unwrap().svg();
    let texts = texts(&svg);
    for text in [
        "TinyLlama &amp; &lt;co&gt;",
        "Other",
        "Model Parameters",
        "Gradients Overhead",
        "Optimizer State",
        "Activations",
        "tinyllama (memory_efficient)",
        "tinyllama (default)",
        "8.08 GiB (67.4%)",
        "15.30 GiB (127.5%)",
        "1.81 GiB",
        "2.45 GiB",
        "9.41 GiB",
        "458.8 MiB",
        "12.00 GiB",
        "GiB",
    ] {
        assert!(texts.contains(&text), "{text} is not in {texts:?}");
    }
    for color in COLORS {
        assert!(svg.contains(color), "{color}");
    }
    assert!(dashes(&svg) > 20, "{}", dashes(&svg));
    assert!(svg.contains("font-family=\"DejaVu Sans, "), "{}", &svg[..400]);
}

#[test]
fn a_png_has_the_size_and_the_colors_of_its_svg() {
    let chart = peak_bars(&tinyllama(), None).unwrap();
    let svg = chart.svg();
    let png = Picture::Png.bytes(&chart).unwrap();
    let image = pixels(&png);
    assert_eq!((image.width(), image.height()), (1000, 640));
    assert!(svg.contains("width=\"1000\" height=\"640\""));
    for color in COLORS.into_iter().chain([LIMIT]) {
        assert!(has_pixel(&image, color), "{color}");
    }
    // Texts are there: without a font they would be missing.
    let mut bare = chart.clone();
    bare.shapes.retain(|shape| !matches!(shape, Shape::Text { .. }));
    assert_ne!(pixels(&Picture::Png.bytes(&bare).unwrap()), image);
    assert!(png.len() < 60_000, "{}", png.len());
}

/// Every bar of the SVG has its color in the PNG, and pixels of texts are where the texts are and nowhere else.
#[test]
fn an_svg_and_a_png_have_their_shapes_at_the_same_places() {
    let answer = tinyllama();
    let profile = corpus("tt_log/vae-decoder.log");
    let charts = [
        peak_bars(&answer, None).unwrap(),
        over_phases(&answer, None).unwrap(),
        over_time(&steps(&profile, &request()), None),
    ];
    for chart in &charts {
        let (svg, image) = (chart.svg(), pixels(&Picture::Png.bytes(chart).unwrap()));
        let rects: Vec<&str> = svg.lines().filter(|line| line.starts_with("<rect")).skip(1).collect();
        let bars = chart.shapes.iter().filter(|shape| matches!(shape, Shape::Bar { .. })).count();
        assert!(bars > 3 && rects.len() == bars);
        for rect in rects {
            let number = |name: &str| attribute(rect, name).parse::<u32>().unwrap();
            let (columns, rows) = (span(number("x"), number("width")), span(number("y"), number("height")));
            assert_eq!(main_color(&image, columns, rows), attribute(rect, "fill"), "{rect}");
        }
        let (texts, shapes): (Vec<Shape>, Vec<Shape>) =
            chart.shapes.iter().cloned().partition(|shape| matches!(shape, Shape::Text { .. }));
        let without_text = pixels(&Picture::Png.bytes(&Chart { shapes, ..chart.clone() }).unwrap());
        let letters = differing(&image, &without_text);
        let boxes: Vec<TextBox> = texts.iter().filter_map(text_box).collect();
        assert!(boxes.len() > 10);
        for (text, columns, rows) in &boxes {
            let is_drawn = letters.iter().any(|(x, y)| columns.contains(x) && rows.contains(y));
            assert!(is_drawn, "{text} is not drawn");
        }
        let is_text = |(x, y): &(i32, i32)| {
            boxes.iter().any(|(_, columns, rows)| columns.contains(x) && rows.contains(y))
        };
        let stray: Vec<_> = letters.iter().filter(|pixel| !is_text(pixel)).collect();
        assert!(stray.is_empty(), "{stray:?}");
    }
}

type TextBox = (String, RangeInclusive<i32>, RangeInclusive<i32>);

/// The columns and rows that a text may have: no letter is wider than the size of the font.
fn text_box(shape: &Shape) -> Option<TextBox> {
    let Shape::Text { text, at: (x, y), size, anchor, .. } = shape else { return None };
    let size = i32::try_from(*size).unwrap();
    let width = size * i32::try_from(text.chars().count()).unwrap();
    let columns = match anchor {
        Anchor::Start => x - 1..=x + width,
        Anchor::Middle => x - width / 2 - 1..=x + width / 2 + 1,
        Anchor::End => x - width..=x + 1,
    };
    (!text.is_empty()).then(|| (text.clone(), columns, y - size..=y + size))
}

#[test]
fn charts_are_the_same_every_time() {
    let answer = tinyllama();
    let bytes = || {
        let chart = peak_bars(&answer, None).unwrap();
        (Picture::Png.bytes(&chart).unwrap(), chart.svg(), over_phases(&answer, None).unwrap().svg())
    };
    assert!(bytes() == bytes());
    let profile = corpus("tt_log/vae-decoder.log");
    let svg = || over_time(&steps(&profile, &request()), None).svg();
    assert!(svg() == svg());
}

#[test]
fn what_is_below_nothing_hangs_from_zero() {
    let log = log_of(&[
        ("MODEL_CREATION", 900, 900),
        ("OPTIMIZER_CREATION", 500, 500),
        ("FORWARD_PASS", 300, 350),
        ("BACKWARD_PASS", 600, 800),
    ]);
    let svg = bars_of(&log, &PhasesRequest::default());
    let texts = texts(&svg);
    assert!(texts.contains(&"−1.56 GiB") && texts.contains(&"−2"), "{texts:?}");
    assert!(texts.iter().any(|text| text.starts_with("Other is negative")), "{texts:?}");
    let measured = bars_of(&log, &PhasesRequest { use_actual_sizes: true, ..PhasesRequest::default() });
    assert!(!measured.contains("is negative"));
}

#[test]
fn devices_that_differ_have_a_line_each() {
    let said = [("MODEL_CREATION", 1000, 1000)];
    let log = log_of(&said) + &log_of(&said).replace("12288 MB", "8192 MB");
    let svg = bars_of(&log, &PhasesRequest::default());
    assert!(texts(&svg).contains(&"8.00 GiB") && texts(&svg).contains(&"12.00 GiB"));
    assert!(svg.contains("memory of each device"));
}

/// Labels of thin parts stand one above the other, none on another.
#[test]
fn labels_beside_a_bar_do_not_overlap() {
    let mut said = vec![("MODEL_CREATION", 10, 10), ("OPTIMIZER_CREATION", 20, 20)];
    said.extend([("FORWARD_PASS", 30, 30), ("BACKWARD_PASS", 5, 10)]);
    let log = log_of(&said).replace("524288000", "5242880");
    let svg = bars_of(&log, &PhasesRequest::default());
    let beside: Vec<i32> = svg
        .lines()
        .filter(|line| line.contains("<text") && line.contains("font-size=\"11\"") && line.contains("start"))
        .map(|line| line.split("y=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap())
        .collect();
    assert!(beside.len() >= 4, "{svg}");
    assert!(beside.windows(2).all(|pair| pair[0] - pair[1] >= 13), "{beside:?}");
}

/// The rectangle that a text takes, roughly: left, right, top, bottom.
fn extent(text: &str, (x, y): (i32, i32), size: u32, anchor: Anchor) -> (i32, i32, i32, i32) {
    let size = i32::try_from(size).unwrap();
    let wide = i32::try_from(text.chars().count()).unwrap() * size * 55 / 100;
    let left = match anchor {
        Anchor::Start => x,
        Anchor::Middle => x - wide / 2,
        Anchor::End => x - wide,
    };
    (left, left + wide, y - size / 2, y + size / 2)
}

/// The texts that a red line strikes through. A rectangle between the line and the text covers the line.
fn struck_through(chart: &Chart) -> Vec<&str> {
    let red = |shape: &Shape| match shape {
        Shape::Line { points, color, .. } if color.to_string() == LIMIT => Some((points[0], points[1])),
        _ => None,
    };
    let is_struck = |at: usize| {
        let Shape::Text { text, at: place, size, anchor, .. } = &chart.shapes[at] else { return false };
        let (left, right, top, bottom) = extent(text, *place, *size, *anchor);
        let is_hit = |line: &usize| {
            let Some(((x1, y1), (x2, y2))) = red(&chart.shapes[*line]) else { return false };
            x1.max(x2) >= left && x1.min(x2) <= right && y1.max(y2) >= top && y1.min(y2) <= bottom
        };
        let covers = |shape: &Shape| match shape {
            Shape::Bar { at: (x, y), width, height, .. } => {
                let (width, height) = (i32::try_from(*width).unwrap(), i32::try_from(*height).unwrap());
                *x <= left && x + width >= right && *y <= top && y + height >= bottom
            }
            _ => false,
        };
        (0..chart.shapes.len()).filter(is_hit).any(|line| {
            // What is drawn later is in front.
            line > at || !chart.shapes[line..at].iter().any(covers)
        })
    };
    let texts = (0..chart.shapes.len()).filter(|at| is_struck(*at));
    texts
        .filter_map(|at| match &chart.shapes[at] {
            Shape::Text { text, .. } => Some(text.as_str()),
            _ => None,
        })
        .collect()
}

/// Whatever the limit is, its line is beside the labels.
#[test]
fn no_label_is_struck_through_by_the_limit() {
    let log = log_of(&[
        ("MODEL_CREATION", 900, 900),
        ("OPTIMIZER_CREATION", 500, 500),
        ("FORWARD_PASS", 300, 350),
        ("BACKWARD_PASS", 600, 800),
    ]);
    for profile in [corpus("tt_train/tinyllama.log"), opened(&log)] {
        for megabytes in (400..17_000).step_by(50) {
            let device_memory = Some(megabytes << 20);
            let answer = phases(
                std::slice::from_ref(&profile),
                &PhasesRequest { device_memory, ..PhasesRequest::default() },
            )
            .unwrap();
            for chart in [peak_bars(&answer, None).unwrap(), over_phases(&answer, None).unwrap()] {
                assert_eq!(struck_through(&chart), <[&str; 0]>::default(), "{megabytes} MiB");
            }
        }
    }
}

#[test]
fn many_sessions_make_it_wider_up_to_a_limit() {
    let log: String = (0..60).map(|_| log_of(&[("MODEL_CREATION", 1000, 1000)])).collect();
    let svg = bars_of(&log, &PhasesRequest::default());
    assert!(svg.contains("40 of 60 sessions"));
    let width: u32 = svg.split("width=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap();
    assert!((5000..6500).contains(&width), "{width}");
}

#[test]
fn without_figures_there_is_nothing_to_draw() {
    let log = log_of(&[("MODEL_CREATION", 10, 10)]);
    let bare = log.lines().filter(|line| !line.contains("DRAM")).collect::<Vec<_>>().join("\n");
    let answer = phases(&[opened(&bare)], &PhasesRequest::default()).unwrap();
    for drawn in [peak_bars(&answer, None), over_phases(&answer, None)] {
        let error = drawn.unwrap_err();
        assert!(error.exit_code() == 4 && error.to_string().contains("nothing to draw"), "{error}");
    }
}

#[test]
fn a_picture_is_what_its_ending_says() {
    assert_eq!(Picture::of(Path::new("a/b.SVG")).unwrap(), Picture::Svg);
    assert_eq!(Picture::of(Path::new("b.png")).unwrap(), Picture::Png);
    for other in ["b.jpg", "b", "png", "-"] {
        let error = Picture::of(Path::new(other)).unwrap_err();
        assert!(error.exit_code() == 2 && error.to_string().contains(other), "{error}");
    }
}

// -------------------------------------------------------------------------------------------------- over time

fn request() -> ChartRequest {
    ChartRequest { columns: COLUMNS, ..ChartRequest::default() }
}

fn steps(profile: &Profile, request: &ChartRequest) -> OverTime {
    match chart(profile, request).unwrap() {
        Drawn::Steps(drawn) => drawn,
        Drawn::Phases(_) => panic!("it has steps"),
    }
}

/// The curve, the peak and the classes are the summary's, for every log and every pool.
#[test]
fn the_curve_has_the_numbers_of_the_summary() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/tt_log");
    let mut seen = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|ending| ending != "log") {
            continue;
        }
        let profile = read::open(path.to_str().unwrap()).unwrap();
        let answer = summary(std::slice::from_ref(&profile), &Request::default()).unwrap();
        for rank in &answer.ranks {
            for (name, pool) in rank.pools.iter() {
                let ask = ChartRequest { pool: Some(name.into()), rank: rank.rank.clone(), ..request() };
                let Ok(Drawn::Steps(drawn)) = chart(&profile, &ask) else { continue };
                let highest = drawn.points.iter().map(|point| point.per_bank).max();
                // Between two readings it is rebuilt: to the byte, where readings are rounded.
                let differs = highest.unwrap().abs_diff(pool.peak_per_bank.unwrap());
                assert!(differs <= pool.quantum_per_bank, "{} {name}: {differs}", path.display());
                assert_eq!(drawn.peak.as_ref().map(|peak| peak.position), pool.peak_step);
                let lengths = drawn.classes.iter().map(|class| class.per_bank.len());
                assert!(lengths.into_iter().all(|length| length == drawn.points.len()));
                over_time(&drawn, None);
                seen += 1;
            }
        }
    }
    assert!(seen > 10, "{seen}");
}

#[test]
fn a_pool_over_time_has_its_peak_its_operation_and_its_limit() {
    let mut profile = corpus("tt_log/oom-fragmentation.log");
    profile.source.file = "oom.log".into();
    let drawn = steps(&profile, &request());
    let chart = over_time(&drawn, None);
    let svg = chart.svg();
    let texts = texts(&svg);
    for text in
        ["DRAM over time: oom.log", "peak 947.5 MiB, step 106 ttnn.full", "DRAM capacity 1.00 GiB", "step"]
    {
        assert!(texts.contains(&text), "{text} is not in {texts:?}");
    }
    assert!(dashes(&svg) > 20 && svg.contains("#E38A42"));
    let image = pixels(&Picture::Png.bytes(&chart).unwrap());
    assert_eq!((image.width(), image.height()), (1000, 560));
    assert!(has_pixel(&image, LIMIT) && has_pixel(&image, "#E38A42"));
}

#[test]
fn the_step_that_ran_out_of_memory_is_marked() {
    let drawn = |name: &str, pool: Option<&str>| {
        let request = ChartRequest { pool: pool.map(str::to_owned), ..request() };
        over_time(&steps(&corpus(name), &request), None)
    };
    let upright = |chart: &Chart| {
        let is_upright = |shape: &&Shape| match shape {
            Shape::Line { points, color, .. } => {
                color.to_string() == LIMIT && points[0].0 == points[1].0 && points[0].1 != points[1].1
            }
            _ => false,
        };
        chart.shapes.iter().filter(is_upright).count()
    };
    for (name, pool, said) in [
        ("tt_log/oom-fragmentation.log", None, "out of memory, step 107"),
        ("tt_log/oom-capacity.log", None, "out of memory, step 27"),
        ("tt_log/oom-capacity.log", Some("L1"), "out of memory in DRAM, step 27"),
        ("tt_log/oom-l1-small.log", None, "out of memory, step 2"),
        ("ttmem/0.1.0/cuda_oom.ttmem", None, "out of memory, step 242"),
        ("ttmem/0.1.0/cuda_oom.ttmem", Some("cpu"), "out of memory in cuda:0, step 242"),
    ] {
        let chart = drawn(name, pool);
        let svg = chart.svg();
        assert!(texts(&svg).contains(&said), "{name}: {said} is not in {:?}", texts(&svg));
        assert_eq!(upright(&chart), 1, "{name}");
        assert_eq!(struck_through(&chart), <[&str; 0]>::default(), "{name}");
    }
    let chart = drawn("tt_log/vae-decoder.log", None);
    assert!(upright(&chart) == 0 && !chart.svg().contains("out of memory"));
}

#[test]
fn a_part_of_the_steps_is_drawn_alone() {
    let profile = corpus("tt_log/vae-decoder.log");
    let whole = steps(&profile, &request());
    let last = steps(&profile, &ChartRequest { run: RunFilter::Last, ..request() });
    assert!(last.first > 0 && last.end == whole.end);
    assert!(last.points.iter().all(|point| point.moment >= 2 * last.first as usize));
    assert!(last.points.len() < whole.points.len());
    let error = chart(&profile, &ChartRequest { pool: Some("DISK".into()), ..request() }).unwrap_err();
    assert!(error.to_string().contains("no pool DISK: available pools are DRAM"), "{error}");
    assert!(chart(&profile, &ChartRequest { run: RunFilter::Number(9), ..request() }).is_err());
}

/// Of more points than there are pixels, the highest of each column are drawn: as many as there are columns.
#[test]
fn a_curve_with_too_many_points_is_drawn_by_its_highest() {
    let mut drawn = steps(&corpus("tt_log/vae-decoder.log"), &request());
    let few = over_time(&drawn, None).svg().len();
    let point = drawn.points[0];
    drawn.end = 100_000;
    drawn.classes.clear();
    drawn.points = (0..4000)
        .map(|index| PointOverTime {
            moment: index * 50,
            per_bank: if index % 2 == 0 { 100 } else { 700 << 20 },
        })
        .chain([PointOverTime { moment: 200_000, ..point }])
        .collect();
    let svg = over_time(&drawn, None).svg();
    let curve = svg.lines().find(|line| line.contains("#1F4E79") && line.contains("<polyline")).unwrap();
    let corners = curve.split("points=").nth(1).unwrap().split(',').count();
    assert!(corners < 2 * COLUMNS && svg.len() < few * 10, "{corners}");
}

#[test]
fn phases_that_have_steps_are_bands_behind() {
    let mut profile = corpus("tt_log/vae-decoder.log");
    let name = profile.ranks[0].pools[0].name;
    let phase = |steps| Phase {
        session: SessionId::new(0).unwrap(),
        name,
        steps: Some(steps),
        line: None,
        segment_peak: None,
        allocations: None,
        deallocations: None,
        change: None,
        cumulative_peak: None,
        cumulative_current: None,
        l1_peak_cb: None,
        l1_peak_buffer: None,
        l1_peak_total: None,
    };
    profile.ranks[0].phases = vec![phase((0, 100)), phase((100, 150)), phase((5000, 6000))];
    let drawn = steps(&profile, &request());
    assert_eq!(
        drawn.phases.iter().map(|phase| (phase.first, phase.end)).collect::<Vec<_>>(),
        [(0, 100), (100, 150)]
    );
    let svg = over_time(&drawn, None).svg();
    assert!(svg.contains("#F4F1E8") && svg.contains("#ECF2F6"));
}

#[test]
fn a_training_log_is_drawn_over_its_phases() {
    let profile = corpus("tt_train/tinyllama.log");
    let Drawn::Phases(answer) = chart(&profile, &request()).unwrap() else { panic!("it has no steps") };
    let svg = over_phases(&answer, Some("over phases")).unwrap().svg();
    let texts = texts(&svg);
    for text in ["over phases", "15.30 GiB", "7.25 GiB", "FIRST_", "ITERATION_", "COMPLETE", "12.00 GiB"] {
        assert!(texts.contains(&text), "{text} is not in {texts:?}");
    }
    assert!(dashes(&svg) > 20);
}

#[test]
fn a_profile_without_pools_or_phases_has_nothing_to_draw() {
    let mut profile = corpus("tt_train/tinyllama.log");
    profile.ranks[0].sessions.clear();
    profile.ranks[0].phases.clear();
    let error = chart(&profile, &request()).unwrap_err();
    assert!(matches!(error, Error::NoMemoryData { .. } | Error::Corrupt { .. }), "{error}");
}
