//! The page as it is written: its blocks unpacked again, column by column, against the profile they were made from.
//!
//! What the page does with them is tested in a browser (`web/test/browser`).

use std::collections::HashMap;
use std::io::Read;
use std::path::Path;

use base64::Engine;
use flate2::read::ZlibDecoder;
use serde_json::Value;
use ttmem::analyze::{Account, Span, effects, held};
use ttmem::model::{Moment, PoolId, Profile, Rank, StrId};
use ttmem::query::{Request, RunFilter, summary};
use ttmem::{read, report};
use ttmem_testkit::tt::{self, Options, Scenario};

/// Every log of the corpus, and made ones that the corpus has not.
fn profiles() -> Vec<Profile> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/tt_log");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "log"));
    files.sort();
    assert!(files.len() >= 6, "the corpus is gone");
    let mut profiles: Vec<Profile> =
        files.iter().map(|path| read::open(path.to_str().unwrap()).unwrap()).collect();
    for seed in 1..=6 {
        let made = tempfile::NamedTempFile::new().unwrap();
        let options = Options { seed, ..Options::default() };
        tt::make(Scenario::Random, &options, &mut made.as_file()).unwrap();
        let mut profile = read::open(made.path().to_str().unwrap()).unwrap();
        // While the log is there.
        read::embed_texts(&mut profile);
        profiles.push(profile);
    }
    profiles.iter_mut().for_each(read::embed_texts);
    profiles
}

fn page(profile: &Profile, name: &str) -> String {
    let answer = summary(std::slice::from_ref(profile), &Request::default()).unwrap();
    let mut page = Vec::new();
    report::page(profile, &answer, name, &mut page).unwrap();
    String::from_utf8(page).unwrap()
}

/// A block, unpacked by the description in `report/page/block.rs` and by nothing else.
struct Block {
    about: Value,
    columns: HashMap<String, Vec<u64>>,
    bytes: HashMap<String, Vec<u8>>,
}

fn block(page: &str, id: &str) -> Block {
    let start = format!("id=\"ttmem-{id}\">");
    let text = page.split_once(&start).unwrap().1.split_once("</script>").unwrap().0;
    let packed = base64::engine::general_purpose::STANDARD.decode(text).unwrap();
    let mut all = Vec::new();
    ZlibDecoder::new(&packed[..]).read_to_end(&mut all).unwrap();
    let length = u32::from_le_bytes(all[..4].try_into().unwrap()) as usize;
    let about: Value = serde_json::from_slice(&all[4..4 + length]).unwrap();
    let mut rest = &all[4 + length..];
    let mut take = |count: usize| {
        let (now, later) = rest.split_at(count);
        rest = later;
        now
    };
    let (mut columns, mut bytes) = (HashMap::new(), HashMap::new());
    for entry in about["columns"].as_array().unwrap() {
        let name = entry["name"].as_str().unwrap().to_owned();
        let size = |field: &str| usize::try_from(entry[field].as_u64().unwrap()).unwrap();
        if entry["kind"] == "bytes" {
            bytes.insert(name, take(size("rows")).to_vec());
            continue;
        }
        let words = entry.get("dictionary").map(|_| planes(take(size("dictionary") * 8), 8));
        let mut values = planes(take(size("rows") * size("width")), size("width"));
        values.resize(size("rows"), 0);
        if let Some(words) = words {
            for value in &mut values {
                *value = words[usize::try_from(*value).unwrap()];
            }
        }
        if entry.get("delta").is_some() {
            let mut sum = 0u64;
            for value in &mut values {
                let change = (*value >> 1) ^ (*value & 1).wrapping_neg();
                sum = sum.wrapping_add(change);
                *value = sum;
            }
        }
        columns.insert(name, values);
    }
    assert!(rest.is_empty(), "{id} has more bytes than its columns say");
    Block { about, columns, bytes }
}

fn planes(bytes: &[u8], width: usize) -> Vec<u64> {
    let rows = bytes.len().checked_div(width).unwrap_or(0);
    let number =
        |row: usize| (0..width).map(|plane| u64::from(bytes[plane * rows + row]) << (8 * plane)).sum();
    (0..rows).map(number).collect()
}

