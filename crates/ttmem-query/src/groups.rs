//! Similar tensors as one row: a list of 27 tensors of one shape hides everything below it.

use rustc_hash::{FxHashMap, FxHashSet};
use ttmem_model::{Class, Step};

use super::answer::LiveTensor;
use super::words::steps;

/// Tensors with the same shape, type, class, size and origin.
#[derive(Clone, Debug, PartialEq)]
pub struct TensorGroup<'a> {
    /// The tensors, in the order of the list. There is at least one.
    pub tensors: Vec<&'a LiveTensor>,
    /// The size of all of them per bank; `None` if it is unknown.
    pub per_bank: Option<u64>,
}

/// The values that tensors of a group share.
type Key<'a> =
    (Option<&'a [u64]>, Option<&'a str>, Class, Option<u64>, Option<&'a str>, Option<&'a str>, bool);

/// Groups tensors, the largest group first.
pub fn groups(live: &[LiveTensor]) -> Vec<TensorGroup<'_>> {
    let mut known: FxHashMap<Key<'_>, usize> = FxHashMap::default();
    let mut found: Vec<Vec<&LiveTensor>> = Vec::new();
    for tensor in live {
        let key = (
            tensor.shape.as_deref(),
            tensor.dtype.as_deref(),
            tensor.class,
            tensor.per_bank,
            tensor.op.as_deref(),
            tensor.made_in_layers.as_deref(),
            tensor.born_step.is_some(),
        );
        let index = *known.entry(key).or_insert_with(|| {
            found.push(Vec::new());
            found.len() - 1
        });
        found[index].push(tensor);
    }
    let sum = |tensors: &[&LiveTensor]| {
        tensors.iter().try_fold(0_u64, |sum, tensor| Some(sum.saturating_add(tensor.per_bank?)))
    };
    let mut groups: Vec<TensorGroup<'_>> =
        found.into_iter().map(|tensors| TensorGroup { per_bank: sum(&tensors), tensors }).collect();
    // Stable: of groups of one size, the first of the list stays first.
    groups.sort_by_key(|group| std::cmp::Reverse(group.per_bank));
    groups
}

