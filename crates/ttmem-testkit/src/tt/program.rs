//! Programs: graphs of functions of operations, and the builder for scenarios.
//!
//! A program only describes operations: `runtime.rs` runs it, `print.rs` prints it.

use super::dialect::Loc;
use super::tensor::Tensor;

/// A value of one function: an argument or a result of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Value(pub usize);

/// The type of a value.
#[derive(Clone, Debug)]
pub enum Type {
    Tensor(Tensor),
    /// The device handle.
    Device,
}

/// The compiler's role of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Input,
    Parameter,
    Constant,
}

impl Role {
    pub fn name(self) -> &'static str {
        match self {
            Self::Input => "input",
            Self::Parameter => "parameter",
            Self::Constant => "constant",
        }
    }
}

/// An argument; the first values of a function are its arguments.
#[derive(Clone, Debug)]
pub struct Argument {
    pub name: String,
    pub role: Role,
    pub tensor: Tensor,
}

/// The effect of an operation on memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Opens the device.
    GetDevice,
    /// Allocates its results.
    Produce,
    /// Adds a second name to the buffer of its first operand.
    View,
    /// Writes into its operands.
    InPlace,
    /// Frees its operand.
    Deallocate,
    /// Runs the function once and keeps its results.
    LoadCached(usize),
    /// Runs the function.
    Call(usize),
}

/// One operation.
#[derive(Clone, Debug)]
pub struct Op {
    pub name: &'static str,
    pub operands: Vec<Value>,
    pub results: Vec<Value>,
    /// The text between `<{` and `}>`.
    pub attributes: String,
    pub loc: Loc,
    pub effect: Effect,
}

impl Op {
    /// Whether a report lists this operation, not only its effect.
    pub fn is_reported(&self) -> bool {
        !matches!(self.effect, Effect::Deallocate | Effect::GetDevice)
    }
}

/// A function, called a program by the runtime.
#[derive(Clone, Debug)]
pub struct Function {
    pub name: String,
    pub const_eval: bool,
    pub arguments: Vec<Argument>,
    pub ops: Vec<Op>,
    pub results: Vec<Value>,
    /// SSA name and type of every value.
    pub values: Vec<(String, Type)>,
}

impl Function {
    pub fn ssa(&self, value: Value) -> &str {
        &self.values[value.0].0
    }

    pub fn tensor(&self, value: Value) -> Option<&Tensor> {
        match &self.values[value.0].1 {
            Type::Tensor(tensor) => Some(tensor),
            Type::Device => None,
        }
    }
}

/// A compilation unit: one module.
#[derive(Clone, Debug)]
pub struct Graph {
    /// The name of the module.
    pub name: String,
    pub functions: Vec<Function>,
    /// The function that is submitted; the others are private.
    pub entry: usize,
}

impl Graph {
    pub fn entry(&self) -> &Function {
        &self.functions[self.entry]
    }
}

/// Builds a graph: its main function, and the functions it calls.
#[derive(Debug)]
pub struct GraphBuilder {
    pub main: Builder,
    helpers: Vec<Function>,
}

impl GraphBuilder {
    pub fn new(main: Builder) -> Self {
        Self { main, helpers: Vec::new() }
    }

    /// Starts the next const-eval function.
    pub fn const_eval(&self) -> Builder {
        let mut builder = Builder::new(format!("main_const_eval_{}", self.helpers.len()));
        builder.function.const_eval = true;
        builder
    }

    /// Makes the main function load the results of a const-eval function.
    pub fn load_cached(&mut self, callee: Function, operands: &[Value]) -> Vec<Value> {
        let step = self.main.step("ttcore.load_cached", operands);
        let values = step.push(Effect::LoadCached(self.helpers.len()), result_types(&callee));
        self.helpers.push(callee);
        values
    }

    /// Makes the main function call another.
    pub fn call(&mut self, callee: Function, operands: &[Value], loc: Loc) -> Vec<Value> {
        let step = self.main.step("func.call", operands).at(loc);
        let values = step.push(Effect::Call(self.helpers.len()), result_types(&callee));
        self.helpers.push(callee);
        values
    }

