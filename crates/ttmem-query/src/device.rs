//! The kind of device that a rank ran on. Front ends choose their wording and sections by it.

use serde::Serialize;
use ttmem_model::{Pool, Profile, Rank, StrId, TypeId};

/// A kind of device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum DeviceKind {
    /// A Tenstorrent device: memory in banks, tensors in tiles, compiled graphs.
    Tenstorrent,
    /// A device that PyTorch allocates on (CPU and GPU): no banks, no tiles, no compiled graphs.
    Torch,
}

/// The PyTorch device types that pools are named after, and `host`, the process's memory as counted by the system.
const TORCH: [&str; 8] = ["cpu", "cuda", "hip", "xpu", "mps", "hpu", "npu", "host"];

impl DeviceKind {
    /// The device of a rank; `None` if the input only has device totals and does not say of what device.
    pub fn of(profile: &Profile, rank: &Rank) -> Option<Self> {
        // Only errors of PyTorch's devices have a ledger.
        if !rank.ledgers.is_empty() {
            return Some(Self::Torch);
        }
        let has_graphs = !rank.runs.is_empty() || !rank.modules.is_empty();
        let has_layout = |ty: &Option<TypeId>| {
            ty.and_then(|ty| profile.tensor_type(ty)).is_some_and(|ty| ty.layout.is_some())
        };
        let has_tiles = rank.tensors.ty.iter().any(has_layout);
        let is_of_torch = |name: StrId| device_of_session(profile.text(name)).is_some();
        let is_torch_log =
            rank.pools.is_empty() && rank.sessions.iter().filter_map(|session| session.name).any(is_of_torch);
        if is_torch_log {
            return Some(Self::Torch);
        }
        // Formats with operations but no pools are Tenstorrent's; a recording without pools can be of any device.
        let has_pools = !rank.pools.is_empty() || rank.began.is_some();
        if has_graphs || has_tiles || !has_pools || rank.pools.iter().any(is_in_banks) {
            return Some(Self::Tenstorrent);
        }
        rank.pools.iter().any(|pool| is_torch(profile.text(pool.name))).then_some(Self::Torch)
    }
}

/// The PyTorch device of a session, which is the last part of its name.
pub(crate) fn device_of_session(name: &str) -> Option<&str> {
    name.rsplit(", ").next().filter(|device| is_torch(device))
}

/// Whether a pool's sizes are per bank or per core.
fn is_in_banks(pool: &Pool) -> bool {
    pool.banks != Some(1)
}

/// Whether a pool is named after a PyTorch device.
pub(crate) fn is_torch(pool: &str) -> bool {
    pool.split([':', ' ']).next().is_some_and(|kind| TORCH.contains(&kind))
}

#[cfg(test)]
mod tests {
    use ttmem_model::{
        Argument, ArgumentKind, Builder, ByteRange, Bytes, Class, Event, Layout, ModuleId, Moment, PoolId,
        RankEvent, RankId, Run, Sink, Tensor, TensorType,
    };

    use super::*;

    const TENSTORRENT: Option<DeviceKind> = Some(DeviceKind::Tenstorrent);
    const TORCH: Option<DeviceKind> = Some(DeviceKind::Torch);