/// The texts of a table, put together from templates and numbers.
fn texts(block: &Block, table: &str) -> Vec<String> {
    let column = |name: &str| &block.columns[&format!("{table}.{name}")];
    let mut templates = Vec::new();
    let mut rest = &block.bytes[&format!("{table}.templates")][..];
    for length in column("template_length") {
        let (template, later) = rest.split_at(usize::try_from(*length).unwrap());
        templates.push(template.split(|byte| *byte == 0xff).map(<[u8]>::to_vec).collect::<Vec<_>>());
        rest = later;
    }
    let of: Vec<usize> = column("template").iter().map(|number| usize::try_from(*number).unwrap()).collect();
    let mut counts = vec![0; templates.len()];
    for template in &of {
        counts[*template] += 1;
    }
    let mut base = vec![0];
    for (template, count) in templates.iter().zip(&counts) {
        base.push(base.last().unwrap() + (template.len() - 1) * count);
    }
    let mut seen = vec![0; templates.len()];
    let text = |&template: &usize| {
        let parts = &templates[template];
        let mut text = parts[0].clone();
        for (gap, part) in parts[1..].iter().enumerate() {
            let number = column("numbers")[base[template] + gap * counts[template] + seen[template]];
            text.extend(number.to_string().into_bytes());
            text.extend(part);
        }
        seen[template] += 1;
        String::from_utf8(text).unwrap()
    };
    of.iter().map(text).collect()
}

fn accounts(rank: &Rank) -> impl Iterator<Item = Account<'_>> {
    (0..rank.pools.len()).filter_map(|index| Account::new(rank, PoolId::new(index)?))
}

fn moments(rank: &Rank) -> impl Iterator<Item = Moment> + use<> {
    (0..=Moment::late(rank.end()).index()).filter_map(Moment::from_index)
}

#[test]
fn what_is_held_over_time_is_what_the_account_says_of_every_moment() {
    for profile in profiles() {
        for rank in &profile.ranks {
            for account in accounts(rank) {
                let curve = held::over_time(&account);
                for at in moments(rank) {
                    let Some(held) = account.held(at) else { continue };
                    assert_eq!(curve.value_at(at), Some(held.per_bank), "{} {at:?}", profile.source.file);
                }
            }
        }
    }
}

#[test]
fn columns_come_back_as_the_profile_has_them() {
    for profile in profiles() {
        let page = page(&profile, "x");
        let texts = texts(&block(&page, "texts"), "texts");
        let text = |packed: u64| (packed > 0).then(|| texts[usize::try_from(packed - 1).unwrap()].as_str());
        let known = |id: Option<StrId>| id.map(|id| profile.text(id));
        for (number, rank) in profile.ranks.iter().filter(|rank| rank.has_content()).enumerate() {
            let block = block(&page, &format!("rank-{number}"));
            let column = |name: &str| &block.columns[name];
            assert_eq!(block.about["steps"], rank.end());
            for (row, tensor) in rank.tensors.iter().enumerate() {
                let life = column("tensors.life")[row];
                let dies =
                    if life == 0 { u64::from(u32::MAX) } else { column("tensors.born")[row] + life - 1 };
                assert_eq!(column("tensors.born")[row], tensor.born.index() as u64);
                assert_eq!(dies, tensor.dies.index() as u64);
                assert_eq!(column("tensors.per_bank")[row].checked_sub(1), tensor.per_bank.get());
                assert_eq!(text(column("tensors.ssa")[row]), known(tensor.ssa));
                assert_eq!(text(column("tensors.name")[row]), known(tensor.name));
                let step = tensor.step.map(|step| u64::from(step.get()));
                assert_eq!(column("tensors.step")[row].checked_sub(1), step);
            }
            for (step, op) in (0..).zip(column("steps.op")) {
                let op = usize::try_from(*op).unwrap();
                let name = &texts[usize::try_from(column("ops.name")[op]).unwrap()];
                assert_eq!(Some(name.as_str()), profile.op_name(rank, step));
                assert_eq!(text(column("ops.loc")[op]), profile.op_loc(rank, step));
            }
            for account in accounts(rank) {
                let effect = column(&format!("pool.{}.effect", account.id.index()));
                for (step, expected) in effects::effects(&account, Span::whole(rank)) {
                    let zigzag = |value: i64| (value << 1 ^ value >> 63).cast_unsigned();
                    assert_eq!(effect[step as usize].checked_sub(1), expected.map(zigzag));
                }
            }
        }
    }
}

