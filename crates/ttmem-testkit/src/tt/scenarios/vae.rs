//! An image decoder: convolutions and group norms over growing images, with weights on the host.

use crate::random::Random;
use crate::tt::dialect::Loc;
use crate::tt::program::{Builder, Function, Graph, GraphBuilder, Role, Value, shape_attribute};
use crate::tt::runtime::{Runtime, Stop};
use crate::tt::tensor::{DType, Tensor, TensorType};

/// Determined by the seed.
struct Sizes {
    dtype: DType,
    channels: u64,
    /// The rows and columns of the input image.
    latent: u64,
    blocks: u64,
}

impl Sizes {
    /// The number of pixels in a block; every block but the last doubles both sides.
    fn pixels(&self, block: u64) -> u64 {
        let side = self.latent << block.min(self.blocks - 1);
        side * side
    }

    /// The rows and columns of the output image.
    fn side(&self) -> u64 {
        self.latent << (self.blocks - 1)
    }

    /// The image in the layout of convolutions.
    fn flat(&self, block: u64) -> Tensor {
        TensorType::dram(&[1, 1, self.pixels(block), self.channels], self.dtype)
    }

    /// The image in groups of channels, which pads the channels of a group to a tile.
    fn grouped(&self, block: u64) -> Tensor {
        TensorType::dram(&[1, 32, self.channels / 32, self.pixels(block)], self.dtype)
    }
}

/// The weights of one block.
struct Block {
    convolution: Value,
    scale: Value,
    shift: Value,
}

pub fn play(runtime: &mut Runtime<'_>, random: &mut Random) -> Result<(), Stop> {
    let sizes = Sizes {
        dtype: random.pick(&[DType::F32, DType::Bf16]),
        channels: random.between(2, 16) * 32,
        latent: random.between(3, 8) * 8,
        blocks: random.between(2, 4),
    };
    let mut program = runtime.compile(graph(&sizes))?;
    for _ in 0..2 {
        let outputs = runtime.submit(&mut program)?;
        runtime.release(outputs);
        let side = sizes.side();
        runtime.python(&format!("Got output shape: torch.Size([1, 3, {side}, {side}])"))?;
    }
    Ok(())
}

fn graph(sizes: &Sizes) -> Graph {
    let mut graph = GraphBuilder::new(Builder::new("main"));
    let bias = weight(&mut graph.main, "conv_in_bias", &[sizes.channels], sizes);
    let blocks: Vec<Block> =
        (0..sizes.blocks).map(|block| Block::new(&mut graph.main, block, sizes)).collect();
    let latent = TensorType::dram(&[1, 4, sizes.latent, sizes.latent], sizes.dtype);
    let input = graph.main.argument(Role::Input, "args_0", &latent);

    graph.main.device();
    let loaded: Vec<Block> =
        (0..).zip(blocks).map(|(number, block)| block.load(&mut graph, number, sizes)).collect();
    let main = &mut graph.main;
    let attributes = format!(
        "in_channels = 4 : i32, out_channels = {} : i32, \
         conv2d_config = #ttnn.conv2d_config<weights_dtype = {}, deallocate_activation = true>",
        sizes.channels,
        sizes.dtype.name()
    );
    let mut image = main
        .step("ttnn.conv2d", &[input, bias])
        .attributes(attributes)
        .at(Loc::name("convolution.in"))
        .gives(&sizes.flat(0));
    for (number, block) in (0..).zip(loaded) {
        image = normalize(main, number, image, &block, sizes);
        image = attend(main, number, image);
    }
    let rgb = TensorType::host(&[1, 3, sizes.side(), sizes.side()], sizes.dtype);
    let output = main.step("ttnn.from_device", &[image]).at(Loc::name("output.0")).gives(&rgb);
    main.deallocate(image);
    graph.returns("SyncTensorsGraph.1", &[output])
}

fn weight(main: &mut Builder, name: &str, shape: &[u64], sizes: &Sizes) -> Value {
    main.argument(Role::Parameter, format!("l__self___{name}"), &TensorType::host(shape, sizes.dtype))
}

impl Block {
    /// The weights as arguments, on the host.
    fn new(main: &mut Builder, number: u64, sizes: &Sizes) -> Self {
        let channels = sizes.channels;
        Self {
            convolution: weight(
                main,
                &format!("up_{number}_conv_weight"),
                &[channels, channels, 3, 3],
                sizes,
            ),
            scale: weight(main, &format!("up_{number}_norm_weight"), &[channels], sizes),
            shift: weight(main, &format!("up_{number}_norm_bias"), &[channels], sizes),
        }
    }

    /// The weights as used: const-evaluated, those of the norm by one function.
    fn load(self, graph: &mut GraphBuilder, number: u64, sizes: &Sizes) -> Self {
        let prepared =
            prepare_convolution(graph.const_eval(), number, graph.main.tensor(self.convolution), sizes);
        let convolution = graph.load_cached(prepared, &[self.convolution])[0];
        let spread = spread_norm(graph.const_eval(), number, graph.main.tensor(self.scale), sizes);
        let norm = graph.load_cached(spread, &[self.scale, self.shift]);
        Self { convolution, scale: norm[0], shift: norm[1] }
    }
}

