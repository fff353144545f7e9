//! Filters of allocations, as users write them: `size > 10MiB and stack ~ "attention"`.
//!
//! A filter is parsed once and applied to any number of allocations. Conditions on operations, their lines and stacks, on
//! modules and on pools are evaluated once per operation, module or pool.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use regex_lite::Regex;
use ttmem_model::{Class, MemorySize, Moment, OpId, Profile, Rank, StrId, TensorId};

use crate::analyze::modules::Modules;

/// The fields that conditions compare, with what they mean.
pub const FIELDS: [(&str, &str); 11] = [
    ("size", "bytes of the allocation: 10MiB"),
    ("class", "parameter, gradient, optimizer, activation, kv_cache, workspace, …"),
    ("name", "name of the tensor"),
    ("op", "operation that allocated it"),
    ("line", "source line that allocated it: train.py:31"),
    ("stack", "any line of its call stack: function, file and line"),
    ("module", "module or named range that allocated it, as `--by module` shows it"),
    ("pool", "pool that it is in: DRAM, cuda:0"),
    ("allocated", "step that allocated it; 0 if it existed before the first step"),
    ("freed", "step that freed it, or `never`"),
    ("steps", "number of steps that it lived"),
];

/// A filter of allocations.
#[derive(Clone, Debug)]
pub struct Filter {
    text: String,
    root: Node,
}

impl PartialEq for Filter {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Filter {}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[derive(Clone, Debug)]
enum Node {
    And(Box<Node>, Box<Node>),
    Or(Box<Node>, Box<Node>),
    Not(Box<Node>),
    Number(NumberField, Compare, u64),
    Text(TextField, TextTest),
    /// A condition on something that allocations have in common, by its index among all such conditions.
    Common(CommonField, TextTest, usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NumberField {
    Size,
    Allocated,
    Freed,
    Steps,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TextField {
    Class,
    Name,
}

/// A field with the same value for many allocations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CommonField {
    Op,
    Line,
    Stack,
    Module,
    Pool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Compare {
    Less,
    AtMost,
    Equal,
    NotEqual,
    AtLeast,
    More,
}

impl Compare {
    fn holds(self, order: Ordering) -> bool {
        match self {
            Self::Less => order.is_lt(),
            Self::AtMost => order.is_le(),
            Self::Equal => order.is_eq(),
            Self::NotEqual => order.is_ne(),
            Self::AtLeast => order.is_ge(),
            Self::More => order.is_gt(),
        }
    }
}

#[derive(Clone, Debug)]
enum TextTest {
    Is(String),
    IsNot(String),
    Matches(Regex),
    DoesNotMatch(Regex),
}

impl TextTest {
    /// Whether a field passes that has these texts; a stack has several.
    fn holds<'t>(&self, mut texts: impl Iterator<Item = &'t str>) -> bool {
        match self {
            Self::Is(wanted) => texts.any(|text| text == wanted),
            Self::IsNot(wanted) => texts.all(|text| text != wanted),
            Self::Matches(pattern) => texts.any(|text| pattern.is_match(text)),
            Self::DoesNotMatch(pattern) => texts.all(|text| !pattern.is_match(text)),
        }
    }
}

impl Filter {
    /// A filter that finds a text in names, operations, source lines and call stacks, regardless of case.
    pub fn containing(text: &str) -> Self {
        let mut pattern = String::from("(?i)");
        for letter in text.chars() {
            if r"\.+*?()|[]{}^$#&-~".contains(letter) {
                pattern.push('\\');
            }
            pattern.push(letter);
        }
        // A pattern too large to compile matches nothing.
        let matching =
            || Regex::new(&pattern).map_or_else(|_| TextTest::Is(text.to_owned()), TextTest::Matches);
        let or = |a: Node, b: Node| Node::Or(Box::new(a), Box::new(b));
        let name = Node::Text(TextField::Name, matching());
        let of_op = [CommonField::Op, CommonField::Line, CommonField::Stack];
        let of_op =
            of_op.into_iter().enumerate().map(|(index, field)| Node::Common(field, matching(), index));
        Self { text: text.to_owned(), root: of_op.fold(name, or) }
    }
}

/// A filter with the answers of its conditions on common fields.
#[derive(Debug)]
pub struct Matcher<'a> {
    filter: &'a Filter,
    profile: &'a Profile,
    rank: &'a Rank,
    /// The modules, if a condition is about them.
    modules: Option<Modules<'a>>,
    /// For each condition on a common field, the answer for each operation, module or pool.
    answers: Vec<Vec<bool>>,
}

impl Filter {
    /// Prepares a filter for the allocations of a rank.
    pub fn matcher<'a>(&'a self, profile: &'a Profile, rank: &'a Rank) -> Matcher<'a> {
        let mut conditions = Vec::new();
        self.root.common(&mut conditions);
        let is_of_module = conditions.iter().any(|(field, _)| *field == CommonField::Module);
        let modules = is_of_module.then(|| Modules::new(profile, rank));
        let mut matcher = Matcher { filter: self, profile, rank, modules, answers: Vec::new() };
        matcher.answers = conditions.into_iter().map(|(field, test)| matcher.answer(field, test)).collect();
        matcher
    }
}