impl<'a> TensorGroup<'a> {
    /// The first tensor, which stands for the others.
    pub fn first(&self) -> &'a LiveTensor {
        self.tensors[0]
    }

    /// The number of tensors.
    pub fn count(&self) -> usize {
        self.tensors.len()
    }

    /// The name of a single tensor, or the pattern that the names of several follow: `layers.*.q_proj.weight`. `None`
    /// if they have nothing in common that is worth a word.
    fn name(&self) -> Option<String> {
        let names: Option<Vec<&str>> = self.tensors.iter().map(|tensor| tensor.name.as_deref()).collect();
        pattern(&names?)
    }

    /// How the group is listed: `cache`, `12 × layers.*.q_proj.weight`, `27 tensors`. Tensors without names are described
    /// by the part of the program that allocated them. `None` for one tensor that nothing is known about.
    pub fn title(&self) -> Option<String> {
        let name = self.name().or_else(|| self.part().map(|part| format!("(in {part})")));
        let name = name.or_else(|| self.location());
        match (self.count(), name) {
            (1, name) => name,
            (count, Some(name)) => Some(format!("{count} × {name}")),
            (count, None) => Some(format!("{count} tensors")),
        }
    }

    /// The part of the program that allocated them, with `*` for the numbers of different layers.
    fn part(&self) -> Option<&'a str> {
        let first = self.first();
        let is_same = self.tensors.iter().all(|tensor| tensor.made_in == first.made_in);
        if is_same { first.made_in.as_deref() } else { first.made_in_layers.as_deref() }
    }

    /// The source location, or the pattern that the locations of several tensors follow.
    fn location(&self) -> Option<String> {
        let locations: Option<Vec<&str>> = self.tensors.iter().map(|tensor| tensor.loc.as_deref()).collect();
        common_location(&locations?)
    }

    /// What allocated them: `steps 94–106 ttnn.full`, `argument (weight)`.
    pub fn allocated_by(&self) -> String {
        let tensor = self.first();
        match (self.allocated(), &tensor.op) {
            (Some((first, last)), Some(op)) => format!("{} {op}", steps(self.count(), first, last)),
            (Some((first, last)), None) => steps(self.count(), first, last),
            // In a part of the log that is not in the file.
            (None, Some(op)) => format!("{op}, earlier"),
            (None, None) => match tensor.class {
                Class::Weight => "argument (weight)".into(),
                Class::Input => "argument (input)".into(),
                Class::Argument => "argument".into(),
                _ => "before the first step".into(),
            },
        }
    }

    /// What freed them: `step 102`, `never`, `3 of 12 never`. `None` if it is unknown.
    pub fn freed_by(&self) -> Option<String> {
        let (kept, count) = (self.never_freed(), self.count());
        match (self.freed(), self.first().gone_before_step) {
            (Some((first, last)), _) => Some(steps(self.count(), first, last)),
            (None, Some(step)) if count == 1 => Some(format!("before step {step}")),
            _ if kept == count => Some("never".into()),
            _ if kept > 0 => Some(format!("{kept} of {count} never")),
            _ => None,
        }
    }

    /// The first and the last step that allocated one of them.
    fn allocated(&self) -> Option<(Step, Step)> {
        range(self.tensors.iter().map(|tensor| tensor.born_step))
    }

    /// The first and the last step that freed one of them; `None` if not every one is freed by a step.
    fn freed(&self) -> Option<(Step, Step)> {
        range(self.tensors.iter().map(|tensor| tensor.dies_step))
    }

    /// How many of them nothing freed before the end.
    fn never_freed(&self) -> usize {
        let is_kept = |tensor: &&&LiveTensor| tensor.dies_step.is_none() && tensor.gone_before_step.is_none();
        self.tensors.iter().filter(is_kept).count()
    }
}

/// The smallest and the largest, if all are known.
fn range(steps: impl Iterator<Item = Option<Step>>) -> Option<(Step, Step)> {
    let mut found: Option<(Step, Step)> = None;
    for step in steps {
        let step = step?;
        found = Some(found.map_or((step, step), |(first, last)| (first.min(step), last.max(step))));
    }
    found
}

/// A location that stands for several: the common one, their pattern, or the first; and the number of different ones.
pub(super) fn locations(all: &[&str]) -> (Option<String>, usize) {
    let mut different: Vec<&str> = Vec::new();
    let mut seen = FxHashSet::default();
    different.extend(all.iter().filter(|location| seen.insert(**location)));
    let shown = common_location(&different).or_else(|| different.first().map(|&first| first.to_owned()));
    (shown, different.len())
}

/// A location with the number of others that it does not stand for: `"add.3" and 2 more`.
pub fn location_text(loc: Option<&str>, locations: usize) -> Option<String> {
    let loc = loc?;
    let others = locations.saturating_sub(1);
    Some(if others == 0 || loc.contains('*') { loc.to_owned() } else { format!("{loc} and {others} more") })
}

/// The location that steps share, or the pattern that their locations follow: `"cache.*"`.
fn common_location(locations: &[&str]) -> Option<String> {
    let (&first, others) = locations.split_first()?;
    if others.iter().all(|other| *other == first) {
        return Some(first.to_owned());
    }
    // Fused locations and call sites are nested, and have no simple pattern.
    let inner = |text: &&'_ str| Some(text.strip_prefix('"')?.strip_suffix('"')?.to_owned());
    let inner: Option<Vec<String>> = locations.iter().map(inner).collect();
    let inner = inner.filter(|inner| !inner.iter().any(|text| text.contains('"')))?;
    let inner: Vec<&str> = inner.iter().map(String::as_str).collect();
    pattern(&inner).map(|pattern| format!("\"{pattern}\""))
}

