//! A language model that decodes: each step is a run of the same graph.

use crate::random::Random;
use crate::tt::dialect::Loc;
use crate::tt::program::{Builder, Graph, GraphBuilder, Role, Value, shape_attribute};
use crate::tt::runtime::{Runtime, Stop};
use crate::tt::tensor::{Cut, DType, Tensor, TensorType};

/// The number of users served at once: one row of tiles.
const USERS: u64 = 32;
/// The heads of the key and value caches.
const KV_HEADS: u64 = 8;
const HEAD: u64 = 64;

/// Determined by the seed.
#[derive(Clone, Debug)]
struct Sizes {
    layers: u64,
    hidden: u64,
    vocabulary: u64,
    context: u64,
    /// The storage type of the caches.
    cache: DType,
    /// The down projections are bf16 arguments and const-evaluated to block floats, so both stay.
    quantized: bool,
    /// The logits are returned as a view.
    view: bool,
}

impl Sizes {
    fn draw(random: &mut Random) -> Self {
        Self {
            layers: random.between(2, 4),
            hidden: random.between(4, 16) * 256,
            vocabulary: random.between(250, 1600) * 32,
            context: random.between(2, 32) * 32,
            cache: random.pick(&[DType::Bf16, DType::BfpBf8]),
            quantized: random.chance(50),
            view: true,
        }
    }

    fn inner(&self) -> u64 {
        self.hidden * 4
    }

    /// A normalized activation, spread over the columns of one row of cores.
    fn normed(&self) -> Tensor {
        TensorType::sharded(&[1, USERS, self.hidden], DType::Bf16, Cut::Block(1, 8))
    }
}

fn activation(width: u64) -> Tensor {
    TensorType::dram(&[1, USERS, width], DType::Bf16)
}

/// Heads, one user per core.
fn sharded_heads(heads: u64) -> Tensor {
    TensorType::sharded(&[1, USERS, heads, HEAD], DType::Bf16, Cut::Height(USERS))
}

/// The arguments of a layer.
struct Layer {
    qkv: Value,
    out: Value,
    up_gate: Value,
    down: Value,
    keys: Value,
    values: Value,
}

pub fn play(runtime: &mut Runtime<'_>, random: &mut Random) -> Result<(), Stop> {
    let sizes = Sizes::draw(random);
    let mut program = runtime.compile(graph(&sizes))?;
    for _ in 0..random.between(2, 3) {
        let outputs = runtime.submit(&mut program)?;
        runtime.release(outputs);
    }
    Ok(())
}

/// Repeats the same step. This does not add to the truth, which stays small.
pub fn play_repeated(runtime: &mut Runtime<'_>, random: &mut Random, ops: u64) -> Result<(), Stop> {
    let sizes = Sizes { layers: 4, view: false, ..Sizes::draw(random) };
    let mut program = runtime.compile(graph(&sizes))?;
    while runtime.ops() < ops {
        let outputs = runtime.submit(&mut program)?;
        runtime.release(outputs);
    }
    Ok(())
}

fn graph(sizes: &Sizes) -> Graph {
    let mut graph = GraphBuilder::new(Builder::new("main"));
    let main = &mut graph.main;
    let table = TensorType::dram(&[sizes.vocabulary, sizes.hidden], DType::Bf16);
    let table = main.argument(Role::Parameter, "model.embed_tokens.weight", &table);
    let mut layers: Vec<Layer> = (0..sizes.layers).map(|layer| layer_arguments(main, layer, sizes)).collect();
    main.argument(Role::Constant, "rope.inv_freq", &TensorType::dram(&[1, USERS], DType::F32));
    let ids = main.argument(Role::Input, "input_ids", &TensorType::dram_rows(&[USERS, 1], DType::Si32));
    let position = TensorType::dram_rows(&[USERS], DType::Si32);
    let position = main.argument(Role::Input, "cache_position", &position);

    main.device();
    if sizes.quantized {
        for (number, layer) in (0..).zip(&mut layers) {
            layer.down = quantize(&mut graph, number, layer.down);
        }
    }
    let main = &mut graph.main;
    let embedded = TensorType::dram(&[USERS, 1, sizes.hidden], DType::Bf16);
    let mut hidden = main.step("ttnn.embedding", &[ids, table]).at(Loc::name("embedding.1")).gives(&embedded);
    for (number, layer) in layers.iter().enumerate() {
        let name = format!("model.layers.{number}");
        hidden = attention(main, &name, hidden, layer, position, sizes);
        hidden = feed_forward(main, &name, hidden, layer, sizes);
    }
    let result = head(main, hidden, table, sizes);
    graph.returns("decode", &[result])
}