impl Matcher<'_> {
    /// Whether an allocation passes.
    pub fn matches(&self, tensor: TensorId) -> bool {
        self.holds(&self.filter.root, tensor)
    }

    fn holds(&self, node: &Node, tensor: TensorId) -> bool {
        match node {
            Node::And(a, b) => self.holds(a, tensor) && self.holds(b, tensor),
            Node::Or(a, b) => self.holds(a, tensor) || self.holds(b, tensor),
            Node::Not(inner) => !self.holds(inner, tensor),
            Node::Number(field, compare, value) => compare.holds(self.number(*field, tensor).cmp(value)),
            Node::Text(field, test) => test.holds(self.text(*field, tensor).into_iter()),
            Node::Common(field, test, condition) => {
                let place = self.place(*field, tensor);
                let known = place.and_then(|place| self.answers.get(*condition)?.get(place).copied());
                known.unwrap_or_else(|| test.holds(std::iter::empty()))
            }
        }
    }

    /// The answers to a condition on a common field.
    fn answer(&self, field: CommonField, test: &TextTest) -> Vec<bool> {
        match field {
            CommonField::Op | CommonField::Line | CommonField::Stack => {
                let ops = (0..self.profile.ops.len()).filter_map(OpId::new);
                ops.map(|op| passes(self.profile, op, field, test)).collect()
            }
            CommonField::Module => {
                let names = self.modules.iter().flat_map(Modules::names);
                names.map(|name| test.holds(name.as_deref().into_iter())).collect()
            }
            CommonField::Pool => {
                let names = self.rank.pools.iter().map(|pool| self.profile.text(pool.name));
                names.map(|name| test.holds(std::iter::once(name))).collect()
            }
        }
    }

    /// The place of an allocation's answer.
    fn place(&self, field: CommonField, tensor: TensorId) -> Option<usize> {
        let op = || self.rank.made_by(tensor);
        match field {
            CommonField::Op | CommonField::Line | CommonField::Stack => op().map(OpId::index),
            CommonField::Module => Some(self.modules.as_ref()?.of(tensor, op())?.index()),
            CommonField::Pool => self.rank.tensors.pool.get(tensor.index()).map(|pool| pool.index()),
        }
    }

    fn number(&self, field: NumberField, tensor: TensorId) -> u64 {
        let (tensors, index) = (&self.rank.tensors, tensor.index());
        let born = || u64::from(tensors.born.get(index).map_or(0, |at| at.position()).saturating_sub(1));
        let dies = tensors.dies.get(index).copied().unwrap_or(Moment::NEVER);
        let freed =
            || if dies == Moment::NEVER { u64::MAX } else { u64::from(dies.position().saturating_sub(1)) };
        match field {
            NumberField::Size => tensors.per_bank.get(index).map_or(0, |bytes| bytes.or_zero()),
            NumberField::Allocated => born(),
            NumberField::Freed => freed(),
            NumberField::Steps => freed().min(u64::from(self.rank.end())).saturating_sub(born()),
        }
    }

    fn text(&self, field: TextField, tensor: TensorId) -> Option<&str> {
        let (tensors, index) = (&self.rank.tensors, tensor.index());
        match field {
            TextField::Class => tensors.class.get(index).map(|class| class.as_str()),
            TextField::Name => {
                let name = tensors.name.get(index).copied().flatten();
                name.or_else(|| tensors.ssa.get(index).copied().flatten()).map(|name| self.profile.text(name))
            }
        }
    }
}

