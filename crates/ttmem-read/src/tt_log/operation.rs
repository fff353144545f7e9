//! Parses the text of an operation, as printed by the runtime and in module dumps.
//!
//! `%2:3 = "ttnn.split"(%arg0, %1) <{dim = 2 : i32}> : (tensor<…>, …) -> (tensor<…>, …) loc("split.1")`

use super::brackets::{closing, list, parts};

/// A parsed operation. All parts are slices of the text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct ParsedOp<'a> {
    pub name: &'a [u8],
    /// The name before ` = `, and the number of results after it (0 for none).
    pub result: &'a [u8],
    pub results: u16,
    pub operands: Vec<&'a [u8]>,
    pub callee: Option<&'a [u8]>,
    pub attributes: Option<&'a [u8]>,
    pub operand_types: Vec<&'a [u8]>,
    pub result_types: Vec<&'a [u8]>,
    /// The content of `loc( )`.
    pub loc: Option<&'a [u8]>,
}

impl<'a> ParsedOp<'a> {
    /// Parses an operation. `None` if the text is not an operation.
    pub fn parse(text: &'a [u8]) -> Option<Self> {
        let mut op = Self::default();
        let rest = op.read_head(text)?;
        op.read_types_and_loc(rest);
        Some(op)
    }

    /// Whether a text is an operation, without parsing its types and location, which are most of the text.
    pub fn is_operation(text: &[u8]) -> bool {
        ParsedOp::default().read_head(text).is_some()
    }

