use ttmem_model::{Derivation, Origin};

use super::*;
use crate::analyze::weights::{Declared, WEIGHTS, by_size, declared_bytes, kept_twice, total};

const INPUT: ArgumentKind = ArgumentKind::Input;
const PARAMETER: ArgumentKind = ArgumentKind::Parameter;
const CONSTANT: ArgumentKind = ArgumentKind::Constant;

#[test]
fn arguments_shared_by_graphs_count_once() {
    let mut evidence = Evidence::new();
    let [small, large, unknown] =
        [Some(10), Some(70), None].map(|declared| Some(evidence.sized(declared, Some(1), Some(1))));
    evidence.module(&[
        ("%arg0", Some("w"), PARAMETER, small),
        ("%arg1", None, CONSTANT, small),
        ("%arg2", Some("x"), INPUT, small),
    ]);
    evidence.module(&[
        ("%arg0", Some("w"), PARAMETER, small),
        // Arguments with another type, without a name, a type or a size are distinct.
        ("%arg1", Some("w"), PARAMETER, large),
        ("%arg1", None, CONSTANT, small),
        ("%arg2", Some("token"), PARAMETER, None),
        ("%arg3", Some("opaque"), PARAMETER, unknown),
    ]);
    let profile = evidence.finish();
    let declared = |kinds: &[ArgumentKind]| total(&profile, first(&profile), kinds);
    assert_eq!(declared(&WEIGHTS), Some(Declared { count: 6, bytes: 10 + 10 + 70 + 10 }));
    assert_eq!(declared(&[INPUT]), Some(Declared { count: 1, bytes: 10 }));
    assert_eq!(declared(&[ArgumentKind::Default]), Some(Declared::default()));
}

#[test]
fn declared_bytes_are_unknown_without_a_graph() {
    let mut evidence = Evidence::new();
    evidence.module(&[]);
    let profile = evidence.finish();
    assert_eq!(total(&profile, first(&profile), &WEIGHTS), None);
    assert_eq!(by_size(&profile, first(&profile), None).len(), 0);
    assert_eq!(kept_twice(first(&profile), PoolId::new(0).unwrap(), START), None);
}

#[test]
fn a_weight_is_kept_twice_while_it_and_its_result_are_in_the_pool() {
    let mut evidence = Evidence::new();
    let (dram, l1) = (evidence.pool("DRAM"), evidence.pool("L1"));
    evidence.steps(3, "ttnn.add");
    let ty = Some(evidence.sized(Some(30), Some(30), Some(40)));
    let mut add =
        |class, pool, born, dies| evidence.tensor(Tensor { class, ty, ..tensor(pool, 1, born, dies) });
    let weight = add(Class::Weight, dram, START, after(1));
    let input = add(Class::Input, dram, START, NEVER);
    let elsewhere = add(Class::Weight, l1, START, NEVER);
    let results = [(); 2].map(|()| add(Class::Weight, dram, after(0), NEVER));
    for source in [weight, input, elsewhere] {
        for tensor in results {
            evidence.say(RankEvent::Derived(Derivation { tensor, source }));
        }
    }
    let profile = evidence.finish();
    let twice = |at| kept_twice(first(&profile), dram, at).unwrap();
    assert_eq!((twice(before(0)), twice(after(0)), twice(after(1))), (vec![], vec![weight], vec![]));
    assert_eq!(kept_twice(first(&profile), l1, after(0)), Some(vec![]));
    assert_eq!(declared_bytes(&profile, first(&profile), &[weight, input]), 60);
    assert_eq!(declared_bytes(&profile, first(&profile), &[]), 0);
}

#[test]
fn weights_are_listed_by_size() {
    let mut evidence = Evidence::new();
    let dram = evidence.pool("DRAM");
    let [small, large, unknown] =
        [Some(10), Some(70), None].map(|declared| Some(evidence.sized(declared, Some(1), Some(1))));
    let modules = [
        [
            ("%a", Some("opaque"), PARAMETER, unknown),
            ("%b", None, PARAMETER, small),
            ("%c", None, CONSTANT, small),
        ],
        [
            ("%d", Some("w"), PARAMETER, large),
            ("%e", Some("x"), INPUT, large),
            ("%f", Some("v"), PARAMETER, large),
        ],
        [
            ("%g", Some("w"), PARAMETER, large),
            ("%h", Some("u"), PARAMETER, small),
            ("%i", None, CONSTANT, large),
        ],
    ];
    let modules = modules.map(|arguments| evidence.module(&arguments));
    // `%c`, which has no name, and `w` of the last graph.
    let twice = [(modules[0], 2), (modules[2], 0)].map(|(module, argument)| {
        let tensor = evidence.tensor(tensor(dram, 1, START, NEVER));
        evidence.say(RankEvent::Origin(Origin { tensor, module, argument }));
        tensor
    });
    let other = evidence.tensor(tensor(dram, 1, START, NEVER));
    evidence.say(RankEvent::Origin(Origin { tensor: other, module: modules[1], argument: 2 }));
    let profile = evidence.finish();
    let listed = |twice: Option<&[TensorId]>| -> Vec<_> {
        let weights = by_size(&profile, first(&profile), twice);
        weights.iter().map(|weight| (profile.text(weight.argument.ssa), weight.kept_twice)).collect()
    };
    let (yes, no) = (Some(true), Some(false));
    let expected = [("%d", yes), ("%f", no), ("%i", no), ("%b", no), ("%c", yes), ("%h", no), ("%a", no)];
    assert_eq!(listed(Some(&twice)), expected);
    assert_eq!(listed(None), expected.map(|(name, _)| (name, None)));
}