impl Node {
    /// The conditions on common fields, in order.
    fn common<'n>(&'n self, found: &mut Vec<(CommonField, &'n TextTest)>) {
        match self {
            Self::And(a, b) | Self::Or(a, b) => {
                a.common(found);
                b.common(found);
            }
            Self::Not(inner) => inner.common(found),
            Self::Common(field, test, _) => found.push((*field, test)),
            Self::Number(..) | Self::Text(..) => {}
        }
    }
}

/// Whether an operation passes a condition on itself, its line or its stack.
fn passes(profile: &Profile, op: OpId, field: CommonField, test: &TextTest) -> bool {
    let one = |id: Option<StrId>| id.map(|id| profile.text(id)).into_iter();
    match field {
        CommonField::Line => match profile.ops.loc(op) {
            Some(loc) => is_line(test, profile.text(loc)),
            None => test.holds(std::iter::empty()),
        },
        CommonField::Stack => {
            let lines = profile.stacks.of_op(op).map(|stack| profile.stacks.lines(stack));
            let lines: Vec<String> = lines
                .into_iter()
                .flatten()
                .map(|frame| {
                    format!("{} {}:{}", profile.text(frame.function), profile.text(frame.file), frame.line)
                })
                .collect();
            test.holds(lines.iter().map(String::as_str))
        }
        _ => test.holds(one(profile.ops.name(op))),
    }
}

/// Whether a source line passes. It may be written without the first folders of its path.
fn is_line(test: &TextTest, line: &str) -> bool {
    let ends_with = |wanted: &str| {
        let before = line.strip_suffix(wanted);
        before.is_some_and(|before| before.is_empty() || before.ends_with('/'))
    };
    match test {
        TextTest::Is(wanted) => ends_with(wanted),
        TextTest::IsNot(wanted) => !ends_with(wanted),
        test => test.holds(std::iter::once(line)),
    }
}

impl FromStr for Filter {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parser = Parser { words: words(text)?, next: 0, common: 0, depth: 0 };
        let root = parser.any_of()?;
        match parser.words.get(parser.next) {
            None => Ok(Self { text: text.trim().to_owned(), root }),
            Some(word) => Err(format!("unexpected {word}; join conditions with `and` or `or`")),
        }
    }
}

/// A word of a filter.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Word {
    /// A name, number or size.
    Bare(String),
    Quoted(String),
    Sign(&'static str),
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bare(text) => write!(f, "`{text}`"),
            Self::Quoted(text) => write!(f, "{text:?}"),
            Self::Sign(sign) => write!(f, "`{sign}`"),
        }
    }
}

const SIGNS: [&str; 11] = ["<=", ">=", "!=", "!~", "==", "<", ">", "=", "~", "(", ")"];

fn words(text: &str) -> Result<Vec<Word>, String> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        if let Some(sign) = SIGNS.into_iter().find(|sign| rest.starts_with(sign)) {
            words.push(Word::Sign(sign));
            rest = &rest[sign.len()..];
        } else if matches!(first, '"' | '\'') {
            let Some((quoted, after)) = rest[1..].split_once(first) else {
                return Err(format!("missing closing {first}"));
            };
            words.push(Word::Quoted(quoted.to_owned()));
            rest = after;
        } else {
            let is_end = |c: char| c.is_whitespace() || "<>=!~()\"'".contains(c);
            let end = rest.find(is_end).unwrap_or(rest.len());
            if end == 0 {
                return Err(format!("unexpected {first:?}"));
            }
            words.push(Word::Bare(rest[..end].to_owned()));
            rest = &rest[end..];
        }
        rest = rest.trim_start();
    }
    Ok(words)
}

/// The maximum depth of parentheses.
const MAX_DEPTH: usize = 64;

struct Parser {
    words: Vec<Word>,
    next: usize,
    /// The number of conditions on common fields so far.
    common: usize,
    depth: usize,
}

impl Parser {
    fn take(&mut self) -> Option<Word> {
        let word = self.words.get(self.next).cloned();
        self.next += 1;
        word
    }

    fn takes(&mut self, wanted: &str) -> bool {
        let is_next = match self.words.get(self.next) {
            Some(Word::Bare(word)) => word.eq_ignore_ascii_case(wanted),
            Some(Word::Sign(sign)) => *sign == wanted,
            _ => false,
        };
        self.next += usize::from(is_next);
        is_next
    }

    fn any_of(&mut self) -> Result<Node, String> {
        let mut node = self.all_of()?;
        while self.takes("or") {
            node = Node::Or(Box::new(node), Box::new(self.all_of()?));
        }
        Ok(node)
    }

