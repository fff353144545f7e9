//! The operation that a stack without Python code belongs to.
//!
//! Most of such stacks are those of the autograd engine's threads. Their innermost lines belong to the allocator and the
//! dispatcher, so the operation is named after the autograd node that runs, or after the outermost operation. Libraries that
//! allocate directly have neither; their operation is the function that calls the allocator.

/// The operation of a stack of C++ functions, innermost first: `EmbeddingBackward0`, `aten::mm`, `c10d::Store::wait`.
pub(super) fn operation<'f>(functions: impl Iterator<Item = &'f str>) -> Option<String> {
    let (mut outermost, mut innermost) = (None, None);
    for function in functions {
        if let Some(node) = node(function) {
            return Some(node.to_owned());
        }
        outermost = dispatched(function).or(outermost);
        innermost = innermost.or_else(|| caller_of_allocator(function));
    }
    outermost.map(|name| format!("aten::{name}")).or(innermost)
}

/// The name of a function that is neither part of the allocator nor of the capture of its stack.
fn caller_of_allocator(function: &str) -> Option<String> {
    const CAPTURE: [&str; 4] =
        ["torch::unwind::", "torch::CapturedTraceback::", "torch::cuda::", "torch::xpu::"];
    if function.contains("CachingAllocator") || CAPTURE.iter().any(|part| function.contains(part)) {
        return None;
    }
    let function = function.replace("(anonymous namespace)::", "");
    // `void f<int>(int)` is `f`.
    let name = function.split(['(', '<']).next()?.split_whitespace().next_back()?;
    name.chars()
        .all(|letter| letter.is_ascii_alphanumeric() || "_:~".contains(letter))
        .then(|| name.to_owned())
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
        let inside_allocator = [
            "torch::unwind::unwind()",
            "torch::CapturedTraceback::gather(bool, bool, bool)",
            "torch::cuda::(anonymous namespace)::gather_with_cpp()",
            "c10::cuda::CUDACachingAllocator::Native::NativeCachingAllocator::allocate(unsigned long)",
            "??",
            "",
        ];
        assert_eq!(of(&inside_allocator), None);
        for (caller, name) in [
            (
                "c10d::ProcessGroupNCCL::initNCCLComm(std::string const&)",
                "c10d::ProcessGroupNCCL::initNCCLComm",
            ),
            ("void (anonymous namespace)::pack<float, 4>(float*)", "pack"),
            ("at::cuda::getCurrentCUDABlasHandle()", "at::cuda::getCurrentCUDABlasHandle"),
            ("my_workspace", "my_workspace"),
        ] {
            let stack = [&inside_allocator[..], &[caller, "main"]].concat();
            assert_eq!(of(&stack).as_deref(), Some(name));
        }
        assert_eq!(
            of(&[&inside_allocator[..], &["my_workspace"], &inside[2..]].concat()).as_deref(),
            Some("aten::mm")
        );
    }
}