    /// Parses the required parts; returns the text after them.
    fn read_head(&mut self, text: &'a [u8]) -> Option<&'a [u8]> {
        let rest = self.read_results(text)?;
        let rest = self.read_name_and_operands(rest)?;
        self.read_attributes(rest)
    }

    /// `%5:2 = `, or nothing.
    fn read_results(&mut self, text: &'a [u8]) -> Option<&'a [u8]> {
        if text.first() != Some(&b'%') {
            return Some(text);
        }
        let equals = text.iter().position(|&byte| byte == b'=')?;
        let name = text[..equals].trim_ascii();
        match name.iter().position(|&byte| byte == b':') {
            Some(colon) => {
                self.result = &name[..colon];
                self.results = u16::try_from(super::view::decimal(&name[colon + 1..])?).ok()?;
            }
            None => (self.result, self.results) = (name, 1),
        }
        Some(text[equals + 1..].trim_ascii_start())
    }

    /// `"ttnn.add"(%0, %1)`, `ttcore.load_cached(@f, [%arg0])`, `func.call @f(%1)`.
    fn read_name_and_operands(&mut self, text: &'a [u8]) -> Option<&'a [u8]> {
        let open = match text.strip_prefix(b"\"") {
            Some(quoted) => {
                let quote = memchr::memchr(b'"', quoted)?;
                self.name = &quoted[..quote];
                quote + 2
            }
            None => {
                let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_');
                let length = text.iter().take_while(|byte| is_name(byte)).count();
                self.name = &text[..length];
                length + memchr::memchr(b'(', text.get(length..)?)?
            }
        };
        if self.name.is_empty() || text.get(open) != Some(&b'(') {
            return None;
        }
        let before = text[..open].rsplit(|&byte| byte == b' ').next().unwrap_or(b"");
        self.callee = before.strip_prefix(b"@");
        let close = closing(text, open)?;
        self.read_operands(&text[open + 1..close]);
        Some(&text[close + 1..])
    }

    fn read_operands(&mut self, list: &'a [u8]) {
        for part in parts(list) {
            if part.starts_with(b"%") {
                self.operands.push(part);
            } else if let Some(callee) = part.strip_prefix(b"@") {
                self.callee = Some(callee);
            } else if let Some(inner) = part.strip_prefix(b"[").and_then(|part| part.strip_suffix(b"]")) {
                self.operands.extend(parts(inner).filter(|part| part.starts_with(b"%")));
            }
        }
    }

    /// Parses ` <{…}>` and ` {…}`, both optional.
    fn read_attributes(&mut self, text: &'a [u8]) -> Option<&'a [u8]> {
        let mut rest = text.trim_ascii_start();
        if rest.starts_with(b"<{") {
            let close = closing(rest, 0)?;
            self.attributes = rest.get(2..close.checked_sub(1)?);
            rest = rest[close + 1..].trim_ascii_start();
        }
        if rest.starts_with(b"{") {
            let close = closing(rest, 0)?;
            if self.attributes.is_none() {
                self.attributes = rest.get(1..close);
            }
            rest = rest[close + 1..].trim_ascii_start();
        }
        Some(rest)
    }

    /// Parses `: (types) -> types loc(…)`. A truncated text yields the parts that it has.
    fn read_types_and_loc(&mut self, text: &'a [u8]) {
        let mut rest = text;
        if let Some(types) = rest.strip_prefix(b":") {
            rest = types.trim_ascii_start();
            (self.operand_types, rest) = read_types(rest);
            if let Some(results) = rest.trim_ascii_start().strip_prefix(b"->") {
                (self.result_types, rest) = read_types(results.trim_ascii_start());
            }
        }
        let rest = rest.trim_ascii();
        self.loc = rest.strip_prefix(b"loc(").and_then(|loc| loc.strip_suffix(b")"));
    }
}

/// Parses `(a, b)` or `a`; returns the text after it.
fn read_types(text: &[u8]) -> (Vec<&[u8]>, &[u8]) {
    if text.first() == Some(&b'(') {
        return list(text).unwrap_or((Vec::new(), b""));
    }
    let end = match text.iter().position(|byte| matches!(byte, b'<' | b' ' | b',')) {
        Some(at) if text[at] == b'<' => closing(text, at).map_or(text.len(), |close| close + 1),
        Some(at) => at,
        None => text.len(),
    };
    if end == 0 { (Vec::new(), text) } else { (vec![&text[..end]], &text[end..]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> ParsedOp<'_> {
        ParsedOp::parse(text.as_bytes()).unwrap_or_else(|| panic!("not read: {text}"))
    }

    fn words(list: &[&[u8]]) -> Vec<String> {
        list.iter().map(|bytes| String::from_utf8(bytes.to_vec()).unwrap()).collect()
    }

    /// A layout as the runtime prints it, for the examples below.
    const L: &str = "#ttnn.ttnn_layout<(d0, d1) -> (d0, d1), <1x1>, memref<2x4x!ttcore.tile<32x32, f32>, #ttnn.buffer_type<dram>>, <interleaved>>";

    // The numbers are those of the examples in the reference, 2.2.

    #[test]
    fn example_1_binary_with_file_location() {
        let text = format!(
            "%0 = \"ttnn.add\"(%arg0, %arg1) <{{dtype = #ttcore.supportedDataTypes<f32>}}> : (tensor<64x128xf32, {L}>, tensor<64x128xf32, {L}>) -> tensor<64x128xf32, {L}> loc(\"/a/add.mlir.tmp.mlir\":9:14)"
        );
        let op = parse(&text);
        assert_eq!((op.name, op.result, op.results), (&b"ttnn.add"[..], &b"%0"[..], 1));
        assert_eq!(words(&op.operands), ["%arg0", "%arg1"]);
        assert_eq!(op.attributes, Some(&b"dtype = #ttcore.supportedDataTypes<f32>"[..]));
        assert_eq!((op.operand_types.len(), op.result_types.len()), (2, 1));
        assert_eq!(op.loc, Some(&b"\"/a/add.mlir.tmp.mlir\":9:14"[..]));
    }

    #[test]
    fn example_2_deallocate_has_no_result() {
        let text = format!(
            "\"ttnn.deallocate\"(%arg1) <{{force = false}}> : (tensor<64x128xf32, {L}>) -> () loc(\"x\":10:9)"
        );
        let op = parse(&text);
        assert_eq!((op.name, op.results), (&b"ttnn.deallocate"[..], 0));
        assert_eq!((words(&op.operands), op.result_types.len()), (vec!["%arg1".to_owned()], 0));
    }

    #[test]
    fn example_3_row_major_with_arrows_in_the_layout_and_a_child_location() {
        let text = "%377 = \"ttnn.avg_pool2d\"(%376) <{batch_size = 1 : si32, kernel_size = array<i32: 224, 224>, padding = array<i32: 0, 0>}> : (tensor<1x1x50176x48xbf16, #ttnn.ttnn_layout<(d0, d1, d2, d3) -> (d0 * 50176 + d1 * 50176 + d2, d3), <1x1>, memref<50176x48xbf16, #ttnn.buffer_type<dram>>, <interleaved>>>) -> tensor<1x1x1x48xbf16, #ttnn.ttnn_layout<(d0, d1, d2, d3) -> (d0 + d1 + d2, d3), <1x1>, memref<1x48xbf16, #ttnn.buffer_type<dram>>, <interleaved>>> loc(\"reduce.1148_pool\"(\"reduce.1148\"))";
        let op = parse(text);
        assert_eq!(op.loc, Some(&b"\"reduce.1148_pool\"(\"reduce.1148\")"[..]));
        assert!(op.result_types[0].starts_with(b"tensor<1x1x1x48xbf16"));
    }

    #[test]
    fn example_4_the_dialect_of_2024() {
        let op = parse(
            "%6 = \"ttnn.add\"(%2, %4, %5) <{operandSegmentSizes = array<i32: 2, 1>}> : (tensor<64x128xf32, #ttnn.ttnn_layout<(d0, d1) -> (d0, d1), <1x1>, memref<2x4x!tt.tile<32x32, f32>, #ttnn.buffer_type<dram>>, <interleaved>>>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>",
        );
        assert_eq!((op.operands.len(), op.operand_types.len(), op.loc), (3, 3, None));
    }

    #[test]
    fn example_5_a_device_type_full_of_commas_and_arrows() {
        let op = parse(
            "%0 = \"ttnn.get_device\"() <{mesh_shape = #ttnn<mesh_shape 1x1>}> : () -> !tt.device<<workerGrid = #tt.grid<8x8, (d0, d1) -> (0, d0, d1)>, l1Map = (d0, d1)[s0, s1] -> (0, d0 floordiv s0, d1 mod s1), meshShape = , chipIds = [0]>> loc(\"x.mlir\":9:10)",
        );
        assert_eq!((op.operands.len(), op.result_types.len()), (0, 1));
        assert!(op.result_types[0].ends_with(b"chipIds = [0]>>"));
        assert_eq!(op.loc, Some(&b"\"x.mlir\":9:10"[..]));
    }

    #[test]
    fn example_6_get_device() {
        let op = parse(
            "%0 = \"ttnn.get_device\"() <{mesh_offset = #ttnn<mesh_offset 0x0>, mesh_shape = #ttnn<mesh_shape 1x1>}> : () -> !ttnn.device",
        );
        assert_eq!(words(&op.result_types), ["!ttnn.device"]);
    }

    #[test]
    fn example_7_a_type_inside_the_attributes() {
        let text = format!(
            "%1 = \"ttnn.constant\"(%0) <{{layout = #ttnn.layout<tile>, value = dense<[8]> : tensor<1xui32>}}> : (!ttnn.device) -> tensor<1xui32, {L}>"
        );
        let op = parse(&text);
        assert_eq!(words(&op.operand_types), ["!ttnn.device"]);
        assert!(op.attributes.unwrap().ends_with(b": tensor<1xui32>"));
    }

    #[test]
    fn example_8_three_results() {
        let text = format!(
            "%2:3 = \"ttnn.nlp_create_qkv_heads_decode\"(%arg0, %1) <{{num_heads = 32 : ui32}}> : (tensor<1xbf16, {L}>, tensor<1xbf16, {L}>) -> (tensor<1x8x32x32xbf16, {L}>, tensor<2xbf16, {L}>, tensor<3xbf16, {L}>)"
        );
        let op = parse(&text);
        assert_eq!((op.result, op.results, op.result_types.len()), (&b"%2"[..], 3, 3));
    }

    #[test]
    fn example_9_block_float_carries_a_tile() {
        let text = format!(
            "%0 = \"ttnn.typecast\"(%arg1) : (tensor<1xbf16, {L}>) -> tensor<1x32x1x128x!ttcore.tile<32x32, bfp_bf8>, {L}>"
        );
        assert!(
            parse(&text).result_types[0]
                .starts_with(b"tensor<1x32x1x128x!ttcore.tile<32x32, bfp_bf8>, #ttnn")
        );
    }

    #[test]
    fn example_10_in_place_without_result() {
        let text = format!(
            "\"ttnn.update_cache\"(%arg0, %arg1, %arg2) <{{batch_offset = 0 : i32}}> : (tensor<1x32x64x128xbf16, {L}>, tensor<1x32x1x128xbf16, {L}>, tensor<1xi32, {L}>) -> ()"
        );
        let op = parse(&text);
        assert_eq!((op.results, op.operand_types.len(), op.result_types.len()), (0, 3, 0));
    }

    #[test]
    fn example_11_and_13_creation() {
        for text in [
            format!(
                "%2 = \"ttnn.empty\"(%0) <{{layout = #ttnn.layout<tile>, shape = #ttnn.shape<32x32>}}> : (!ttnn.device) -> tensor<32x32xf32, {L}>"
            ),
            format!(
                "%full = \"ttnn.full\"(%dev) <{{fill_value = 1.250000e-01 : f32, layout = #ttnn.layout<tile>, shape = #ttnn.shape<1x12x32x64>}}> : (!ttnn.device) -> tensor<1x12x32x64xbf16, {L}>"
            ),
        ] {
            let op = parse(&text);
            assert_eq!((op.results, op.operands.len(), op.result_types.len()), (1, 1, 1));
        }
    }

    #[test]
    fn example_12_generic_with_nested_attributes() {
        let text = format!(
            "\"ttnn.generic\"(%1, %2) <{{operandSegmentSizes = array<i32: 2, 0>, program = #ttnn.program<kernels = [#ttnn.read_kernel<symbol_ref = @k, core_ranges = <[#ttnn.core_range<(0,0), (7,7)>]>, ct_args = [#ttnn.kernel_arg<a>]>], cbs = [], semaphores = []>}}> : (tensor<1xf32, {L}>, tensor<1xf32, {L}>) -> ()"
        );
        let op = parse(&text);
        assert_eq!((op.operands.len(), op.operand_types.len()), (2, 2));
        assert!(op.attributes.unwrap().ends_with(b"semaphores = []>"));
    }

    #[test]
    fn example_14_no_attributes_at_all() {
        let text =
            format!("%0 = \"ttnn.to_memory_config\"(%arg0) : (tensor<1xbf16, {L}>) -> tensor<1xbf16, {L}>");
        let op = parse(&text);
        assert_eq!((op.attributes, op.operand_types.len(), op.result_types.len()), (None, 1, 1));
    }

    #[test]
    fn example_15_and_16_host_to_device_and_gather() {
        let text = format!(
            "%2 = \"ttnn.to_device\"(%1, %0) : (tensor<4x32x64x3xf32, {L}>, !ttnn.device) -> tensor<4x32x64x3xf32, {L}>"
        );
        assert_eq!(parse(&text).operand_types.len(), 2);
        let text = format!(
            "%0 = \"ttnn.all_gather\"(%arg0) <{{all_gather_dim = 0 : si32, cluster_axis = 1 : ui32}}> : (tensor<32xbf16, {L}>) -> tensor<128xbf16, {L}>"
        );
        assert!(parse(&text).result_types[0].starts_with(b"tensor<128xbf16"));
    }

    #[test]
    fn example_17_traces() {
        let op = parse(
            "%2 = \"ttnn.begin_trace_capture\"(%0) <{cq_id = 0 : ui32}> : (!ttnn.device) -> tensor<ui32, #ttnn.trace_id>",
        );
        assert_eq!(words(&op.result_types), ["tensor<ui32, #ttnn.trace_id>"]);
        let op = parse(
            "\"ttnn.end_trace_capture\"(%0, %2) <{cq_id = 0 : ui32}> : (!ttnn.device, tensor<ui32, #ttnn.trace_id>) -> ()",
        );
        assert_eq!((op.results, op.operands.len()), (0, 2));
    }

    #[test]
    fn example_18_capture_or_execute_trace() {
        let text = format!(
            "%1 = \"ttnn.capture_or_execute_trace\"(%0, %arg0) <{{allocate_slots_callee = @a, capture_callee = @capture_fn, execute_callee = @execute_fn, operandSegmentSizes = array<i32: 1, 1, 0>}}> : (!ttnn.device, tensor<32x32xbf16, {L}>) -> tensor<32x32xbf16, {L}>"
        );
        let op = parse(&text);
        assert_eq!((words(&op.operands), op.callee), (vec!["%0".to_owned(), "%arg0".to_owned()], None));
    }

    #[test]
    fn example_19_load_cached() {
        let text = format!(
            "%1 = ttcore.load_cached(@matmul_with_multiply_const_eval_0, [%arg0, %arg1]) : (tensor<1xf32, {L}>, tensor<1xf32, {L}>) -> tensor<1xf32, {L}> loc(unknown)"
        );
        let op = parse(&text);
        assert_eq!(
            (op.name, op.callee),
            (&b"ttcore.load_cached"[..], Some(&b"matmul_with_multiply_const_eval_0"[..]))
        );
        assert_eq!(
            (words(&op.operands), op.loc),
            (vec!["%arg0".to_owned(), "%arg1".to_owned()], Some(&b"unknown"[..]))
        );
        let empty = parse("%0 = ttcore.load_cached(@main_const_eval_187, []) : () -> tensor<4xf32>");
        assert_eq!((empty.callee, empty.operands.len()), (Some(&b"main_const_eval_187"[..]), 0));
    }

    #[test]
    fn example_20_func_call() {
        let text = format!(
            "%0 = func.call @cpu_hoisted_rm() {{ttir.cpu_hoist_call = unit}} : () -> tensor<64x128xf32, {L}>"
        );
        let op = parse(&text);
        assert_eq!((op.name, op.callee), (&b"func.call"[..], Some(&b"cpu_hoisted_rm"[..])));
        assert_eq!((op.attributes, op.result_types.len()), (Some(&b"ttir.cpu_hoist_call = unit"[..]), 1));
        let op = parse("%3 = func.call @f(%1, %2) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>");
        assert_eq!(
            (op.callee, words(&op.operands)),
            (Some(&b"f"[..]), vec!["%1".to_owned(), "%2".to_owned()])
        );
    }

    #[test]
    fn example_21_several_results_are_used_by_number() {
        let op = parse(
            "%0:2 = \"ttnn.tt_lang_op\"(%arg0, %arg1) <{arg_roles = \"in,out\", kernel_id = \"test.out_mismatch::v1\"}> : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)",
        );
        assert_eq!((op.result, op.results), (&b"%0"[..], 2));
        let op = parse("\"ttnn.deallocate\"(%8#1) <{force = false}> : (tensor<4xf32>) -> ()");
        assert_eq!(words(&op.operands), ["%8#1"]);
    }

    #[test]
    fn strings_may_hold_anything() {
        let op = parse(
            "%0 = \"ttnn.relu\"(%1) <{note = \"}> : (\\22 -> loc(\\\"\"}> : (tensor<4xf32>) -> tensor<4xf32> loc(fused<\"a)\">[\"x, y\", callsite(\"f\" at \"g\":1:2)])",
        );
        assert_eq!(op.attributes, Some(&b"note = \"}> : (\\22 -> loc(\\\"\""[..]));
        assert_eq!(op.loc, Some(&b"fused<\"a)\">[\"x, y\", callsite(\"f\" at \"g\":1:2)]"[..]));
    }

    #[test]
    fn what_is_no_operation_is_not_read_and_nothing_panics() {
        for text in [
            "",
            "%",
            "%0",
            "%0 =",
            "%0 = ",
            "\"",
            "\"ttnn.add",
            "\"ttnn.add\"",
            "\"ttnn.add\"(",
            "()",
            "%0 = (%1)",
        ] {
            assert_eq!(ParsedOp::parse(text.as_bytes()), None, "{text:?}");
        }
        let whole = format!(
            "%0 = \"ttnn.add\"(%arg0) <{{a = \"b\"}}> : (tensor<1xf32, {L}>) -> tensor<1xf32, {L}> loc(\"x\")"
        );
        for cut in 0..whole.len() {
            let _ = ParsedOp::parse(&whole.as_bytes()[..cut]);
        }
    }
}