    fn all_of(&mut self) -> Result<Node, String> {
        let mut node = self.one()?;
        while self.takes("and") {
            node = Node::And(Box::new(node), Box::new(self.one()?));
        }
        Ok(node)
    }

    fn one(&mut self) -> Result<Node, String> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err("too many nested conditions".into());
        }
        let node = if self.takes("not") {
            Node::Not(Box::new(self.one()?))
        } else if self.takes("(") {
            let inner = self.any_of()?;
            if !self.takes(")") {
                return Err("missing `)`".into());
            }
            inner
        } else {
            self.condition()?
        };
        self.depth -= 1;
        Ok(node)
    }

    fn condition(&mut self) -> Result<Node, String> {
        let names = || FIELDS.map(|(name, _)| name).join(", ");
        let field = match self.take() {
            Some(Word::Bare(field)) => field.to_ascii_lowercase(),
            Some(word) => return Err(format!("expected a field before {word}: {}", names())),
            None => return Err(format!("expected a condition, such as `size > 10MiB`; fields: {}", names())),
        };
        match field.as_str() {
            "size" => self.number(NumberField::Size, &field),
            "allocated" => self.number(NumberField::Allocated, &field),
            "freed" => self.number(NumberField::Freed, &field),
            "steps" => self.number(NumberField::Steps, &field),
            "class" => Ok(Node::Text(TextField::Class, self.class_test(&field)?)),
            "name" => Ok(Node::Text(TextField::Name, self.test(&field)?)),
            "op" => self.common(CommonField::Op, &field),
            "line" => self.common(CommonField::Line, &field),
            "stack" => self.common(CommonField::Stack, &field),
            "module" => self.common(CommonField::Module, &field),
            "pool" => self.common(CommonField::Pool, &field),
            _ => Err(format!("unknown field `{field}`; expected one of {}", names())),
        }
    }

    fn common(&mut self, field: CommonField, name: &str) -> Result<Node, String> {
        let test = self.test(name)?;
        self.common += 1;
        Ok(Node::Common(field, test, self.common - 1))
    }

    fn sign(&mut self, field: &str) -> Result<&'static str, String> {
        match self.take() {
            Some(Word::Sign(sign)) if !matches!(sign, "(" | ")") => Ok(sign),
            _ => Err(format!("expected a comparison after `{field}`: <, <=, =, !=, >=, >, ~ or !~")),
        }
    }

    fn number(&mut self, field: NumberField, name: &str) -> Result<Node, String> {
        let compare = match self.sign(name)? {
            "<" => Compare::Less,
            "<=" => Compare::AtMost,
            "=" | "==" => Compare::Equal,
            "!=" => Compare::NotEqual,
            ">=" => Compare::AtLeast,
            ">" => Compare::More,
            sign => return Err(format!("`{sign}` compares texts, and `{name}` is a number")),
        };
        let value = match self.take() {
            Some(Word::Bare(value)) => self.with_unit(value),
            _ => return Err(format!("expected a number after `{name}`")),
        };
        let value = match field {
            NumberField::Size => value.parse::<MemorySize>()?.0,
            NumberField::Freed if value == "never" => u64::MAX,
            _ => value.parse().map_err(|_| format!("expected a step number instead of `{value}`"))?,
        };
        Ok(Node::Number(field, compare, value))
    }

    /// A number and its unit may be two words.
    fn with_unit(&mut self, number: String) -> String {
        let is_number = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        match self.words.get(self.next) {
            Some(Word::Bare(unit))
                if is_number && format!("{number}{unit}").parse::<MemorySize>().is_ok() =>
            {
                self.next += 1;
                format!("{number}{unit}")
            }
            _ => number,
        }
    }

    /// A test of a class. An unknown class is an error, because nothing would pass.
    fn class_test(&mut self, field: &str) -> Result<TextTest, String> {
        Ok(match self.test(field)? {
            TextTest::Is(name) => TextTest::Is(class_named(&name)?),
            TextTest::IsNot(name) => TextTest::IsNot(class_named(&name)?),
            test => test,
        })
    }

    fn test(&mut self, field: &str) -> Result<TextTest, String> {
        let sign = self.sign(field)?;
        let Some(Word::Bare(value) | Word::Quoted(value)) = self.take() else {
            return Err(format!("expected a text after `{field} {sign}`"));
        };
        let pattern = || Regex::new(&format!("(?i){value}")).map_err(|error| format!("{value:?}: {error}"));
        Ok(match sign {
            "=" | "==" => TextTest::Is(value),
            "!=" => TextTest::IsNot(value),
            "~" => TextTest::Matches(pattern()?),
            "!~" => TextTest::DoesNotMatch(pattern()?),
            _ => return Err(format!("`{sign}` compares numbers, and `{field}` is a text")),
        })
    }
}

