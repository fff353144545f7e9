//! Allocations grouped and filtered: the sums of a snapshot of a real program, and rules of filters.

use ttmem::model::{Moment, PoolId, Profile, TensorId};
use ttmem::query::filter::Filter;
use ttmem::query::{Allocations, GroupBy, ModuleSource, Request, groupings, summary};
use ttmem::report::{Screen, text};
use ttmem::{read, report};
use ttmem_testkit::torch::{Allocator, Options, Settings, Snapshot, frames};

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
    profiles[0].stacks = ttmem::model::Stacks::default();
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
        "module ~ nn.normalization",
        "module = models.py",
        "module ~ 'Optimizer.step' or module !~ '.'",
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

const NN: &str = "/venv/lib/python3.12/site-packages/torch/nn/modules";

/// A line of a stack.
type Line = (&'static str, String, u32);

/// `Module.__call__`, innermost first.
fn call() -> Vec<Line> {
    ["_call_impl", "_wrapped_call_impl"].map(|name| (name, format!("{NN}/module.py"), 1790)).to_vec()
}

fn line(function: &'static str, file: &str, line: u32) -> Vec<Line> {
    vec![(function, file.to_owned(), line)]
}

/// Allocations with these stacks, 1 MiB each, grouped by module.
fn modules_of(stacks: &[Vec<Line>]) -> Vec<(Option<String>, u64)> {
    let mut allocator = Allocator::new(Settings::default());
    for origin in 0..stacks.len() {
        allocator.allocate(1 << 20, 0, origin);
    }
    let stack = |lines: &Vec<Line>| {
        frames(&lines.iter().map(|(name, file, line)| (*name, file.as_str(), *line)).collect::<Vec<_>>())
    };
    let stacks: Vec<_> = stacks.iter().map(stack).collect();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("snapshot.pickle");
    std::fs::write(&path, Snapshot::of(&allocator, &stacks, Options::default()).pickle()).unwrap();
    let found = allocations(&[read::open(path.to_str().unwrap()).unwrap()], None, GroupBy::Module);
    let mut rows: Vec<_> = found.groups.into_iter().map(|group| (group.key, group.live.count)).collect();
    rows.sort();
    rows
}

#[test]
fn modules_without_names_are_the_forward_calls_of_a_stack() {
    let train = |number| line("<module>", "/home/me/train.py", number);
    let gpt = |number| [line("forward", "/home/me/gpt.py", number), call()].concat();
    let nn = |file: &str| [line("forward", &format!("{NN}/{file}.py"), 140), call()].concat();
    let cases = [
        // The outermost module, called at two places.
        ([gpt(31), train(8)].concat(), "gpt.py"),
        ([gpt(32), train(9)].concat(), "gpt.py"),
        // Functions that the innermost module calls.
        ([line("norm", "/home/me/norm.py", 3), gpt(31), train(8)].concat(), "gpt.py"),
        (
            [
                line("layer_norm", "/venv/lib/torch/nn/functional.py", 9),
                nn("normalization"),
                gpt(15),
                gpt(31),
                train(8),
            ]
            .concat(),
            "gpt.py:31 > :15 > nn.normalization",
        ),
        // Modules of PyTorch that call others have no line.
        ([nn("linear"), nn("container"), gpt(31), train(8)].concat(), "gpt.py:31 > nn.container > nn.linear"),
        // Decorators and overridden `__call__`s do not call the module; helpers do.
        (
            [
                line("forward", "/home/me/mlp.py", 7),
                line("wrapper", "/home/me/hooks.py", 99),
                call(),
                line("__call__", "/home/me/layers.py", 12),
                line("blocks", "/home/me/gpt.py", 50),
                gpt(31),
                train(8),
            ]
            .concat(),
            "gpt.py:50 > mlp.py",
        ),
        // A call of `forward` itself.
        ([line("forward", "/home/me/mlp.py", 7), gpt(33), train(8)].concat(), "gpt.py:33 > mlp.py"),
        // Functions of the autograd engine are not modules.
        (
            [
                line("forward", "/home/me/swiglu.py", 5),
                line("THPFunction_apply(_object*, _object*)", "??", 0),
                line("apply", "/venv/lib/torch/autograd/function.py", 575),
                gpt(31),
                train(8),
            ]
            .concat(),
            "gpt.py",
        ),
        // Checkpointing calls a module inside such a function.
        (
            [
                line("forward", "/home/me/mlp.py", 7),
                call(),
                line("forward", "/venv/lib/torch/utils/checkpoint.py", 262),
                line("apply", "/venv/lib/torch/autograd/function.py", 575),
                line("checkpoint", "/venv/lib/torch/utils/checkpoint.py", 500),
                gpt(34),
                train(8),
            ]
            .concat(),
            "gpt.py:34 > mlp.py",
        ),
        // C++ lines in between.
        (
            [
                line("at::_ops::mm::call()", "??", 0),
                nn("linear"),
                line("forward", "??", 0),
                gpt(31),
                train(8),
            ]
            .concat(),
            "gpt.py:31 > nn.linear",
        ),
    ];
    for (stack, wanted) in &cases {
        assert_eq!(modules_of(std::slice::from_ref(stack)), [(Some((*wanted).to_owned()), 1)]);
    }
    let outside = [train(8), line("forward", "<eval_with_key>.1", 4)];
    assert_eq!(modules_of(&outside), [(None, 2)]);
    let stacks: Vec<_> = cases.iter().map(|(stack, _)| stack.clone()).chain(outside).collect();
    let rows = modules_of(&stacks);
    assert_eq!(rows.iter().map(|(_, count)| count).sum::<u64>(), stacks.len() as u64);
    assert_eq!((rows[0].clone(), rows[1].clone()), ((None, 2), (Some("gpt.py".into()), 4)));
}

#[test]
fn a_snapshot_is_grouped_by_forward_calls_and_annotated_ranges() {
    let profiles = snapshot("train_gpt2_30m");
    let found = allocations(&profiles, None, GroupBy::Module);
    assert_eq!(found.module_source, Some(ModuleSource::Stacks));
    let keys: Vec<&str> = found.groups.iter().filter_map(|group| group.key.as_deref()).collect();
    for wanted in ["models.py", "models.py:31 > :15 > nn.normalization", "Optimizer.step#AdamW.step"] {
        assert!(keys.contains(&wanted), "{keys:?}");
    }
    // The filter selects what the group shows.
    for group in found.groups.iter().filter(|group| group.key.is_some()) {
        let filter = format!("module = \"{}\"", group.key.as_deref().unwrap());
        let only = allocations(&profiles, Some(&filter), GroupBy::Module);
        assert_eq!((only.live, only.total), (group.live, group.total), "{filter}");
    }
    assert_eq!(allocations(&profiles, None, GroupBy::Line).module_source, None);
}

#[test]
fn a_filter_selects_allocations_of_another_pool() {
    let mut allocator = Allocator::new(Settings::default());
    allocator.allocate(5 << 20, 0, 0);
    let mut snapshot = Snapshot::of(&allocator, &[frames(&[])], Options::default());
    allocator.allocate(3 << 20, 0, 0);
    let other = Snapshot::of(&allocator, &[frames(&[])], Options { device: 1, ..Options::default() });
    snapshot.segments.extend(other.segments);
    snapshot.traces.push(other.traces[1].clone());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("snapshot.pickle");
    std::fs::write(&path, snapshot.pickle()).unwrap();
    let profiles = [read::open(path.to_str().unwrap()).unwrap()];
    let selected = |filter: &str| {
        let found = allocations(&profiles, Some(filter), GroupBy::Size);
        (found.pool, found.live.count, found.live.bytes >> 20)
    };
    assert_eq!(selected("pool = cuda:1"), ("cuda:1".into(), 2, 8));
    assert_eq!(selected("pool = cuda:0"), ("cuda:0".into(), 1, 5));
    assert_eq!(selected("pool != cuda:1"), ("cuda:0".into(), 1, 5));
    assert_eq!(selected("size > 4MiB"), ("cuda:1".into(), 1, 5));
    // Nothing matches, so it is the pool of the peak.
    assert_eq!(selected("pool = pinned"), ("cuda:1".into(), 0, 0));
    let request = Request { filter: Some("pool = cuda:0".parse().unwrap()), ..Request::default() };
    let screen = text(&summary(&profiles, &request).unwrap(), Screen::default()).to_string();
    assert!(screen.contains("Allocations of cuda:0 where pool = cuda:0"), "{screen}");
}
