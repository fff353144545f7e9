//! Allocations grouped and filtered: the sums of a snapshot of a real program, and rules of filters.

use ttmem::model::{Moment, PoolId, Profile, TensorId};
use ttmem::query::filter::Filter;
use ttmem::query::{Allocations, GroupBy, Request, groupings, summary};
use ttmem::report::{Screen, text};
use ttmem::{read, report};

fn snapshot(name: &str) -> Vec<Profile> {
    let file = format!("{}/../../corpus/torch_snapshot/{name}.pickle.gz", env!("CARGO_MANIFEST_DIR"));
    vec![read::open(&file).unwrap()]
}

fn allocations(profiles: &[Profile], filter: Option<&str>, by: GroupBy) -> Allocations {
    let filter = filter.map(|filter| filter.parse::<Filter>().unwrap());
    let request = Request { filter, by: Some(by), top: Some(usize::MAX), ..Request::default() };
    summary(profiles, &request).unwrap().ranks.remove(0).allocations.unwrap()
}

#[test]
fn groups_of_every_kind_add_up_to_the_peak() {
    for name in ["train_gpt2_30m", "oom_gpt2_124m", "wrapped_ring_gpt2_30m", "cpp_stacks_gpt2_30m"] {
        let profiles = snapshot(name);
        let peak = summary(&profiles, &Request::default()).unwrap().ranks[0].peak.clone().unwrap();
        for by in GroupBy::ALL {
            let found = allocations(&profiles, None, by);
            assert_eq!(Some(found.live.bytes), peak.allocated_per_bank, "{name} by {}", by.as_str());
            let live: u64 = found.groups.iter().map(|group| group.live.bytes).sum();
            let total: u64 = found.busiest.iter().map(|group| group.total.count).sum();
            assert_eq!((live, total), (found.live.bytes, found.total.count), "{name} by {}", by.as_str());
            assert!(found.groups.is_sorted_by_key(|group| std::cmp::Reverse(group.live.bytes)));
        }
    }
}

#[test]
fn the_groupings_of_the_page_are_those_of_the_summary() {
    for name in ["train_gpt2_30m", "oom_gpt2_124m", "graph_expandable_pools", "cpp_stacks_gpt2_30m"] {
        let profiles = snapshot(name);
        let found = summary(&profiles, &Request::default()).unwrap().ranks.remove(0).allocations.unwrap();
        let made = groupings(&profiles[0], &profiles[0].ranks[0], &found);
        assert_eq!(made.first().map(|grouping| grouping.by), Some(GroupBy::Line), "{name}");
        for grouping in made {
            let request = Request { by: Some(grouping.by), ..Request::default() };
            let wanted = summary(&profiles, &request).unwrap().ranks.remove(0).allocations.unwrap();
            let by = grouping.by.as_str();
            assert_eq!(
                (grouping.groups, grouping.busiest),
                (wanted.groups, wanted.busiest),
                "{name} by {by}"
            );
        }
    }
}

#[test]
fn groupings_by_unknown_properties_are_omitted() {
    let mut profiles = snapshot("train_gpt2_30m");
    profiles[0].ranks[0].within.step.clear();
    profiles[0].ranks[0].within.value.clear();
    let found = summary(&profiles, &Request::default()).unwrap().ranks.remove(0).allocations.unwrap();
    let made = groupings(&profiles[0], &profiles[0].ranks[0], &found);
    let has = |by: GroupBy| made.iter().any(|grouping| grouping.by == by);
    assert!(has(GroupBy::Line) && has(GroupBy::Size) && !has(GroupBy::Module));
}

#[test]
fn the_screen_and_markdown_name_the_largest_transient() {
    let answer = summary(&snapshot("train_gpt2_30m"), &Request::default()).unwrap();
    // In one line.
    let screen = text(&answer, Screen::default()).to_string();
    let screen = screen.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut markdown = Vec::new();
    report::markdown(&answer, "train", report::MarkdownSize::default(), &mut markdown).unwrap();
    let markdown = String::from_utf8(markdown).unwrap();
    let wanted = "The largest allocation that was freed again has 394.0 MiB: linear.forward at \
                  /home/mluser/gpu-capture1/models.py:32, ";
    assert!(screen.contains(&format!("{wanted}allocated by step 191 and freed by step 195.")), "{screen}");
    assert!(
        markdown.contains(&format!("{wanted}allocated by step 191 and freed by step 195.")),
        "{markdown}"
    );
}