    /// Names and banks.
    type Pools<'a> = &'a [(&'a str, Option<u32>)];

    fn id<T>(id: Option<T>) -> T {
        id.unwrap_or_else(|| panic!("a small number is an id"))
    }

    /// The device of a rank with these pools and further events.
    fn device(pools: Pools<'_>, further: Vec<Event<'_>>) -> Option<DeviceKind> {
        let of_rank = |event| Event::Of(id(RankId::new(0)), event);
        let mut events = vec![Event::Rank { label: None }, Event::Text("text".into())];
        for (index, (name, banks)) in pools.iter().enumerate() {
            events.push(Event::Text((*name).into()));
            let name = id(StrId::new(index + 1));
            events.push(of_rank(RankEvent::Pool { name, banks: *banks, quantum: 0 }));
        }
        events.extend(further);
        let mut sink = Builder::new();
        for event in events {
            assert!(sink.take(event).is_ok());
        }
        let profile = sink.finish();
        DeviceKind::of(&profile, &profile.ranks[0])
    }

    fn say(events: impl IntoIterator<Item = RankEvent>) -> Vec<Event<'static>> {
        events.into_iter().map(|event| Event::Of(id(RankId::new(0)), event)).collect()
    }

    fn argument(kind: ArgumentKind) -> Vec<Event<'static>> {
        let argument = Argument { ssa: id(StrId::new(0)), name: None, kind, ty: None };
        let module = id(ModuleId::new(0));
        say([RankEvent::Module { name: None }, RankEvent::Argument(module, argument)])
    }

    fn tensor_in_tiles() -> Vec<Event<'static>> {
        let text = id(StrId::new(0));
        let layout = Layout {
            buffer: text,
            spread: None,
            stored_dtype: text,
            tile: Some((32, 32)),
            grid: vec![],
            shard: vec![],
            padded_shape: vec![32, 32],
        };
        let ty = TensorType {
            text: None,
            shape: vec![32, 32],
            dtype: text,
            layout: Some(layout),
            declared: Bytes::known(2048),
            logical: Bytes::known(2048),
            padded: Bytes::known(2048),
        };
        let tensor = Tensor {
            ty: TypeId::new(0),
            pool: id(PoolId::new(0)),
            per_bank: Bytes::known(2048),
            born: Moment::START,
            dies: Moment::NEVER,
            class: Class::Unknown,
            run: None,
            ssa: None,
            step: None,
            name: None,
        };
        [vec![Event::Type(ty)], say([RankEvent::Tensor(tensor)])].concat()
    }

    /// The pools of a PyTorch program. Each row of the next test adds one sign of a Tenstorrent device.
    const POOLS: [(&str, Option<u32>); 2] = [("cpu", Some(1)), ("host", Some(1))];

    #[test]
    fn a_program_that_was_not_compiled_runs_on_pytorch() {
        assert_eq!(device(&POOLS, vec![]), TORCH);
        for pool in ["cpu", "cuda:0", "xpu:1", "mps", "hpu", "npu", "host", "cuda:0 private"] {
            assert_eq!(device(&[(pool, Some(1))], vec![]), TORCH, "{pool}");
        }
    }

    #[test]
    fn one_sign_of_a_device_or_of_a_compiler_is_enough() {
        let run = Run {
            program: id(StrId::new(0)),
            parent: None,
            module: None,
            const_eval: false,
            first: 0,
            end: 0,
            finished: false,
            source: ByteRange::default(),
        };
        let signs: [(&str, Pools<'_>, Vec<Event<'_>>); 8] = [
            ("a run", &POOLS, say([RankEvent::Run(run)])),
            ("a weight of a graph", &POOLS, argument(ArgumentKind::Parameter)),
            ("an input of a graph", &POOLS, argument(ArgumentKind::Input)),
            ("tiles", &POOLS, tensor_in_tiles()),
            ("an unknown number of banks", &[("DRAM", Some(1)), ("L1", None)], vec![]),
            ("banks", &[("DRAM", Some(12))], vec![]),
            ("banks beside the host", &[("cpu", Some(1)), ("DRAM", Some(12))], vec![]),
            ("no pools", &[], vec![]),
        ];
        for (sign, pools, further) in signs {
            assert_eq!(device(pools, further), TENSTORRENT, "{sign}");
        }
    }

    #[test]
    fn device_totals_do_not_identify_the_device() {
        assert_eq!(device(&[("DRAM", Some(1))], vec![]), None);
        assert_eq!(device(&[("cudalike", Some(1))], vec![]), None);
        // A recording has pools as soon as something is allocated.
        assert_eq!(device(&[], say([RankEvent::Began(1)])), None);
    }
}
