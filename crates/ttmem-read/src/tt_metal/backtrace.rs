//! Operations in the C++ backtrace of an error.

use memchr::memmem;

/// How well a frame names the operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    /// The class of a device operation, such as `SoftmaxDeviceOperation`.
    Class,
    /// A primitive that an operation consists of, such as `ttnn.prim.reduce`.
    Primitive,
    /// A function that users call, such as `ttnn.softmax`.
    Public,
}

/// The operation of a backtrace, frame by frame from the innermost.
#[derive(Clone, Debug, Default)]
pub(super) struct Operation {
    best: Option<(Rank, String)>,
    /// Whether a frame is a function or an address of a library, as backtraces have them.
    pub has_frames: bool,
}

impl Operation {
    /// Takes the next frame: the text after `--- `.
    pub fn frame(&mut self, frame: &str) {
        self.has_frames |= is_real(frame);
        let Some(found) = operation(frame) else { return };
        // The outermost function is the one that the program called; the innermost class is the one that failed.
        let is_better = match &self.best {
            None => true,
            Some((rank, _)) if found.0 == Rank::Class => found.0 > *rank,
            Some((rank, _)) => found.0 >= *rank,
        };
        if is_better {
            self.best = Some(found);
        }
    }

    /// The operation that users call, such as `ttnn.softmax`.
    pub fn public(&self) -> Option<&str> {
        self.best.as_ref().filter(|(rank, _)| *rank == Rank::Public).map(|(_, name)| name.as_str())
    }

    /// The best name that the backtrace has.
    pub fn name(&self) -> Option<&str> {
        self.best.as_ref().map(|(_, name)| name.as_str())
    }
}

/// Whether a frame is complete: a function with its parameters, or an address in a library. Documentation leaves the
/// parameters out.
fn is_real(frame: &str) -> bool {
    let is_function = || {
        let (name, rest) = frame.split_once('(')?;
        let is_elided = rest.starts_with("...") || rest.starts_with('…');
        (name.contains("::") && rest.contains(')') && !is_elided).then_some(())
    };
    let is_address = || {
        let (_, address) = frame.rsplit_once("[0x")?;
        address.strip_suffix(']')?.bytes().all(|byte| byte.is_ascii_hexdigit()).then_some(())
    };
    is_address().or_else(is_function).is_some()
}

/// Namespaces whose functions users do not call.
const INTERNAL: [&str; 5] = ["detail", "device_operation", "decorators", "operations", "operation"];

fn operation(frame: &str) -> Option<(Rank, String)> {
    // Older versions register operations by name, and the name is a template argument.
    if let Some(name) = registered(frame) {
        return Some((Rank::Public, name));
    }
    let class = || class(frame).map(|class| (Rank::Class, class));
    let Some(start) = function_start(frame) else { return class() };
    let path = frame[start..].split(['(', '<', ' ']).next()?;
    let ends = &frame[start + path.len()..];
    let parts: Vec<&str> = path.split("::").collect();
    let is_name = |part: &&str| {
        part.starts_with(|first: char| first.is_ascii_lowercase())
            && part.chars().all(|char| char.is_ascii_alphanumeric() || char == '_')
    };
    if !ends.starts_with('(') || !parts.iter().all(is_name) {
        return class();
    }
    match parts.as_slice() {
        ["ttnn", "prim", _, ..] => Some((Rank::Primitive, parts.join("."))),
        ["ttnn", inner @ ..] if !inner.is_empty() && !inner.iter().any(|part| INTERNAL.contains(part)) => {
            Some((Rank::Public, parts.join(".")))
        }
        _ => class(),
    }
}

/// The start of `ttnn::…` in a frame, which a return type may precede.
fn function_start(frame: &str) -> Option<usize> {
    let name = frame.split('(').next()?;
    // A template argument is not the function.
    let name = name.split('<').next()?;
    let start = name.rfind(' ').map_or(0, |space| space + 1);
    name[start..].starts_with("ttnn::").then_some(start)
}

/// The class of a device operation, from a readable or mangled name.
fn class(frame: &str) -> Option<String> {
    const SUFFIX: &str = "DeviceOperation";
    const GENERIC: [&str; 5] = ["", "Mesh", "OldInfra", "With", "Old"];
    for (at, _) in frame.match_indices(SUFFIX) {
        let head = &frame[..at];
        let start = head.trim_end_matches(|char: char| char.is_ascii_alphanumeric()).len();
        let end = &frame[at + SUFFIX.len()..];
        let name = &head[start..];
        // A mangled name is preceded by its length, and other names may precede that.
        let (name, is_mangled) = match mangled(name, SUFFIX.len()) {
            Some(name) => (name, true),
            None => (name, false),
        };
        let is_whole =
            is_mangled || !end.starts_with(|next: char| next.is_ascii_alphanumeric() || next == '_');
        let is_class = name.starts_with(|first: char| first.is_ascii_uppercase());
        if is_whole && is_class && !GENERIC.contains(&name) {
            return Some(format!("{name}{SUFFIX}"));
        }
    }
    None
}

/// The end of a text that is a name with its length in front of it, counting the given number of bytes after the text.
fn mangled(text: &str, more: usize) -> Option<&str> {
    let bytes = text.as_bytes();
    (0..bytes.len()).rev().filter(|&at| bytes[at].is_ascii_digit()).find_map(|last| {
        let digits = bytes[..=last].iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
        let name = &text[last + 1..];
        // The last digits of several in a row may already belong to the length.
        (1..=digits.min(4)).find_map(|count| {
            let length: usize = text[last + 1 - count..=last].parse().ok()?;
            (length == name.len() + more && !name.is_empty()).then_some(name)
        })
    })
}