    /// Ends the graph; `results` are those of its main function.
    pub fn returns(self, name: impl Into<String>, results: &[Value]) -> Graph {
        let mut functions = self.helpers;
        functions.push(self.main.returns(results));
        Graph { name: name.into(), entry: functions.len() - 1, functions }
    }
}

/// Builds a function, operation by operation.
#[derive(Debug)]
pub struct Builder {
    function: Function,
    next_name: usize,
    device: Option<Value>,
}

impl Builder {
    pub fn new(name: impl Into<String>) -> Self {
        let function = Function {
            name: name.into(),
            const_eval: false,
            arguments: Vec::new(),
            ops: Vec::new(),
            results: Vec::new(),
            values: Vec::new(),
        };
        Self { function, next_name: 0, device: None }
    }

    /// Adds an argument; arguments must come before the first operation.
    pub fn argument(&mut self, role: Role, name: impl Into<String>, tensor: &Tensor) -> Value {
        debug_assert!(self.function.ops.is_empty(), "arguments are the first values");
        let argument = Argument { name: name.into(), role, tensor: tensor.clone() };
        self.function.arguments.push(argument);
        let ssa = format!("%arg{}", self.function.arguments.len() - 1);
        self.value(ssa, Type::Tensor(tensor.clone()))
    }

    /// The device handle, opened on first use.
    pub fn device(&mut self) -> Value {
        self.device_at(Loc::Unknown)
    }

    /// The device handle, opened at this location if it is not open yet.
    pub fn device_at(&mut self, loc: Loc) -> Value {
        if let Some(device) = self.device {
            return device;
        }
        let attributes = "mesh_offset = #ttnn<mesh_offset 0x0>, mesh_shape = #ttnn<mesh_shape 1x1>";
        let step = self.step("ttnn.get_device", &[]).attributes(attributes).at(loc);
        let device = step.push(Effect::GetDevice, vec![Type::Device])[0];
        self.device = Some(device);
        device
    }

    /// Starts an operation; one of the `gives` methods of [`Step`] ends it.
    pub fn step(&mut self, name: &'static str, operands: &[Value]) -> Step<'_> {
        Step {
            op: Op {
                name,
                operands: operands.to_vec(),
                results: Vec::new(),
                attributes: String::new(),
                loc: Loc::Unknown,
                effect: Effect::Produce,
            },
            builder: self,
        }
    }

    /// Frees `value`, at the location of the previous operation, as the compiler does after the last use.
    pub fn deallocate(&mut self, value: Value) {
        let loc = self.function.ops.last().map_or(Loc::Unknown, |op| op.loc.clone());
        self.deallocate_at(value, loc);
    }

    /// Frees `value` at a given location.
    pub fn deallocate_at(&mut self, value: Value, loc: Loc) {
        let step = self.step("ttnn.deallocate", &[value]).attributes("force = false").at(loc);
        step.push(Effect::Deallocate, Vec::new());
    }

    pub fn tensor(&self, value: Value) -> &Tensor {
        self.function.tensor(value).expect("a tensor")
    }

    /// The number of arguments; they are the first values.
    pub fn arguments(&self) -> usize {
        self.function.arguments.len()
    }

    /// The last value.
    pub fn last_value(&self) -> Value {
        Value(self.function.values.len() - 1)
    }

    /// Ends the function.
    pub fn returns(mut self, results: &[Value]) -> Function {
        self.function.results = results.to_vec();
        self.function
    }

    fn value(&mut self, ssa: String, kind: Type) -> Value {
        self.function.values.push((ssa, kind));
        Value(self.function.values.len() - 1)
    }
}

fn result_types(callee: &Function) -> Vec<Type> {
    callee.results.iter().map(|value| callee.values[value.0].1.clone()).collect()
}

/// An operation under construction.
#[derive(Debug)]
#[must_use = "a step that gives nothing is ended by `in_place`"]
pub struct Step<'b> {
    builder: &'b mut Builder,
    op: Op,
}