/// What names have in common at both ends, with `*` for the rest.
pub(super) fn pattern(names: &[&str]) -> Option<String> {
    let (&first, others) = names.split_first()?;
    if others.iter().all(|name| *name == first) {
        return Some(first.to_owned());
    }
    let common = |length: usize, is_same: &dyn Fn(&str, &str) -> usize| {
        others.iter().fold(length, |length, name| length.min(is_same(first, name)))
    };
    let start = common(first.len(), &|a, b| equal_bytes(a.bytes(), b.bytes()));
    let end = common(first.len(), &|a, b| equal_bytes(a.bytes().rev(), b.bytes().rev()));
    // Whole words only: `weight_1` and `weight_12` share `weight_`, and not `weight_1`.
    let start = first.get(..start).and_then(|part| part.rfind(is_separator)).map_or(0, |at| at + 1);
    let shortest = names.iter().map(|name| name.len()).min().unwrap_or(0);
    let end = end.min(shortest.saturating_sub(start));
    let tail = first.get(first.len() - end..).unwrap_or("");
    let tail = tail.find(is_separator).map_or("", |at| &tail[at..]);
    let words = |part: &str| part.chars().filter(|letter| letter.is_alphabetic()).count();
    let head = first.get(..start)?;
    (words(head) + words(tail) > 2).then(|| format!("{head}*{tail}"))
}

fn is_separator(letter: char) -> bool {
    matches!(letter, '.' | '_' | '/' | '-' | ':')
}

