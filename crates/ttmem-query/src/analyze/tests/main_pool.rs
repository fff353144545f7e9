use super::*;
use crate::analyze::main_pool::main_pool;

/// The main pool of a rank, given the name and peak of each pool and whether it has tensors.
fn main_of(pools: &[(&str, Option<u64>, bool)]) -> Option<usize> {
    let mut evidence = Evidence::new();
    for (name, _, has_tensor) in pools {
        let pool = evidence.pool(name);
        if *has_tensor {
            evidence.tensor(tensor(pool, 1, START, NEVER));
        }
    }
    let profile = evidence.finish();
    main_pool(&profile, first(&profile), |pool| pools[pool.index()].1).map(PoolId::index)
}

#[test]
fn dram_is_the_main_pool_however_little_it_holds() {
    assert_eq!(main_of(&[("L1", Some(9), true), ("DRAM", None, false)]), Some(1));
}

#[test]
fn without_dram_it_is_the_highest_pool_with_tensors() {
    assert_eq!(
        main_of(&[("cuda:0", Some(5), true), ("cuda:1", Some(9), true), ("x", Some(99), false)]),
        Some(1)
    );
    assert_eq!(main_of(&[("cuda:0", Some(9), true), ("cuda:1", Some(9), true)]), Some(0));
    assert_eq!(main_of(&[("cuda:0", None, true), ("cuda:1", Some(0), true)]), Some(1));
}

#[test]
fn without_tensors_it_is_an_accelerator_that_was_used() {
    assert_eq!(
        main_of(&[("cpu", Some(99), false), ("cuda:0", Some(5), false), ("cuda:1", Some(7), false)]),
        Some(2)
    );
    // The host, if no accelerator was used.
    assert_eq!(
        main_of(&[("cuda:0", Some(0), false), ("cuda:1", None, false), ("host", Some(9), false)]),
        Some(2)
    );
    // Without a host, pools are not known to be devices.
    assert_eq!(main_of(&[("A", Some(1), false), ("B", Some(9), false)]), Some(0));
    assert_eq!(main_of(&[]), None);
}