#[test]
fn the_peak_of_each_run_is_the_one_of_its_summary() {
    for profile in profiles() {
        let page = page(&profile, "x");
        for (number, rank) in profile.ranks.iter().filter(|rank| rank.has_content()).enumerate() {
            let block = block(&page, &format!("rank-{number}"));
            for run in 1..=rank.top_level_runs().count().min(20) {
                let request = Request { run: RunFilter::Number(run), ..Request::default() };
                let Ok(answer) = summary(std::slice::from_ref(&profile), &request) else { continue };
                for (pool, (name, _)) in answer.ranks[number].peaks.iter().enumerate() {
                    let expected = answer.ranks[number].pools.get(name).unwrap();
                    let column = |name: &str| block.columns[&format!("pool.{pool}.{name}")][run - 1];
                    assert_eq!(column("run_peak").checked_sub(1), expected.peak_per_bank);
                    let at = column("run_peak_at").checked_sub(1).map(|at| u32::try_from(at / 2).unwrap());
                    let nothing = expected.peak_per_bank == Some(0);
                    assert_eq!(at.filter(|_| !nothing), expected.peak_step, "run {run}");
                }
            }
        }
    }
}

#[test]
fn every_line_of_a_graph_is_there_and_operations_lead_to_their_own() {
    let mut exact = 0;
    for profile in profiles() {
        let page = page(&profile, "x");
        let lines = texts(&block(&page, "ir"), "ir");
        for (number, rank) in profile.ranks.iter().filter(|rank| rank.has_content()).enumerate() {
            let about = block(&page, &format!("rank-{number}"));
            let of_rank = block(&page, &format!("ir-{number}"));
            for (module, shown) in rank.modules.iter().zip(about.about["modules"].as_array().unwrap()) {
                for stage in shown["stages"].as_array().unwrap() {
                    let text =
                        ttmem::query::ir::stage_text(&profile, module, stage["stage"].as_str().unwrap());
                    let place = |field: &str| usize::try_from(stage[field].as_u64().unwrap()).unwrap();
                    let found = &lines[place("first")..place("first") + place("lines")];
                    assert!(text.unwrap().text.lines().eq(found.iter().map(String::as_str)));
                }
            }
            let all = block(&page, "texts");
            let texts = texts(&all, "texts");
            let column = |name: &str| &of_rank.columns[name];
            let number = |number: u64| usize::try_from(number).unwrap();
            for row in 0..column("op_line").len() {
                let line = number(column("op_line")[row]);
                let name = about.columns["ops.name"][number(column("op")[row])];
                assert!(lines[line].contains(&texts[number(name)]), "{}", lines[line]);
                let is_function = |line: &&String| line.trim_start().starts_with("func.func");
                let function = lines[..line].iter().rev().find(is_function).unwrap();
                let program = &texts[number(column("op_program")[row])];
                assert!(function.contains(&format!("@{program}(")), "{program} is not {function}");
                exact += 1;
            }
        }
    }
    assert!(exact > 500, "only {exact} operations lead to their lines");
}

#[test]
fn the_same_profile_makes_the_same_page_and_no_name_breaks_out_of_it() {
    let profile = &profiles()[0];
    assert_eq!(page(profile, "x"), page(profile, "x"));
    let hostile = page(profile, "</title><script>alert(1)</script>&");
    assert!(
        hostile.contains("<title>&lt;/title&gt;&lt;script&gt;alert(1)&lt;/script&gt;&amp; · ttmem</title>")
    );
    assert!(!hostile.contains("alert(1)</script>"));
    assert!(!hostile.contains("http://") && !hostile.contains("https://"));
}
