//! Two graphs of one model, both named `@main`, as after a graph break.

use crate::random::Random;
use crate::tt::dialect::Loc;
use crate::tt::program::{Builder, Graph, GraphBuilder, Role};
use crate::tt::runtime::{Runtime, Stop};
use crate::tt::tensor::{DType, TensorType};

pub fn play(runtime: &mut Runtime<'_>, random: &mut Random) -> Result<(), Stop> {
    let hidden = random.pick(&[512, 1024, 2048]);
    let layers = random.between(2, 4);
    let prompt = random.between(4, 32) * 32;
    let mut prefill = runtime.compile(graph("prefill", prompt, hidden, layers))?;
    let outputs = runtime.submit(&mut prefill)?;
    runtime.release(outputs);
    let mut decode = runtime.compile(graph("decode", 1, hidden, layers))?;
    for _ in 0..random.between(2, 3) {
        for _ in 0..random.between(1, 3) {
            let outputs = runtime.submit(&mut decode)?;
            runtime.release(outputs);
        }
        let outputs = runtime.submit(&mut prefill)?;
        runtime.release(outputs);
    }
    Ok(())
}

fn graph(name: &str, tokens: u64, hidden: u64, layers: u64) -> Graph {
    let mut graph = GraphBuilder::new(Builder::new("main"));
    let main = &mut graph.main;
    let table = TensorType::dram(&[4096, hidden], DType::Bf16);
    let table = main.argument(Role::Parameter, format!("{name}.embed.weight"), &table);
    let square = TensorType::dram(&[hidden, hidden], DType::Bf16);
    let weights: Vec<_> = (0..layers)
        .map(|layer| {
            ["wa", "wb"].map(|weight| {
                main.argument(Role::Parameter, format!("{name}.layer{layer}.{weight}"), &square)
            })
        })
        .collect();
    let ids = main.argument(Role::Input, "ids", &TensorType::dram_rows(&[1, tokens], DType::Si32));

    let activation = TensorType::dram(&[1, tokens, hidden], DType::Bf16);
    let mut value = main
        .step("ttnn.embedding", &[ids, table])
        .at(Loc::name(format!("{name}.embedding")))
        .gives(&activation);
    for (layer, [wide, back]) in weights.into_iter().enumerate() {
        let loc = |step: &str| Loc::name(format!("{name}.layer{layer}.{step}"));
        let inner = main.step("ttnn.matmul", &[value, wide]).at(loc("a")).gives(&activation);
        let outer = main.step("ttnn.matmul", &[inner, back]).at(loc("b")).gives(&activation);
        main.deallocate(inner);
        let sum = main.step("ttnn.add", &[value, outer]).at(loc("add")).gives(&activation);
        main.deallocate(outer);
        main.deallocate(value);
        value = sum;
    }
    let host = TensorType::host_tiles(&activation.shape, DType::Bf16);
    let output = main.step("ttnn.from_device", &[value]).at(Loc::name(format!("{name}.out"))).gives(&host);
    main.deallocate(value);
    graph.returns(name, &[output])
}
