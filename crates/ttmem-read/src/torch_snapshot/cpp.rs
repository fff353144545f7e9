//! The operation that a stack without Python code belongs to.
//!
//! Such stacks are those of the autograd engine's threads. Their innermost lines belong to the allocator and the
//! dispatcher, so the operation is named after the autograd node that runs, or after the outermost operation.

/// The operation of a stack of C++ functions, innermost first: `EmbeddingBackward0`, `aten::mm`.
pub(super) fn operation<'f>(functions: impl Iterator<Item = &'f str>) -> Option<String> {
    let mut outermost = None;
    for function in functions {
        if let Some(node) = node(function) {
            return Some(node.to_owned());
        }
        outermost = dispatched(function).or(outermost);
    }
    outermost.map(|name| format!("aten::{name}"))
}

/// The autograd node of `torch::autograd::generated::EmbeddingBackward0::apply(…)`.
fn node(function: &str) -> Option<&str> {
    let path = function.split('(').next()?.strip_suffix("::apply")?;
    let name = path.strip_prefix("torch::autograd::")?;
    let name = name.strip_prefix("generated::").unwrap_or(name);
    is_name(name).then_some(name)
}

/// The operation of `at::_ops::mm::call(…)`.
fn dispatched(function: &str) -> Option<&str> {
    let name = function.strip_prefix("at::_ops::")?.split("::").next()?;
    is_name(name).then_some(name)
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_is_named_after_its_node_or_the_outermost_operation() {
        let of = |functions: &[&str]| operation(functions.iter().copied());
        let inside = [
            "torch::unwind::unwind()",
            "at::_ops::empty_memory_format::call(c10::ArrayRef<c10::SymInt>)",
            "at::_ops::mm::redispatch(c10::DispatchKeySet, at::Tensor const&)",
            "at::_ops::mm::call(at::Tensor const&, at::Tensor const&)",
            "torch::autograd::generated::MmBackward0_apply_functional(std::vector<at::Tensor>&&)",
        ];
        assert_eq!(of(&inside).as_deref(), Some("aten::mm"));
        let node = "torch::autograd::generated::MmBackward0::apply(std::vector<at::Tensor>&&)";
        assert_eq!(of(&[&inside[..], &[node]].concat()).as_deref(), Some("MmBackward0"));
        let accumulate = "torch::autograd::AccumulateGrad::apply(std::vector<at::Tensor>&&)";
        assert_eq!(of(&[accumulate]).as_deref(), Some("AccumulateGrad"));
        assert_eq!(of(&["torch::unwind::unwind()", "??", "", "at::_ops::"]), None);
    }
}