fn prepare_convolution(mut function: Builder, block: u64, weight: &Tensor, sizes: &Sizes) -> Function {
    let argument = function.argument(Role::Parameter, "weight", weight);
    let device = function.device();
    let rows = TensorType::dram_rows(&weight.shape, sizes.dtype);
    let moved = function
        .step("ttnn.to_device", &[argument, device])
        .attributes("memory_config = #ttnn.memory_config<#ttnn.buffer_type<dram>, <interleaved>>")
        .at(Loc::name(format!("reshape.{block}")))
        .gives(&rows);
    let prepared = TensorType::dram(&[1, 1, sizes.channels * 9, sizes.channels], sizes.dtype);
    let result = function
        .step("ttnn.prepare_conv2d_weights", &[moved, device])
        .attributes("weights_format = \"OIHW\", kernel_size = array<i32: 3, 3>")
        .at(Loc::derived(&format!("convolution.{block}"), "prep"))
        .gives(&prepared);
    function.deallocate(moved);
    function.returns(&[result])
}

/// A scale and a shift for every pixel, as the compiler generates them if it does not broadcast.
fn spread_norm(mut function: Builder, block: u64, weight: &Tensor, sizes: &Sizes) -> Function {
    let arguments = [0, 1].map(|index| function.argument(Role::Parameter, format!("norm.{index}"), weight));
    let device = function.device();
    let column = TensorType::dram(&[1, 32, sizes.channels / 32, 1], sizes.dtype);
    let mut results = Vec::new();
    for (index, argument) in arguments.into_iter().enumerate() {
        let moved = function
            .step("ttnn.to_device", &[argument, device])
            .at(Loc::name(format!("broadcast.{block}{index}")))
            .gives(&column);
        let fused = ["multiply", "add"].map(|op| Loc::name(format!("{op}.{block}{index}")));
        let spread = function
            .step("ttnn.repeat", &[moved])
            .attributes(format!("repeat_dims = #ttnn.shape<1x1x1x{}>", sizes.pixels(block)))
            .at(Loc::Fused(fused.to_vec()))
            .gives(&sizes.grouped(block));
        function.deallocate(moved);
        results.push(spread);
    }
    function.returns(&results)
}

/// Group norm, activation and convolution.
fn normalize(main: &mut Builder, block: u64, image: Value, weights: &Block, sizes: &Sizes) -> Value {
    let grouped = sizes.grouped(block);
    let dtype = format!("dtype = #ttcore.supportedDataTypes<{}>", sizes.dtype.name());
    let norm = if block == 2 {
        Loc::file(format!("/decoder/up_blocks/{block}/norm"), 12, 5)
    } else {
        Loc::name(format!("norm.{block}"))
    };
    let groups = main
        .step("ttnn.reshape", &[image])
        .attributes(shape_attribute(&grouped.shape))
        .at(norm)
        .gives(&grouped);
    main.deallocate(image);
    let mean = main
        .step("ttnn.mean", &[groups])
        .attributes(
            "compute_config = #ttnn.device_compute_kernel_config<math_fidelity = hifi4, \
             fp32_dest_acc_en = true>, dim_arg = [2 : i32, 3 : i32], keep_dim = true",
        )
        .at(Loc::derived(&format!("reduce.{block}"), "mean"))
        .gives(&TensorType::dram(&[1, 32, 1, 1], sizes.dtype));
    let mut value = groups;
    let steps = [("ttnn.subtract", mean), ("ttnn.multiply", weights.scale), ("ttnn.add", weights.shift)];
    for (name, operand) in steps {
        let loc = Loc::name(format!("{}.{block}", name.trim_start_matches("ttnn.")));
        let next = main.step(name, &[value, operand]).attributes(&*dtype).at(loc).gives(&grouped);
        main.deallocate(value);
        main.deallocate(operand);
        value = next;
    }
    let active = main.step("ttnn.silu", &[value]).at(Loc::name(format!("multiply.{block}"))).gives(&grouped);
    main.deallocate(value);
    let caller = Loc::file("/m/vae.py", 100 + block, 12);
    let next = main
        .step("ttnn.conv2d", &[active, weights.convolution])
        .attributes(format!("in_channels = {} : i32, groups = 1 : i32", sizes.channels))
        .at(Loc::call(Loc::name(format!("convolution.{block}")), caller))
        .gives(&sizes.flat(block + 1));
    main.deallocate(active);
    main.deallocate(weights.convolution);
    next
}

/// A step on a view: freeing the first of the two names frees no memory.
fn attend(main: &mut Builder, block: u64, image: Value) -> Value {
    let flat = main.tensor(image).clone();
    let squeezed = flat.shaped(&flat.shape[1..]);
    let view = main
        .step("ttnn.reshape", &[image])
        .attributes(shape_attribute(&squeezed.shape))
        .at(Loc::name(format!("squeeze.{block}")))
        .gives_view(&squeezed);
    if block.is_multiple_of(2) {
        main.deallocate(image);
    }
    let next = main
        .step("ttnn.softmax", &[view])
        .attributes("dimension = 2 : si32, numericStable = true")
        .at(Loc::name(format!("attention.{block}")))
        .gives(&flat);
    main.deallocate(view);
    if !block.is_multiple_of(2) {
        main.deallocate(image);
    }
    next
}