fn equal_bytes(a: impl Iterator<Item = u8>, b: impl Iterator<Item = u8>) -> usize {
    a.zip(b).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(name: &str, shape: &[u64], per_bank: u64, born: Option<Step>) -> LiveTensor {
        LiveTensor {
            name: Some(name.into()),
            ssa: None,
            program: None,
            run: None,
            also: Vec::new(),
            op: born.map(|_| "ttnn.full".into()),
            loc: None,
            made_in: None,
            made_in_layers: None,
            class: Class::Activation,
            shape: Some(shape.to_vec()),
            dtype: Some("f32".into()),
            per_bank: Some(per_bank),
            padded_bytes: None,
            logical_bytes: None,
            born_step: born,
            dies_step: None,
            gone_before_step: None,
            held_by: None,
        }
    }

    #[test]
    fn many_small_tensors_can_be_the_largest_group() {
        let mut live = vec![tensor("%1", &[9], 100, Some(1))];
        live.extend((2..6).map(|step| tensor(&format!("%{step}"), &[4], 40, Some(step))));
        let groups = groups(&live);
        let shown: Vec<_> = groups.iter().map(|group| (group.count(), group.per_bank)).collect();
        assert_eq!(shown, [(4, Some(160)), (1, Some(100))]);
        assert_eq!(
            (groups[0].allocated(), groups[0].never_freed(), groups[0].name()),
            (Some((2, 5)), 4, None)
        );
        assert_eq!(groups[1].name().as_deref(), Some("%1"));
    }

    #[test]
    fn an_argument_is_not_grouped_with_a_result() {
        let live = [tensor("a", &[4], 40, Some(1)), tensor("b", &[4], 40, None)];
        assert_eq!(groups(&live).len(), 2);
    }

    #[test]
    fn an_unknown_size_is_not_added_up() {
        let mut live = [tensor("a", &[4], 0, Some(1)), tensor("b", &[4], 0, Some(2))];
        for tensor in &mut live {
            tensor.per_bank = None;
        }
        assert_eq!(groups(&live)[0].per_bank, None);
    }

    #[test]
    fn groups_are_titled_by_names_parts_or_locations() {
        let of = |count: Step, change: &dyn Fn(usize, &mut LiveTensor)| {
            let mut live: Vec<LiveTensor> =
                (0..count).map(|step| tensor(&format!("%{step}"), &[4], 40, Some(step))).collect();
            live.iter_mut().enumerate().for_each(|(index, tensor)| change(index, tensor));
            groups(&live)[0].title()
        };
        assert_eq!(of(2, &|_, _| {}).as_deref(), Some("2 tensors"));
        assert_eq!(
            of(2, &|at, tensor| tensor.name = Some(format!("h.{at}.w"))).as_deref(),
            Some("2 tensors")
        );
        assert_eq!(
            of(2, &|at, tensor| tensor.name = Some(format!("layers.{at}.w"))).as_deref(),
            Some("2 × layers.*.w")
        );
        let located = |at: usize, tensor: &mut LiveTensor| tensor.loc = Some(format!("\"cache.{at}\""));
        assert_eq!(of(3, &located).as_deref(), Some("3 × \"cache.*\""));
        assert_eq!(locations(&["\"a.b\"", "fused[x]", "\"a.b\""]), (Some("\"a.b\"".into()), 2));
        assert_eq!(location_text(Some("\"a.b\""), 3).as_deref(), Some("\"a.b\" and 2 more"));
        assert_eq!(location_text(Some("\"a.*\""), 3).as_deref(), Some("\"a.*\""));
        assert_eq!((location_text(None, 0), locations(&[])), (None, (None, 0)));
        let fused =
            |at: usize, tensor: &mut LiveTensor| tensor.loc = Some(format!("fused[\"a.{at}\", \"b\"]"));
        assert_eq!(of(3, &fused).as_deref(), Some("3 tensors"));
        let in_layers = |at: usize, tensor: &mut LiveTensor| {
            (tensor.name, tensor.made_in) = (None, Some(format!("h.{at}.mlp")));
            tensor.made_in_layers = Some("h.*.mlp".into());
        };
        assert_eq!(of(3, &in_layers).as_deref(), Some("3 × (in h.*.mlp)"));
        assert_eq!(of(1, &in_layers).as_deref(), Some("(in h.0.mlp)"));
        assert_eq!(of(1, &|_, tensor| tensor.name = None), None);
    }

    #[test]
    fn groups_say_what_allocated_and_freed_them() {
        let mut live = vec![tensor("a", &[4], 40, Some(3)), tensor("b", &[4], 40, Some(9))];
        assert_eq!(groups(&live)[0].allocated_by(), "steps 3 and 9 ttnn.full");
        assert_eq!(groups(&live)[0].freed_by().as_deref(), Some("never"));
        live[0].dies_step = Some(12);
        assert_eq!(groups(&live)[0].freed_by().as_deref(), Some("1 of 2 never"));
        live[1].dies_step = Some(12);
        assert_eq!(groups(&live)[0].freed_by().as_deref(), Some("step 12"));
        live[1].dies_step = None;
        live[1].gone_before_step = Some(20);
        assert_eq!(groups(&live)[0].freed_by(), None);
        assert_eq!(groups(&live[1..])[0].freed_by().as_deref(), Some("before step 20"));
        let input = LiveTensor { class: Class::Input, ..tensor("x", &[4], 40, None) };
        assert_eq!(groups(&[input])[0].allocated_by(), "argument (input)");
    }

    #[test]
    fn names_are_a_pattern_of_whole_words() {
        assert_eq!(
            pattern(&["layers.0.q.weight", "layers.11.q.weight"]).as_deref(),
            Some("layers.*.q.weight")
        );
        assert_eq!(pattern(&["weight_1", "weight_12"]).as_deref(), Some("weight_*"));
        assert_eq!(pattern(&["cache", "cache"]).as_deref(), Some("cache"));
        assert_eq!(pattern(&["a.a", "a.a.a"]), None);
        assert_eq!(pattern(&["%60", "%61"]), None);
        assert_eq!(pattern(&["größe.1", "größe.2"]).as_deref(), Some("größe.*"));
        assert_eq!(pattern(&[]), None);
    }
}