fn layer_arguments(main: &mut Builder, layer: u64, sizes: &Sizes) -> Layer {
    let (hidden, inner) = (sizes.hidden, sizes.inner());
    let mut weight = |name: &str, tensor: &Tensor| {
        main.argument(Role::Parameter, format!("model.layers.{layer}.{name}.weight"), tensor)
    };
    let bf16 = |shape: &[u64]| TensorType::dram(shape, DType::Bf16);
    let qkv = weight("self_attn.qkv_proj", &bf16(&[hidden, hidden + 2 * KV_HEADS * HEAD]));
    let out = weight("self_attn.o_proj", &bf16(&[hidden, hidden]));
    // Block floats have both spellings in real logs: as the element type, and only as the storage type.
    let up_gate = weight("mlp.up_gate_proj", &TensorType::dram(&[hidden, inner * 2], DType::BfpBf8));
    let down = bf16(&[inner, hidden]);
    let down = weight("mlp.down_proj", &if sizes.quantized { down } else { down.stored_as(DType::BfpBf8) });
    let cache = bf16(&[USERS, KV_HEADS, sizes.context, HEAD]).stored_as(sizes.cache);
    let keys = main.argument(Role::Input, format!("past_key_values.{layer}.key"), &cache);
    let values = main.argument(Role::Input, format!("past_key_values.{layer}.value"), &cache);
    Layer { qkv, out, up_gate, down, keys, values }
}

/// A block-float weight, const-evaluated from an argument.
fn quantize(graph: &mut GraphBuilder, layer: u64, weight: Value) -> Value {
    let tensor = graph.main.tensor(weight).clone();
    let mut function = graph.const_eval();
    let argument = function.argument(Role::Parameter, "weight", &tensor);
    let result = function
        .step("ttnn.typecast", &[argument])
        .attributes("dtype = #ttcore.supportedDataTypes<bfp_bf8>")
        .at(Loc::derived(&format!("model.layers.{layer}.down"), "typecast"))
        .gives(&TensorType::dram(&tensor.shape, DType::BfpBf8));
    graph.load_cached(function.returns(&[result]), &[weight])[0]
}

fn norm(main: &mut Builder, name: String, value: Value, sizes: &Sizes) -> Value {
    let attributes = "epsilon = 9.99999974E-6 : f32, \
         compute_config = #ttnn.device_compute_kernel_config<math_fidelity = hifi4>";
    main.step("ttnn.rms_norm", &[value]).attributes(attributes).at(Loc::name(name)).gives(&sizes.normed())
}

fn matmul(main: &mut Builder, name: String, operands: [Value; 2], tensor: &Tensor) -> Value {
    let attributes = "compute_config = #ttnn.device_compute_kernel_config<math_fidelity = hifi2>, \
         transpose_a = false, transpose_b = false";
    main.step("ttnn.matmul", &operands).attributes(attributes).at(Loc::name(name)).gives(tensor)
}

fn add(main: &mut Builder, name: String, operands: [Value; 2], sizes: &Sizes) -> Value {
    let sum = main
        .step("ttnn.add", &operands)
        .attributes("dtype = #ttcore.supportedDataTypes<bf16>")
        .at(Loc::name(name))
        .gives(&activation(sizes.hidden));
    for operand in operands {
        main.deallocate(operand);
    }
    sum
}