#[test]
fn a_filter_and_its_opposite_add_up() {
    let profiles = snapshot("train_gpt2_30m");
    let all = allocations(&profiles, None, GroupBy::Line);
    for filter in [
        "size > 10MiB",
        "class = parameter or class = optimizer",
        "line ~ models.py",
        "stack ~ 'adam.py'",
        "freed = never",
        "allocated < 500",
        "steps <= 2 and not op ~ forward",
        "name ~ workspace",
    ] {
        let yes = allocations(&profiles, Some(filter), GroupBy::Line);
        let no = allocations(&profiles, Some(&format!("not ({filter})")), GroupBy::Line);
        assert_eq!(yes.live.bytes + no.live.bytes, all.live.bytes, "{filter}");
        assert_eq!(yes.total.count + no.total.count, all.total.count, "{filter}");
        assert!(yes.total.count > 0 && no.total.count > 0, "{filter}");
        assert_eq!(yes.filter.as_deref(), Some(filter));
    }
}

#[test]
fn filters_agree_with_the_table_of_allocations() {
    let profiles = snapshot("train_gpt2_30m");
    let (profile, rank) = (&profiles[0], &profiles[0].ranks[0]);
    let filter: Filter =
        "size >= 1MiB and size < 20 MiB and allocated >= 600 and freed != never".parse().unwrap();
    let matcher = filter.matcher(profile, rank);
    for index in 0..rank.tensors.len() {
        let tensor = rank.tensors.get(index).unwrap();
        let bytes = tensor.per_bank.get().unwrap();
        let step = tensor.step.map_or(0, ttmem::model::StepNumber::get);
        let wanted = (1 << 20..20 << 20).contains(&bytes) && step >= 600 && tensor.dies != Moment::NEVER;
        assert_eq!(matcher.matches(TensorId::new(index).unwrap()), wanted, "{tensor:?}");
    }
}

#[test]
fn what_exists_at_the_end_and_was_allocated_before_a_step_is_found() {
    let profiles = snapshot("oom_gpt2_124m");
    let found = allocations(&profiles, Some("allocated < 300 and freed = never"), GroupBy::Line);
    let rank = &profiles[0].ranks[0];
    let wanted: u64 = rank
        .live(PoolId::new(0).unwrap(), Moment::NEVER.earlier())
        .filter(|&tensor| rank.tensors.step[tensor].is_some_and(|step| step.get() < 300))
        .map(|tensor| rank.tensors.per_bank[tensor].get().unwrap())
        .sum();
    assert_eq!(found.groups.iter().map(|group| group.at_end.bytes).sum::<u64>(), wanted);
    assert!(wanted > 0);
}

#[test]
fn workspaces_of_libraries_are_named() {
    for (name, workspaces) in [
        ("train_gpt2_30m", 3),
        ("oom_gpt2_124m", 3),
        ("graph_expandable_pools", 0),
        ("cpp_stacks_gpt2_30m", 3),
    ] {
        let profiles = snapshot(name);
        let found = allocations(&profiles, Some("class = workspace"), GroupBy::Class);
        if workspaces > 0 {
            assert_eq!((found.total.count, found.total.bytes), (workspaces, 65 << 20), "{name}");
        }
        let named = allocations(&profiles, Some("name ~ workspace"), GroupBy::Class);
        assert_eq!(named.total, found.total, "{name}");
    }
}

#[test]
fn reserved_memory_adds_up_by_pool_and_stream() {
    for (name, reserved, allocated) in
        [("train_gpt2_30m", 2_667_577_344, 68_157_440), ("graph_expandable_pools", 316_669_952, 192_971_776)]
    {
        let found = allocations(&snapshot(name), None, GroupBy::Line);
        assert_eq!(found.reserved.iter().map(|pool| pool.bytes).sum::<u64>(), reserved, "{name}");
        assert_eq!(found.reserved.iter().map(|pool| pool.allocated).sum::<u64>(), allocated, "{name}");
        assert!(found.reserved.iter().all(|pool| pool.largest_free <= pool.free), "{name}");
    }
    let graph = allocations(&snapshot("graph_expandable_pools"), None, GroupBy::Line);
    assert!(graph.reserved.iter().any(|pool| pool.private_pool == Some((1, 0))));
    let waste = graph.waste.unwrap();
    assert!(waste.external > 0 && waste.internal > 0);
}
