//! A tensor of an input, as it is shown.

use ttmem_model::{Moment, StepNumber, StrId, TensorId};

use super::TensorSide;
use crate::analyze::diff::Side;

/// The texts of a tensor. They belong to the profile: an unrelated program has 100,000 changes, and most are not shown.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shown<'a> {
    side: Side<'a>,
    id: TensorId,
    pub name: Option<&'a str>,
    pub made_in: Option<&'a str>,
    pub shape: Option<&'a [u64]>,
    pub dtype: Option<&'a str>,
    pub per_bank: Option<u64>,
}

impl<'a> Shown<'a> {
    pub fn of(side: Side<'a>, id: TensorId) -> Option<Self> {
        let (tensors, index) = (&side.rank.tensors, id.index());
        let text = |id: StrId| side.profile.text(id);
        let name = tensors.name.get(index).copied().flatten();
        let name = name.or_else(|| tensors.ssa.get(index).copied().flatten());
        let ty = tensors.ty.get(index)?.and_then(|ty| side.profile.tensor_type(ty));
        let scope = side.rank.made_in(id).and_then(|scope| side.rank.scopes.name.get(scope.index()));
        Some(Self {
            side,
            id,
            name: name.map(text),
            made_in: scope.map(|scope| text(*scope)),
            shape: ty.map(|ty| &*ty.shape),
            dtype: ty.map(|ty| text(ty.layout.as_ref().map_or(ty.dtype, |layout| layout.stored_dtype))),
            per_bank: tensors.per_bank.get(index).and_then(|bytes| bytes.get()),
        })
    }

    /// The operation that allocates it.
    pub fn op(&self) -> Option<&'a str> {
        self.side.profile.made(self.side.rank, self.id).op
    }

    /// The location of that operation.
    pub fn loc(&self) -> Option<&'a str> {
        self.side.profile.made(self.side.rank, self.id).loc
    }

    /// The tensor in a response.
    pub fn tensor(&self) -> TensorSide {
        let (profile, tensors, index) = (self.side.profile, &self.side.rank.tensors, self.id.index());
        let text = |text: Option<&str>| text.map(str::to_owned);
        let ty = tensors.ty.get(index).copied().flatten().and_then(|ty| profile.tensor_type(ty));
        let layout = ty.and_then(|ty| ty.layout.as_ref()).map(|layout| {
            let spread =
                layout.spread.map_or_else(String::new, |spread| format!(", {}", profile.text(spread)));
            format!("{}{spread}", profile.text(layout.buffer))
        });
        let dies = tensors.dies.get(index).copied().filter(|dies| *dies != Moment::NEVER);
        TensorSide {
            name: text(self.name),
            op: text(self.op()),
            loc: text(self.loc()),
            made_in: text(self.made_in),
            shape: self.shape.map(<[u64]>::to_vec),
            dtype: text(self.dtype),
            layout,
            per_bank: self.per_bank,
            born_step: tensors.step.get(index).copied().flatten().map(StepNumber::get),
            freed_before_step: dies.map(Moment::position),
        }
    }
}