/// The name of a registered operation, from the characters of the template argument: `(char)116, (char)116, …` or
/// `Lc116ELc116E…`.
fn registered(frame: &str) -> Option<String> {
    memmem::find(frame.as_bytes(), b"registered_operation_t")?;
    let name = [("(char)", ""), ("Lc", "E")].into_iter().find_map(|(before, end)| {
        let mut name = String::new();
        for part in frame.split(before).skip(1) {
            let digits = part.bytes().take_while(u8::is_ascii_digit).count();
            let char: u8 = part[..digits].parse().ok()?;
            if !part[digits..].starts_with(end) || !char.is_ascii_graphic() {
                break;
            }
            name.push(char::from(char));
            let is_next =
                if end.is_empty() { part[digits..].starts_with(',') } else { part.len() == digits + 1 };
            if !is_next {
                break;
            }
        }
        name.starts_with("ttnn::").then_some(name)
    })?;
    Some(name.replace("::", "."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(frames: &[&str]) -> Option<String> {
        let mut operation = Operation::default();
        for frame in frames {
            operation.frame(frame);
        }
        operation.name().map(str::to_owned)
    }

    const MANGLED: &str = "/lib/_ttnncpp.so(_ZN4ttnn16device_operation6detail6launchITkNS0_22DeviceOperationConceptENS_4prim22SoftmaxDeviceOperationEEENT_21tensor_return_value_tE+0xf8) [0x7f3477503ea8]";

    #[test]
    fn the_outermost_public_function_is_the_operation() {
        assert_eq!(
            name(&[
                "/lib/libtt_metal.so(+0xabae05) [0x7f34752bae05]",
                "tt::tt_metal::detail::ProgramImpl::validate_dataflow_buffer_region(tt::tt_metal::IDevice const*)",
                MANGLED,
                "ttnn::prim::softmax(ttnn::Tensor const&, signed char, std::optional<ttnn::ComputeKernelConfig const>, bool)",
                "ttnn::softmax(ttnn::Tensor const&, int, std::optional<tt::tt_metal::MemoryConfig> const&, bool)",
                "/lib/_ttnn.cpython-310-x86_64-linux-gnu.so(+0x5c413a) [0x7f34797c413a]",
            ]),
            Some("ttnn.softmax".to_owned())
        );
        assert_eq!(
            name(&["ttnn::create_device_tensor(x)", "ttnn::empty(tt::tt_metal::Shape const&)"]),
            Some("ttnn.empty".to_owned())
        );
        assert_eq!(
            name(&[
                "ttnn::prim::reduce(...)",
                "ttnn::operations::reduction::generic::detail::reduce(...)",
                "ttnn::sum(...)",
                "tt::runtime::ttnn::operations::reduction::run(tt::target::ttnn::ReductionOp const*, ...)",
            ]),
            Some("ttnn.sum".to_owned())
        );
        assert_eq!(
            name(&["ttnn::transformer::scaled_dot_product_attention(ttnn::Tensor const&)"]),
            Some("ttnn.transformer.scaled_dot_product_attention".to_owned())
        );
        assert_eq!(name(&["ttnn::Tensor ttnn::softmax(int)"]), Some("ttnn.softmax".to_owned()));
    }

    #[test]
    fn primitives_and_classes_are_named_only_if_nothing_better_is_there() {
        assert_eq!(name(&[MANGLED, "ttnn::prim::reduce(...)"]), Some("ttnn.prim.reduce".to_owned()));
        assert_eq!(name(&[MANGLED]), Some("SoftmaxDeviceOperation".to_owned()));
        assert_eq!(
            name(&[
                "ttnn::prim::LayerNormDeviceOperation::compute_program_hash(ttnn::prim::LayerNormParams const&)"
            ]),
            Some("LayerNormDeviceOperation".to_owned())
        );
        assert_eq!(
            name(&[
                "/x/_ttnn.so(_ZN4ttnn16device_operation26MeshDeviceOperationAdapterIN2tt8tt_metal9operation23OldInfraDeviceOperationISt6vectorE+0x1) [0x1]"
            ]),
            None
        );
        assert_eq!(name(&["main(int)", "/bin/python(_start+0x21) [0x56322b6e1081]", ""]), None);
    }

    #[test]
    fn registered_operations_have_their_name_in_a_template_argument() {
        assert_eq!(
            name(&[
                "auto ttnn::decorators::registered_operation_t<reflect::v1_2_5::fixed_string<char, 9ul>{char [10]{(char)116, (char)116, (char)110, (char)110, (char)58, (char)58, (char)97, (char)100, (char)100}}, ttnn::operations::X>::invoke<int>(int)"
            ]),
            Some("ttnn.add".to_owned())
        );
        assert_eq!(
            name(&[
                "/x/_ttnn.so(_ZNK4ttnn10decorators22registered_operation_tIXtlN7reflect12fixed_stringIcLm9EEEtlA10_cLc116ELc116ELc110ELc110ELc58ELc58ELc97ELc100ELc100EEEENS_3addEE+0x1) [0x1]"
            ]),
            Some("ttnn.add".to_owned())
        );
    }

    #[test]
    fn documentation_leaves_parameters_out() {
        let is_real = |frame: &str| {
            let mut operation = Operation::default();
            operation.frame(frame);
            operation.has_frames
        };
        assert!(is_real("tt::tt_metal::detail::ProgramImpl::validate(tt::tt_metal::IDevice const*)"));
        assert!(is_real("/lib/libtt_metal.so(+0xabae05) [0x7f34752bae05]"));
        for frame in ["…", "<frame>", "something", "ttnn::prim::reduce(...)", "ttnn::softmax(…)"] {
            assert!(!is_real(frame), "{frame}");
        }
    }
}