/// Attention over the caches, which are updated in place.
fn attention(
    main: &mut Builder,
    name: &str,
    hidden: Value,
    layer: &Layer,
    position: Value,
    sizes: &Sizes,
) -> Value {
    let query_heads = sizes.hidden / HEAD;
    let normed = norm(main, format!("{name}.norm"), hidden, sizes);
    let qkv = activation(sizes.hidden + 2 * KV_HEADS * HEAD);
    let qkv = matmul(main, format!("{name}.qkv"), [normed, layer.qkv], &qkv);
    main.deallocate(normed);
    let (query, cached) = (sharded_heads(query_heads), sharded_heads(KV_HEADS));
    let heads = main
        .step("ttnn.nlp_create_qkv_heads_decode", &[qkv])
        .attributes(format!("num_heads = {query_heads} : ui32, num_kv_heads = {KV_HEADS} : ui32"))
        .at(Loc::name(format!("{name}.heads")))
        .gives_all(&[&query, &cached, &cached]);
    main.deallocate(qkv);
    for (cache, new) in [(layer.keys, heads[1]), (layer.values, heads[2])] {
        main.step("ttnn.update_cache", &[cache, new, position])
            .attributes("batch_offset = 0 : i32")
            .at(Loc::call(Loc::name(format!("{name}.cache")), Loc::file("/m/cache.py", 88, 9)))
            .in_place();
        main.deallocate(new);
    }
    let attended = main
        .step("ttnn.scaled_dot_product_attention_decode", &[heads[0], layer.keys, layer.values, position])
        .attributes("is_causal = true, scale = 1.250000e-01 : f32")
        .at(Loc::name(format!("{name}.attn")))
        .gives(&TensorType::dram(&[1, USERS, query_heads, HEAD], DType::Bf16));
    main.deallocate(heads[0]);
    let joined = main
        .step("ttnn.reshape", &[attended])
        .attributes(shape_attribute(&[1, USERS, sizes.hidden]))
        .at(Loc::derived(&format!("{name}.attn"), "concat"))
        .gives(&activation(sizes.hidden));
    main.deallocate(attended);
    let out = matmul(main, format!("{name}.o"), [joined, layer.out], &activation(sizes.hidden));
    main.deallocate(joined);
    add(main, format!("{name}.add"), [hidden, out], sizes)
}

/// The gated feed-forward step; a single product is split into the gate and the rest.
fn feed_forward(main: &mut Builder, name: &str, hidden: Value, layer: &Layer, sizes: &Sizes) -> Value {
    let normed = norm(main, format!("{name}.post_norm"), hidden, sizes);
    let wide =
        matmul(main, format!("{name}.up_gate"), [normed, layer.up_gate], &activation(sizes.inner() * 2));
    main.deallocate(normed);
    let inner = activation(sizes.inner());
    let halves = main
        .step("ttnn.split", &[wide])
        .attributes("dim = 2 : i32")
        .at(Loc::name(format!("{name}.split")))
        .gives_all(&[&inner, &inner]);
    main.deallocate(wide);
    let gated = main
        .step("ttnn.multiply", &halves)
        .at(Loc::Fused(vec![Loc::name(format!("{name}.silu")), Loc::name(format!("{name}.glu"))]))
        .gives(&TensorType::l1(&[1, USERS, sizes.inner()], DType::Bf16));
    for half in halves {
        main.deallocate(half);
    }
    let product = matmul(main, format!("{name}.down"), [gated, layer.down], &activation(sizes.hidden));
    main.deallocate(gated);
    if sizes.quantized {
        main.deallocate(layer.down);
    }
    add(main, format!("{name}.post_add"), [hidden, product], sizes)
}

fn head(main: &mut Builder, hidden: Value, table: Value, sizes: &Sizes) -> Value {
    let logits = matmul(main, "lm_head".to_owned(), [hidden, table], &activation(sizes.vocabulary));
    main.deallocate(hidden);
    let flat = TensorType::host_tiles(&[USERS, sizes.vocabulary], DType::Bf16);
    if !sizes.view {
        let result = main.step("ttnn.from_device", &[logits]).at(Loc::name("logits")).gives(&flat);
        main.deallocate(logits);
        return result;
    }
    let view = main
        .step("ttnn.reshape", &[logits])
        .attributes(shape_attribute(&[USERS, sizes.vocabulary]))
        .at(Loc::name("logits.squeeze"))
        .gives_view(&TensorType::dram(&[USERS, sizes.vocabulary], DType::Bf16));
    main.deallocate(logits);
    let result = main.step("ttnn.from_device", &[view]).at(Loc::name("logits")).gives(&flat);
    main.deallocate(view);
    result
}
