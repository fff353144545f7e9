//! Charts: what is on them, in which colours, and that they are the same every time.

use std::fs;
use std::path::Path;

use resvg::tiny_skia::Pixmap;
use ttmem::model::{Phase, Profile, SessionId};
use ttmem::query::over_time::{OverTime, PointOverTime};
use ttmem::query::{ChartRequest, Drawn, Phases, PhasesRequest, Request, RunFilter, chart, phases, summary};
use ttmem::report::chart::{COLUMNS, Picture, over_phases, over_time, peak_bars};
use ttmem::{Error, read};

use crate::training::{corpus, log_of, opened};

const COLOURS: [&str; 5] = ["#CCCCCC", "#4DA6B8", "#E789AB", "#CEC0FA", "#E38A42"];
const LIMIT: &str = "#D62728";

fn tinyllama() -> Phases {
    let mut profile = corpus("tt_train/tinyllama.log");
    profile.source.file = "tinyllama.log".into();
    phases(&[profile], &PhasesRequest::default()).unwrap()
}

fn bars_of(log: &str, request: &PhasesRequest) -> String {
    peak_bars(&phases(&[opened(log)], request).unwrap(), None).unwrap()
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

fn has_pixel(image: &Pixmap, colour: &str) -> bool {
    let part = |at: usize| u8::from_str_radix(&colour[at..at + 2], 16).unwrap();
    let wanted = (part(1), part(3), part(5));
    image.pixels().iter().any(|pixel| (pixel.red(), pixel.green(), pixel.blue()) == wanted)
}

#[test]
fn bars_have_their_parts_numbers_and_limit() {
    let svg = peak_bars(&tinyllama(), Some("TinyLlama & <co>")).unwrap();
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
        "8.08 GiB (67.4 %)",
        "15.30 GiB (127.5 %)",
        "1.81 GiB",
        "2.45 GiB",
        "9.41 GiB",
        "458.8 MiB",
        "12.00 GiB",
        "GiB",
    ] {
        assert!(texts.contains(&text), "{text} is not in {texts:?}");
    }
    for colour in COLOURS {
        assert!(svg.contains(colour), "{colour}");
    }
    assert!(dashes(&svg) > 20, "{}", dashes(&svg));
    assert!(svg.contains("font-family=\"DejaVu Sans, "), "{}", &svg[..400]);
}

#[test]
fn a_png_has_the_size_and_the_colours_of_its_svg() {
    let svg = peak_bars(&tinyllama(), None).unwrap();
    let png = Picture::Png.bytes(svg.clone()).unwrap();
    let image = pixels(&png);
    assert_eq!((image.width(), image.height()), (1000, 640));
    assert!(svg.contains("width=\"1000\" height=\"640\""));
    for colour in COLOURS.into_iter().chain([LIMIT]) {
        assert!(has_pixel(&image, colour), "{colour}");
    }
    // Texts are there: without a font they would be missing.
    let (head, rest) = svg.split_once("<text").unwrap();
    let shapes = rest.split("<text").map(|text| text.split_once("</text>").unwrap().1);
    let bare: String = std::iter::once(head).chain(shapes).collect();
    assert_ne!(pixels(&Picture::Png.bytes(bare).unwrap()), image);
    assert!(png.len() < 60_000, "{}", png.len());
}

#[test]
fn charts_are_the_same_every_time() {
    let answer = tinyllama();
    let bytes = || {
        let svg = peak_bars(&answer, None).unwrap();
        (Picture::Png.bytes(svg.clone()).unwrap(), svg, over_phases(&answer, None).unwrap())
    };
    assert!(bytes() == bytes());
    let profile = corpus("tt_log/vae-decoder.log");
    let svg = || over_time(&steps(&profile, &request()), None).unwrap();
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
    assert!(texts.iter().any(|text| text.starts_with("Other is below zero")), "{texts:?}");
    let measured = bars_of(&log, &PhasesRequest { use_actual_sizes: true, ..PhasesRequest::default() });
    assert!(!measured.contains("below zero"));
}

#[test]
fn devices_that_differ_have_a_line_each() {
    let said = [("MODEL_CREATION", 1000, 1000)];
    let log = log_of(&said) + &log_of(&said).replace("12288 MB", "8192 MB");
    let svg = bars_of(&log, &PhasesRequest::default());
    assert!(texts(&svg).contains(&"8.00 GiB") && texts(&svg).contains(&"12.00 GiB"));
    assert!(svg.contains("what each device has"));
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
                over_time(&drawn, None).unwrap();
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
    let svg = over_time(&drawn, None).unwrap();
    let texts = texts(&svg);
    for text in ["DRAM over time: oom.log", "peak 947.5 MiB, step 106 ttnn.full", "DRAM has 1.00 GiB", "step"]
    {
        assert!(texts.contains(&text), "{text} is not in {texts:?}");
    }
    assert!(dashes(&svg) > 20 && svg.contains("#E38A42"));
    let image = pixels(&Picture::Png.bytes(svg).unwrap());
    assert_eq!((image.width(), image.height()), (1000, 560));
    assert!(has_pixel(&image, LIMIT) && has_pixel(&image, "#E38A42"));
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
    assert!(error.to_string().contains("there is no pool DISK: there are DRAM"), "{error}");
    assert!(chart(&profile, &ChartRequest { run: RunFilter::Number(9), ..request() }).is_err());
}

/// Of more points than there are pixels, the highest of each column are drawn: as many as there are columns.
#[test]
fn a_curve_with_too_many_points_is_drawn_by_its_highest() {
    let mut drawn = steps(&corpus("tt_log/vae-decoder.log"), &request());
    let few = over_time(&drawn, None).unwrap().len();
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
    let svg = over_time(&drawn, None).unwrap();
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
    let svg = over_time(&drawn, None).unwrap();
    assert!(svg.contains("#F4F1E8") && svg.contains("#ECF2F6"));
}

#[test]
fn a_training_log_is_drawn_over_its_phases() {
    let profile = corpus("tt_train/tinyllama.log");
    let Drawn::Phases(answer) = chart(&profile, &request()).unwrap() else { panic!("it has no steps") };
    let svg = over_phases(&answer, Some("over phases")).unwrap();
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
    assert!(matches!(error, Error::NoMemoryData { .. } | Error::Damaged { .. }), "{error}");
}