impl Step<'_> {
    /// The text between `<{` and `}>`.
    pub fn attributes(mut self, attributes: impl Into<String>) -> Self {
        self.op.attributes = attributes.into();
        self
    }

    /// The location.
    pub fn at(mut self, loc: Loc) -> Self {
        self.op.loc = loc;
        self
    }

    /// Allocates one result.
    pub fn gives(self, tensor: &Tensor) -> Value {
        self.push(Effect::Produce, vec![Type::Tensor(tensor.clone())])[0]
    }

    /// Allocates several results: `%7:2`.
    pub fn gives_all(self, tensors: &[&Tensor]) -> Vec<Value> {
        let types = tensors.iter().map(|&tensor| Type::Tensor(tensor.clone())).collect();
        self.push(Effect::Produce, types)
    }

    /// The result is another name for the buffer of the first operand.
    pub fn gives_view(self, tensor: &Tensor) -> Value {
        self.push(Effect::View, vec![Type::Tensor(tensor.clone())])[0]
    }

    /// Writes into its operands and has no result.
    pub fn in_place(self) {
        self.push(Effect::InPlace, Vec::new());
    }

    fn push(self, effect: Effect, types: Vec<Type>) -> Vec<Value> {
        let Self { builder, mut op } = self;
        let number = builder.next_name;
        builder.next_name += usize::from(!types.is_empty());
        let single = types.len() == 1;
        for (index, kind) in types.into_iter().enumerate() {
            let ssa = if single { format!("%{number}") } else { format!("%{number}#{index}") };
            op.results.push(builder.value(ssa, kind));
        }
        op.effect = effect;
        let results = op.results.clone();
        builder.function.ops.push(op);
        results
    }
}

/// The attribute with the shape of an operation's result.
pub fn shape_attribute(shape: &[u64]) -> String {
    let sizes: Vec<String> = shape.iter().map(|size| format!("{size} : i32")).collect();
    format!("shape = [{}]", sizes.join(", "))
}

/// The name of this operation's type in the runtime.
pub fn op_type(name: &str) -> &'static str {
    match name {
        "ttnn.add" | "ttnn.multiply" | "ttnn.subtract" | "ttnn.divide" => "EltwiseBinaryOp",
        "ttnn.silu" | "ttnn.relu" | "ttnn.gelu" | "ttnn.exp" | "ttnn.sqrt" => "EltwiseUnaryOp",
        "ttnn.mean" | "ttnn.sum" | "ttnn.max" => "ReductionOp",
        "ttnn.conv2d" => "Conv2dOp",
        "ttnn.deallocate" => "DeallocateOp",
        "ttnn.embedding" => "EmbeddingOp",
        "ttnn.empty" => "EmptyOp",
        "ttnn.from_device" => "FromDeviceOp",
        "ttnn.full" => "FullOp",
        "ttnn.get_device" => "GetDeviceOp",
        "ttnn.linear" => "LinearOp",
        "ttnn.matmul" => "MatmulOp",
        "ttnn.nlp_create_qkv_heads_decode" => "NLPCreateQKVHeadsDecodeOp",
        "ttnn.permute" => "PermuteOp",
        "ttnn.prepare_conv2d_weights" => "PrepareConv2dWeightsOp",
        "ttnn.repeat" => "RepeatOp",
        "ttnn.reshape" => "ReshapeOp",
        "ttnn.rms_norm" => "RMSNormOp",
        "ttnn.scaled_dot_product_attention_decode" => "ScaledDotProductAttentionDecodeOp",
        "ttnn.softmax" => "SoftmaxOp",
        "ttnn.split" => "SplitOp",
        "ttnn.to_device" => "ToDeviceOp",
        "ttnn.to_layout" => "ToLayoutOp",
        "ttnn.to_memory_config" => "ToMemoryConfigOp",
        "ttnn.typecast" => "TypecastOp",
        "ttnn.update_cache" => "UpdateCacheOp",
        "ttcore.load_cached" => "LoadCachedOp",
        "func.call" => "FuncCallOp",
        other => panic!("no operation type is known for {other}"),
    }
}
