//! Module dumps: the compiled graphs with their functions, arguments and aliases.
//!
//! A dump is read line by line. Only the parts needed later are kept: the position of its text, the arguments of its
//! functions, and a fingerprint of each function's operations, which identifies the program runs of that function.

use rustc_hash::FxHashMap;
use ttmem_model::ArgumentKind;
use xxhash_rust::xxh3::Xxh3;

use super::brackets::{closing, parts, string_end};
use super::operation::ParsedOp;

/// The stages of the compiler, in the order it prints them.
const STAGES: [&str; 9] = [
    "vhlo",
    "shlo",
    "shlo_frontend",
    "shlo_compiler",
    "shlo_set_mesh_attr",
    "shlo_compiler_cleaned",
    "ttir",
    "ttnn",
    "ttnn_runtime",
];

/// The position of a stage in the compiler pipeline.
pub(super) fn stage_order(stage: &str) -> Option<usize> {
    STAGES.iter().position(|known| *known == stage)
}

/// Parses `… MLIR Module ttnn:` with any prefix.
pub(super) fn stage_header(line: &[u8]) -> Option<&[u8]> {
    // A header is at the end of its line; longer lines are operations.
    const MAX_LEN: usize = 512;
    let line = line.trim_ascii_end();
    if line.len() > MAX_LEN || line.last() != Some(&b':') {
        return None;
    }
    let at = memchr::memmem::find(line, b"MLIR Module ")?;
    let name = line[at + 12..].trim_ascii_end().strip_suffix(b":")?;
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    (!name.is_empty() && name.iter().all(is_word)).then_some(name)
}

/// The line that ends a dump.
pub(super) fn is_end(line: &[u8]) -> bool {
    line.starts_with(b"-----") && memchr::memmem::find(line, b" END OF MLIR MODULE ").is_some()
}

/// A dump that is being read.
#[derive(Debug, Default)]
pub(super) struct Dump {
    /// Whether the runtime executes this stage.
    pub executable: bool,
    /// The module's own name.
    pub name: Option<String>,
    pub functions: Vec<Function>,
    aliases: FxHashMap<Vec<u8>, Vec<u8>>,
    /// Whether the last function's body is still open.
    inside: bool,
    /// The fingerprint of the last operation.
    last: Option<u64>,
    /// Whether an operation could not be parsed.
    unreadable: bool,
}

/// A function of a module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Function {
    pub name: String,
    pub arguments: Vec<FunctionArgument>,
    /// The names that it returns; `None` until its return was read.
    pub returns: Option<Vec<String>>,
    pub const_eval: bool,
    pub private: bool,
    /// The fingerprint of its first n operations, for each n from 1.
    pub fingerprints: Vec<u64>,
}

/// An argument of a function, as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FunctionArgument {
    pub ssa: String,
    pub name: Option<String>,
    pub kind: Option<ArgumentKind>,
    /// The type, with all aliases resolved.
    pub ty: Vec<u8>,
}

impl Dump {
    /// An empty dump.
    pub fn new(executable: bool) -> Self {
        Self { executable, ..Self::default() }
    }

    /// Adds the next line of the dump. Returns `false` if it does not look like a line of a module.
    pub fn line(&mut self, line: &[u8]) -> bool {
        let line = line.trim_ascii();
        match line.first() {
            Some(b'#') => self.alias(line),
            Some(b'm') if line.starts_with(b"module") => self.module(line),
            Some(b'f') if line.starts_with(b"func.func ") => self.function(line),
            Some(b'r') if line.starts_with(b"return") => self.returns(line),
            Some(b'%' | b'"' | b't' | b'f') if self.inside && self.executable => return self.operation(line),
            Some(first) => return matches!(first, b'%' | b'"' | b'}'),
            None => {}
        }
        true
    }

    fn operation(&mut self, line: &[u8]) -> bool {
        let (Some(op), Some(function)) = (ParsedOp::parse(line), self.functions.last_mut()) else {
            self.unreadable |= matches!(line.first(), Some(b'%' | b'"'));
            return false;
        };
        let operation = fingerprint(&op);
        // Names are unique, so a line that equals the previous one is a duplicate.
        if self.last.replace(operation) != Some(operation) {
            let before = function.fingerprints.last().copied().unwrap_or(0);
            function.fingerprints.push(extend(before, operation));
        }
        true
    }

