//! What keeps tensors alive: in growth, in the list of holders, in text and in Markdown.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use ttmem::model::{Holder, Profile, StrId, TensorId};
use ttmem::query::{Request, Summary, Survivor, summary};
use ttmem::report::{MarkdownSize, Screen};
use ttmem::{read, report};

/// A program that keeps its predictions in a list, until memory runs out.
fn leak() -> Profile {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web/test/browser/recordings/leak.ttmem");
    read::open(file.to_str().unwrap()).unwrap()
}

fn summary_of(profile: &Profile) -> Summary {
    summary(std::slice::from_ref(profile), &Request::default()).unwrap()
}

fn most(summary: &Summary) -> &Survivor {
    &summary.ranks[0].growth.as_ref().unwrap().survivors[0]
}

fn text(summary: &Summary, height: Option<usize>) -> String {
    let text = report::text(summary, Screen { width: 400, height, ..Screen::default() }).to_string();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn markdown(summary: &Summary) -> String {
    let mut markdown = Vec::new();
    report::markdown(summary, "x", MarkdownSize::default(), &mut markdown).unwrap();
    String::from_utf8(markdown).unwrap()
}

/// The leak with other holders: that of each tensor is chosen by its number. Those that the list holds are the first.
fn held(profile: &Profile, choose: impl Fn(usize) -> StrId) -> Profile {
    let mut changed = profile.clone();
    let held_by = most(&summary_of(profile)).held_by.clone().unwrap();
    let holders: &mut BTreeMap<TensorId, Holder> = &mut changed.ranks[0].holders;
    let (leaked, others): (Vec<_>, Vec<_>) =
        holders.values_mut().partition(|holder| profile.text(holder.chain) == held_by);
    for (at, holder) in leaked.into_iter().chain(others).enumerate() {
        holder.chain = choose(at);
    }
    changed
}

/// The texts of a profile, in place of references.
fn chain(at: usize) -> StrId {
    StrId::new(at).unwrap()
}

#[test]
fn the_holder_of_an_origin_keeps_at_least_half_of_it_alive() {
    let profile = leak();
    // The last one is also a local variable, which is nearer.
    let recorded = summary_of(&profile);
    assert!(most(&recorded).held_by.as_ref().unwrap().starts_with("list `predictions` in `train()`"));
    assert_eq!(most(&recorded).held_part.as_deref(), Some("5 of 6 tensors"));
    let all = summary_of(&held(&profile, |_| chain(0)));
    assert_eq!(most(&all).held_by.as_deref(), Some(profile.text(chain(0))));
    assert_eq!(most(&all).held_part, None);
    // Every fourth tensor has another holder.
    let some = summary_of(&held(&profile, |at| chain(usize::from(at % 4 == 3))));
    assert_eq!(most(&some).held_by.as_deref(), Some(profile.text(chain(0))));
    let part = most(&some).held_part.as_deref().unwrap();
    assert!(part.ends_with(&format!(" of {} tensors", most(&some).tensors.unwrap())), "{part}");
    let detail = some.ranks[0].growth.as_ref().unwrap().statement.detail.clone().unwrap();
    assert!(detail.contains(&format!("; {part} are kept alive by {}", profile.text(chain(0)))), "{detail}");
    let none = summary_of(&held(&profile, chain));
    assert_eq!((&most(&none).held_by, &most(&none).held_part), (&None, &None));
}

#[test]
fn a_sentence_names_the_tensors_that_are_kept_alive() {
    let profile = leak();
    let summaries = [summary_of(&profile), summary_of(&held(&profile, |_| chain(0)))];
    for summary in &summaries {
        let survivor = most(summary);
        let tensors = survivor.held_part.as_deref().unwrap_or("Tensors");
        let (op, loc) = (survivor.op.as_ref().unwrap(), survivor.loc.as_ref().unwrap());
        let sentence = format!("{tensors} from {op} at {loc} are kept alive by ");
        assert!(text(summary, None).contains(&sentence), "{sentence}");
        assert!(markdown(summary).contains(&sentence), "{sentence}");
    }
    // Markdown has no code inside cells.
    assert!(markdown(&summaries[0]).contains("are kept alive by list predictions in train(), "));
    assert!(markdown(&summaries[0]).contains("\n| list predictions in train(), "));
}

#[test]
fn a_list_that_the_full_text_cuts_as_well_is_not_said_to_be_complete_there() {
    let profile = leak();
    let chains: BTreeSet<StrId> = profile.ranks[0].holders.values().map(|holder| holder.chain).collect();
    let few = summary_of(&profile);
    assert!((3..=10).contains(&chains.len()), "{chains:?}");
    assert!(text(&few, Some(20)).contains(&format!("… and {} more (--full shows them)", chains.len() - 2)));
    let many = summary_of(&held(&profile, chain));
    let count = many.ranks[0].holders.as_ref().unwrap().count;
    assert!(count > 10);
    assert!(text(&many, Some(20)).contains(&format!("… and {} more (--top shows more)", count - 2)));
}

#[test]
fn a_moment_has_neither_growth_nor_holders() {
    let profile = leak();
    let request = Request { at: Some(20), ..Request::default() };
    let at = summary(&[profile], &request).unwrap();
    let (text, markdown) = (text(&at, None), markdown(&at));
    assert!(!text.contains("Growth of") && !text.contains(" Kept alive by "), "{text}");
    assert!(!markdown.contains("## Growth") && !markdown.contains("## Kept Alive By"), "{markdown}");
}