/// The name of a class, which may also be written as summaries do: `gradients`, `optimizer state`, `KV caches`.
fn class_named(name: &str) -> Result<String, String> {
    let singular = |word: &str| word.strip_suffix('s').unwrap_or(word).to_owned();
    let written = name.trim().to_ascii_lowercase().replace([' ', '-'], "_");
    let is_named =
        |class: &str| singular(&written) == class || written.split('_').any(|word| singular(word) == class);
    let found = Class::ALL.into_iter().map(Class::as_str).find(|class| is_named(class));
    found.map(str::to_owned).ok_or_else(|| {
        let names = Class::ALL.map(Class::as_str).join(", ");
        format!("unknown class `{name}`; expected one of {names}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_known_by_all_their_names() {
        for (name, class) in [
            ("gradient", "gradient"),
            ("Gradients", "gradient"),
            ("optimizer state", "optimizer"),
            ("KV caches", "kv_cache"),
            ("kv-cache", "kv_cache"),
            ("library workspaces", "workspace"),
            ("unknown class", "unknown"),
            ("temporary tensors", "temporary"),
            ("arguments of unknown kind", "argument"),
        ] {
            assert_eq!(class_named(name).as_deref(), Ok(class), "{name}");
        }
        assert!(error("class = foo").starts_with("unknown class `foo`; expected one of weight, input"));
        assert!("class ~ grad".parse::<Filter>().is_ok());
    }

    #[test]
    fn a_line_is_known_by_the_end_of_its_path() {
        let is = TextTest::Is("train.py:31".into());
        let (path, others) = ("/home/user/train.py:31", ["/home/user/pretrain.py:31", "train.py:310"]);
        assert!(is_line(&is, path) && is_line(&is, "train.py:31"));
        assert!(others.iter().all(|other| !is_line(&is, other)));
        assert!(!is_line(&TextTest::IsNot("train.py:31".into()), path));
    }

    fn error(text: &str) -> String {
        text.parse::<Filter>().unwrap_err()
    }

    #[test]
    fn conditions_are_joined_and_nested() {
        for text in [
            "size > 10MiB",
            "size>10 MiB and stack ~ \"attention\"",
            "not (class = parameter or class = optimizer) and freed = never",
            "line ~ 'train.py:3[12]' AND name != weight",
            "allocated < 100 and freed >= never or steps <= 3",
            "op == linear.forward",
            "stack !~ backward",
            "module ~ \"h.*.mlp\" and pool != 'cuda:1'",
            "not module = forward or pool = DRAM and module !~ mlp",
        ] {
            let filter: Filter = text.parse().unwrap();
            assert_eq!(filter.to_string(), text);
        }
    }

    #[test]
    fn errors_say_what_is_expected() {
        assert!(error("").starts_with("expected a condition, such as `size > 10MiB`; fields: size, class"));
        assert!(error("sise > 1").starts_with("unknown field `sise`; expected one of size, class"));
        assert_eq!(error("size ~ 1"), "`~` compares texts, and `size` is a number");
        assert_eq!(error("class > a"), "`>` compares numbers, and `class` is a text");
        assert_eq!(error("size > "), "expected a number after `size`");
        assert_eq!(error("size"), "expected a comparison after `size`: <, <=, =, !=, >=, >, ~ or !~");
        assert!(error("size > 1X").starts_with("unknown unit"));
        assert_eq!(error("allocated < soon"), "expected a step number instead of `soon`");
        assert_eq!(error("(size > 1"), "missing `)`");
        assert_eq!(error("size > 1 size < 2"), "unexpected `size`; join conditions with `and` or `or`");
        assert_eq!(error("name = \"a"), "missing closing \"");
        assert!(error("stack ~ \"(\"").starts_with("\"(\": "));
        assert_eq!(error(&"(".repeat(100)), "too many nested conditions");
        assert_eq!(error(&"not ".repeat(100)), "too many nested conditions");
    }
}