    /// The defects of the dump, as sentence parts that follow "the dump".
    pub fn defects(&self) -> impl Iterator<Item = &'static str> {
        let is_open = |function: &Function| !function.fingerprints.is_empty() && function.returns.is_none();
        let is_unresolved = |argument: &FunctionArgument| has_alias(&argument.ty);
        let arguments = || self.functions.iter().flat_map(|function| &function.arguments);
        let defects = [
            (self.functions.is_empty(), "has no functions; the names of its arguments are unknown"),
            (
                self.functions.iter().any(is_open),
                "has a function without a return; everything that it leaves allocated is treated as its result",
            ),
            (
                arguments().any(is_unresolved),
                "uses a layout that it does not define; arguments of that layout have unknown sizes",
            ),
            (self.unreadable, "has lines that could not be parsed; programs may not be matched with it"),
        ];
        let executable = self.executable;
        defects.into_iter().filter(move |(is_there, _)| executable && *is_there).map(|(_, defect)| defect)
    }

    /// `#ttnn_layout3 = #ttnn.ttnn_layout<…>`
    fn alias(&mut self, line: &[u8]) {
        let Some(equals) = memchr::memmem::find(line, b" = ") else { return };
        let (name, value) = (&line[..equals], &line[equals + 3..]);
        if !name.starts_with(b"#loc") {
            // Aliases of aliases can grow exponentially; no real layout is this long.
            const MAX_LEN: usize = 64 << 10;
            let open = memchr::memchr(b'<', value);
            self.unreadable |= open.is_none_or(|open| closing(value, open).is_none());
            let resolved = self.resolve(value);
            let value =
                if resolved.len() <= MAX_LEN { resolved } else { value[..value.len().min(MAX_LEN)].to_vec() };
            self.aliases.insert(name.to_vec(), value);
        }
    }

    /// Resolves the aliases in a text.
    fn resolve(&self, text: &[u8]) -> Vec<u8> {
        let mut resolved = Vec::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = memchr::memchr2(b'#', b'"', rest) {
            if rest[at] == b'"' {
                let end = string_end(rest, at).map_or(rest.len(), |end| end + 1);
                resolved.extend_from_slice(&rest[..end]);
                rest = &rest[end..];
                continue;
            }
            resolved.extend_from_slice(&rest[..at]);
            let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
            let length = 1 + rest[at + 1..].iter().take_while(|byte| is_name(byte)).count();
            let name = &rest[at..at + length];
            resolved.extend_from_slice(self.aliases.get(name).map_or(name, Vec::as_slice));
            rest = &rest[at + length..];
        }
        resolved.extend_from_slice(rest);
        resolved
    }

    /// `module @SyncTensorsGraph.1 attributes {…} {`
    fn module(&mut self, line: &[u8]) {
        let name = line.strip_prefix(b"module @").map(|rest| {
            let end = rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len());
            text(rest[..end].trim_ascii())
        });
        // A device module may contain another module; the outer name is the graph's.
        if self.name.is_none() {
            self.name = name;
        }
    }

    /// `func.func private @main_const_eval_0(%arg0: …) -> (…) attributes {const_eval} {`
    fn function(&mut self, line: &[u8]) {
        self.inside = false;
        let Some(at) = memchr::memchr(b'@', line) else { return };
        let Some(open) = memchr::memchr(b'(', &line[at..]).map(|open| at + open) else { return };
        let Some(close) = closing(line, open) else { return };
        let behind = &line[close + 1..];
        let name = text(line[at + 1..open].trim_ascii());
        if self.functions.last().is_some_and(|last| last.name == name && last.fingerprints.is_empty()) {
            self.functions.pop();
        }
        self.last = None;
        self.functions.push(Function {
            name,
            arguments: parts(&line[open + 1..close]).filter_map(|part| self.argument(part)).collect(),
            private: memchr::memmem::find(&line[..at], b"private").is_some(),
            const_eval: memchr::memmem::find(behind, b"const_eval").is_some(),
            ..Function::default()
        });
        // A declaration without a body ends here.
        self.inside = behind.trim_ascii_end().ends_with(b"{");
    }

    /// `%arg0: tensor<512xf32, #ttnn_layout> {ttir.name = "bias", …} loc("p0")`
    fn argument(&self, part: &[u8]) -> Option<FunctionArgument> {
        let colon = memchr::memchr(b':', part)?;
        let (ssa, rest) = (part[..colon].trim_ascii(), part[colon + 1..].trim_ascii_start());
        let end = match rest.iter().position(|byte| matches!(byte, b'<' | b' '))? {
            at if rest[at] == b'<' => closing(rest, at)? + 1,
            at => at,
        };
        let attributes = rest[end..].trim_ascii_start();
        let attributes = match attributes.first() {
            Some(b'{') => attributes.get(1..closing(attributes, 0)?)?,
            _ => b"",
        };
        let (mut name, mut kind) = (None, None);
        for attribute in parts(attributes) {
            if let Some(value) = attribute.strip_prefix(b"ttir.name = \"") {
                name = Some(text(value.strip_suffix(b"\"").unwrap_or(value)));
            } else if attribute.starts_with(b"ttcore.argument_type")
                || attribute.starts_with(b"tt.argument_type")
            {
                kind = argument_kind(attribute);
            }
        }
        Some(FunctionArgument { ssa: text(ssa), name, kind, ty: self.resolve(&rest[..end]) })
    }

    /// `return %1, %3 : …`
    fn returns(&mut self, line: &[u8]) {
        if !std::mem::take(&mut self.inside) {
            return;
        }
        let names = line["return".len()..].split(|&byte| byte == b':').next().unwrap_or(b"");
        if let Some(function) = self.functions.last_mut() {
            let is_name = |part: &&[u8]| part.starts_with(b"%");
            function.returns = Some(parts(names).map(first_word).filter(is_name).map(text).collect());
        }
    }

    /// The entry point: `@main`, or the first function that is neither private nor const-eval.
    pub fn main(&self) -> Option<&Function> {
        let is_main = |function: &&Function| function.name == "main";
        let is_public = |function: &&Function| !function.private && !function.const_eval;
        self.functions.iter().find(is_main).or_else(|| self.functions.iter().find(is_public))
    }
}

