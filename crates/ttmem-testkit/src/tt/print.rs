//! The text of operations, for the runtime log and for module dumps.
//!
//! The two differ in the spelling of layouts and locations ([`Spelling`]); the rest of the text is the same.

use std::fmt::{self, Write};

use super::dialect::{Dialect, Loc};
use super::program::{Function, Graph, Op, Type, Value};
use super::tensor::TensorType;

/// The spelling of parts that may be aliases.
pub trait Spelling {
    fn dialect(&self) -> Dialect;

    /// Writes the layout of a tensor type with the comma before it, or nothing.
    fn layout(&mut self, out: &mut String, tensor: &TensorType) -> fmt::Result;

    /// Writes `loc(…)`.
    fn loc(&mut self, out: &mut String, loc: &Loc) -> fmt::Result;
}

/// Everything in full, on one line, as in the runtime log.
#[derive(Clone, Copy, Debug)]
pub struct Inline(pub Dialect);

impl Spelling for Inline {
    fn dialect(&self) -> Dialect {
        self.0
    }

    fn layout(&mut self, out: &mut String, tensor: &TensorType) -> fmt::Result {
        out.push_str(", ");
        self.0.write_layout(out, tensor)
    }

    fn loc(&mut self, out: &mut String, loc: &Loc) -> fmt::Result {
        write!(out, "loc({loc})")
    }
}

/// Writes a tensor type.
pub fn write_tensor(out: &mut String, tensor: &TensorType, spelling: &mut dyn Spelling) -> fmt::Result {
    out.push_str("tensor<");
    for size in &tensor.shape {
        write!(out, "{size}x")?;
    }
    match tensor.element.scalar() {
        Some(scalar) => out.push_str(scalar),
        None => write!(out, "!ttcore.tile<32x32, {}>", tensor.element.name())?,
    }
    spelling.layout(out, tensor)?;
    out.push('>');
    Ok(())
}

/// Writes an operation as MLIR prints it.
pub fn write_op(
    out: &mut String,
    graph: &Graph,
    function: &Function,
    op: &Op,
    spelling: &mut dyn Spelling,
) -> fmt::Result {
    if let Some(&first) = op.results.first() {
        let ssa = function.ssa(first);
        match op.results.len() {
            1 => write!(out, "{ssa} = ")?,
            count => write!(out, "{}:{count} = ", ssa.trim_end_matches("#0"))?,
        }
    }
    write_callee(out, graph, function, op)?;
    if !op.attributes.is_empty() {
        write!(out, " <{{{}}}>", op.attributes)?;
    }
    out.push_str(" : (");
    write_types(out, function, &op.operands, spelling)?;
    out.push_str(") -> ");
    if op.results.len() == 1 {
        write_types(out, function, &op.results, spelling)?;
    } else {
        out.push('(');
        write_types(out, function, &op.results, spelling)?;
        out.push(')');
    }
    out.push(' ');
    spelling.loc(out, &op.loc)
}

/// The name with the operands; two operations have a special syntax.
fn write_callee(out: &mut String, graph: &Graph, function: &Function, op: &Op) -> fmt::Result {
    use super::program::Effect::{Call, LoadCached};
    let close = match op.effect {
        LoadCached(callee) => {
            write!(out, "{}(@{}, [", op.name, graph.functions[callee].name)?;
            "])"
        }
        Call(callee) => {
            write!(out, "{} @{}(", op.name, graph.functions[callee].name)?;
            ")"
        }
        _ => {
            write!(out, "\"{}\"(", op.name)?;
            ")"
        }
    };
    for (index, &operand) in op.operands.iter().enumerate() {
        write!(out, "{}{}", if index == 0 { "" } else { ", " }, function.ssa(operand))?;
    }
    out.push_str(close);
    Ok(())
}

/// The types of values, separated by commas.
pub fn write_types(
    out: &mut String,
    function: &Function,
    values: &[Value],
    spelling: &mut dyn Spelling,
) -> fmt::Result {
    for (index, &value) in values.iter().enumerate() {
        out.push_str(if index == 0 { "" } else { ", " });
        match &function.values[value.0].1 {
            Type::Device => out.push_str(&spelling.dialect().device_type()),
            Type::Tensor(tensor) => write_tensor(out, tensor, spelling)?,
        }
    }
    Ok(())
}

/// The complete text of an operation in the runtime log.
pub fn op_text(graph: &Graph, function: &Function, op: &Op, dialect: Dialect) -> String {
    let mut out = String::with_capacity(512);
    write_op(&mut out, graph, function, op, &mut Inline(dialect)).expect("a string takes every text");
    dialect.of_era(out)
}