/// Whether a type contains an unresolved alias such as `#ttnn_layout3`; attributes are `#ttnn.…`.
fn has_alias(ty: &[u8]) -> bool {
    memchr::memchr_iter(b'#', ty).any(|at| {
        let word = ty[at + 1..].iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_');
        ty.get(at + 1 + word.count()).is_none_or(|next| *next != b'.' && *next != b'<')
    })
}

fn first_word(part: &[u8]) -> &[u8] {
    part.split(u8::is_ascii_whitespace).next().unwrap_or(part)
}

fn argument_kind(attribute: &[u8]) -> Option<ArgumentKind> {
    let open = attribute.iter().position(|&byte| byte == b'<')?;
    Some(match attribute.get(open + 1..)?.strip_suffix(b">")? {
        b"input" => ArgumentKind::Input,
        b"parameter" => ArgumentKind::Parameter,
        b"constant" => ArgumentKind::Constant,
        b"default" => ArgumentKind::Default,
        _ => return None,
    })
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Identifies an operation in a dump and in a run by its names and shapes. Layouts and locations are printed
/// differently in the two.
pub(super) fn fingerprint(op: &ParsedOp<'_>) -> u64 {
    let mut hash = Xxh3::new();
    let mut add = |part: &[u8]| {
        hash.update(part);
        hash.update(&[0]);
    };
    add(op.name);
    add(op.result);
    op.operands.iter().for_each(|operand| add(operand));
    add(op.callee.unwrap_or(b""));
    for ty in op.operand_types.iter().chain(&op.result_types) {
        add(type_signature(ty));
    }
    hash.digest()
}

/// The shape and element of a tensor type; other types unchanged.
fn type_signature(ty: &[u8]) -> &[u8] {
    let inner = ty.strip_prefix(b"tensor<").and_then(|inner| inner.strip_suffix(b">"));
    inner.and_then(|inner| parts(inner).next()).unwrap_or(ty)
}

/// The fingerprint of a sequence extended by one operation.
pub(super) fn extend(sequence: u64, operation: u64) -> u64 {
    (sequence.rotate_left(5) ^ operation).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DUMP: &str = r#"#dram = #ttnn.buffer_type<dram>
#ttnn_layout = #ttnn.ttnn_layout<(d0) -> (0, d0), <1x1>, memref<1x16x!ttcore.tile<32x32, f32>, #dram>, <interleaved>>
module @SyncTensorsGraph.1 attributes {ttcore.meshes = #ttcore.meshes<[<"mesh" = 1x1>]>} {
  func.func private @main_const_eval_0(%arg0: tensor<512xf32, #ttnn_layout> loc(unknown)) -> (tensor<512xf32, #ttnn_layout>) attributes {const_eval} {
    %0 = "ttnn.neg"(%arg0) : (tensor<512xf32, #ttnn_layout>) -> tensor<512xf32, #ttnn_layout> loc(#loc3)
    return %0 : tensor<512xf32, #ttnn_layout> loc(#loc)
  } loc(#loc)
  func.func @main(%arg0: tensor<512xf32, #ttnn_layout> {ttcore.argument_type = #ttcore.argument_type<parameter>, ttir.name = "a, \"b"} loc("p0"), %arg1: tensor<512xf32, #ttnn_layout> loc(fused["x", "y"])) -> (tensor<512xf32> {jax.result_info = ""}) {
    %0 = ttcore.load_cached(@main_const_eval_0, [%arg0]) : (tensor<512xf32, #ttnn_layout>) -> tensor<512xf32, #ttnn_layout> loc(#loc2)
    %1:2 = "ttnn.split"(%0, %arg1) : (tensor<512xf32, #ttnn_layout>, tensor<512xf32, #ttnn_layout>) -> (tensor<512xf32, #ttnn_layout>, tensor<512xf32, #ttnn_layout>) loc(#loc3)
    return %1#0, %1#1 : tensor<512xf32, #ttnn_layout>, tensor<512xf32, #ttnn_layout> loc(#loc)
  } loc(#loc)
} loc(#loc)
#loc = loc(unknown)
"#;

    fn dump() -> Dump {
        let mut dump = Dump::new(true);
        DUMP.lines().for_each(|line| assert!(dump.line(line.as_bytes()), "{line}"));
        dump
    }

    #[test]
    fn functions_arguments_and_returns_are_read() {
        let dump = dump();
        assert_eq!(dump.name.as_deref(), Some("SyncTensorsGraph.1"));
        let [constant, main] = &dump.functions[..] else { panic!("{:?}", dump.functions) };
        assert!(constant.const_eval && constant.private && !main.const_eval && !main.private);
        let returns = |function: &Function| function.returns.clone().unwrap_or_default();
        assert_eq!((returns(constant), returns(main).len()), (vec!["%0".to_owned()], 2));
        assert_eq!(main.arguments[0].name.as_deref(), Some("a, \\\"b"));
        assert_eq!(main.arguments[0].kind, Some(ArgumentKind::Parameter));
        assert_eq!((main.arguments[1].name.as_deref(), main.arguments[1].kind), (None, None));
        assert!(main.arguments[1].ty.ends_with(b"#ttnn.buffer_type<dram>>, <interleaved>>>"));
        assert_eq!(dump.main().map(|main| main.name.as_str()), Some("main"));
    }

    #[test]
    fn a_function_is_known_by_its_operations() {
        let layout = "#ttnn.ttnn_layout<(d0) -> (0, d0), <1x1>, memref<1x16x!ttcore.tile<32x32, f32>, #ttnn.buffer_type<dram>>, <interleaved>>";
        let run = format!(
            "%0 = \"ttnn.neg\"(%arg0) : (tensor<512xf32, {layout}>) -> tensor<512xf32, {layout}> loc(\"neg.1\")"
        );
        let executed = fingerprint(&ParsedOp::parse(run.as_bytes()).unwrap());
        assert_eq!(dump().functions[0].fingerprints, [extend(0, executed)]);
        let other = run.replace("512xf32", "256xf32");
        assert_ne!(fingerprint(&ParsedOp::parse(other.as_bytes()).unwrap()), executed);
    }

    #[test]
    fn headers_and_ends_are_found() {
        let header = b"2026-01-22 15:34:51.123 (  12.345s) [        A1B2C3D4]      module_builder.cc:1278     1| MLIR Module ttnn:";
        assert_eq!(stage_header(header), Some(&b"ttnn"[..]));
        assert_eq!(stage_header(b"MLIR Module of the week: x"), None);
        assert!(is_end(b"------------------ END OF MLIR MODULE ------------------"));
    }

    #[test]
    fn a_dump_cut_anywhere_does_not_panic() {
        for cut in 0..DUMP.len() {
            let mut dump = Dump::new(true);
            DUMP.as_bytes()[..cut].split(|&byte| byte == b'\n').for_each(|line| _ = dump.line(line));
        }
    }
}
