//! The spelling of types, layouts and locations in each era of the compiler.
//!
//! Everything is written in the current spelling and converted to an older one at the end ([`Dialect::of_era`]),
//! because most changes are names.

use std::fmt::{self, Write};

use super::chip::Chip;
use super::tensor::{Cut, Place, TensorType};

/// A change of the layout's spelling; each one keeps the earlier ones, unless stated otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum LayoutEra {
    /// November 2024: the dialect is called `tt`, so `!tt.tile`.
    First,
    /// March 2025: `mesh = <"…">` before the memref.
    Mesh,
    /// June 2025: a bare `true` at the end, which is `ignorePhysicalLayout`; no mesh.
    BareFlag,
    /// June 2025: `tt` becomes `ttcore`.
    Ttcore,
    /// November 2025: the flags at the end have keywords, including `exactGrid`.
    #[default]
    Keywords,
    /// May 2026: grids have no affine maps, and `core_ranges` replaces `exactGrid`.
    CoreRanges,
}

impl LayoutEra {
    /// In chronological order.
    pub const ALL: [Self; 6] =
        [Self::First, Self::Mesh, Self::BareFlag, Self::Ttcore, Self::Keywords, Self::CoreRanges];
}

/// A source location.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Loc {
    Unknown,
    Name(String),
    /// A name derived from another location.
    Derived(String, Box<Loc>),
    File {
        path: String,
        line: u64,
        column: u64,
    },
    /// The callee and the call site.
    Call(Box<Loc>, Box<Loc>),
    Fused(Vec<Loc>),
}

impl Loc {
    pub fn name(name: impl Into<String>) -> Self {
        Self::Name(name.into())
    }

    /// A location that a compiler pass derived from `name` by adding a suffix.
    pub fn derived(name: &str, suffix: &str) -> Self {
        Self::Derived(format!("{name}_{suffix}"), Box::new(Self::name(name)))
    }

    pub fn file(path: impl Into<String>, line: u64, column: u64) -> Self {
        Self::File { path: path.into(), line, column }
    }

    pub fn call(called: Self, from: Self) -> Self {
        Self::Call(Box::new(called), Box::new(from))
    }

    /// Writes this location, and nested ones with `child`.
    pub fn write(
        &self,
        out: &mut dyn Write,
        child: &mut dyn FnMut(&mut dyn Write, &Self) -> fmt::Result,
    ) -> fmt::Result {
        match self {
            Self::Unknown => out.write_str("unknown"),
            Self::Name(name) => write_quoted(out, name),
            Self::Derived(name, from) => {
                write_quoted(out, name)?;
                out.write_char('(')?;
                child(out, from)?;
                out.write_char(')')
            }
            Self::File { path, line, column } => {
                write_quoted(out, path)?;
                write!(out, ":{line}:{column}")
            }
            Self::Call(called, from) => {
                out.write_str("callsite(")?;
                child(out, called)?;
                out.write_str(" at ")?;
                child(out, from)?;
                out.write_char(')')
            }
            Self::Fused(parts) => {
                out.write_str("fused[")?;
                for (index, part) in parts.iter().enumerate() {
                    out.write_str(if index == 0 { "" } else { ", " })?;
                    child(out, part)?;
                }
                out.write_char(']')
            }
        }
    }
}

/// The location without aliases, as in the runtime log.
impl fmt::Display for Loc {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(out, &mut |out, child| write!(out, "{child}"))
    }
}

/// A string as MLIR quotes it: characters that could end it early are hexadecimal.
fn write_quoted(out: &mut dyn Write, text: &str) -> fmt::Result {
    out.write_char('"')?;
    for piece in text.split_inclusive(['"', '\n']) {
        if let Some(head) = piece.strip_suffix('"') {
            write!(out, "{head}\\22")?;
        } else if let Some(head) = piece.strip_suffix('\n') {
            write!(out, "{head}\\0A")?;
        } else {
            out.write_str(piece)?;
        }
    }
    out.write_char('"')
}

/// The spelling of one compiler for one chip.
#[derive(Clone, Copy, Debug)]
pub struct Dialect {
    pub era: LayoutEra,
    pub chip: Chip,
}

impl Dialect {
    /// The type of the value that `ttnn.get_device` returns.
    pub fn device_type(self) -> String {
        if self.era >= LayoutEra::Ttcore {
            return "!ttnn.device".to_owned();
        }
        let (rows, columns) = self.chip.cores();
        format!(
            "!ttcore.device<<workerGrid = #ttcore.grid<{rows}x{columns}, (d0, d1) -> (0, d0, d1)>, \
             l1Map = (d0, d1)[s0, s1] -> (0, d0 floordiv s0, d1 floordiv s1, (d0 mod s0) * s1 + d1 mod s1), \
             dramMap = (d0, d1)[s0, s1] -> (0, 0, (d0 * s1 + d1) floordiv 4096, (d0 * s1 + d1) mod 4096), \
             meshShape = , chipIds = [0]>>"
        )
    }

    /// Converts text from the current spelling to this era's.
    pub fn of_era(self, text: String) -> String {
        if self.era >= LayoutEra::Ttcore { text } else { text.replace("ttcore.", "tt.") }
    }

    /// Writes the encoding of a tensor type: `#ttnn.ttnn_layout<…>`.
    pub fn write_layout(self, out: &mut String, tensor: &TensorType) -> fmt::Result {
        out.push_str("#ttnn.ttnn_layout<");
        write_affine(out, tensor)?;
        out.push_str(", ");
        self.write_grid(out, tensor)?;
        out.push_str(", ");
        if self.era == LayoutEra::Mesh {
            out.push_str("mesh = <\"mesh\">, ");
        }
        let (rows, columns) = tensor.shard(self.chip);
        write!(out, "memref<{rows}x{columns}x")?;
        if tensor.tiled {
            write!(out, "!ttcore.tile<32x32, {}>", tensor.storage.name())?;
        } else {
            out.push_str(tensor.storage.scalar().unwrap_or("f32"));
        }
        let (buffer, layout) = match tensor.place {
            Place::Host => ("system_memory", None),
            Place::Dram => ("dram", Some("interleaved")),
            Place::L1 => ("l1", Some("interleaved")),
            Place::L1Sharded(cut) => ("l1", Some(cut.name())),
        };
        write!(out, ", #ttnn.buffer_type<{buffer}>>")?;
        if let Some(layout) = layout {
            write!(out, ", <{layout}>")?;
        }
        self.write_flags(out, tensor.place)?;
        out.push('>');
        Ok(())
    }

    /// `<8x8>`: the cores that hold the tensor, with the affine map from a long row of shards to the chip's rows that
    /// compilers before 2026 wrote.
    fn write_grid(self, out: &mut String, tensor: &TensorType) -> fmt::Result {
        let (rows, columns) = match tensor.place {
            Place::Host | Place::Dram => (1, 1),
            Place::L1 => self.chip.cores(),
            Place::L1Sharded(cut) => cut.grid(),
        };
        write!(out, "<{rows}x{columns}")?;
        let across = self.chip.cores().1;
        if self.era < LayoutEra::CoreRanges {
            match tensor.place {
                Place::L1Sharded(Cut::Height(shards)) if shards > across => {
                    write!(out, ", (d0, d1) -> (0, d0 floordiv {across}, d0 mod {across})")?;
                }
                Place::L1Sharded(Cut::Width(shards)) if shards > across => {
                    write!(out, ", (d0, d1) -> (0, d1 floordiv {across}, d1 mod {across})")?;
                }
                _ => {}
            }
        }
        out.push('>');
        Ok(())
    }

    /// The part after the memory layout, which differs most between the eras.
    fn write_flags(self, out: &mut String, place: Place) -> fmt::Result {
        match (self.era, place) {
            (_, Place::Host | Place::Dram) | (LayoutEra::First | LayoutEra::Mesh, _) => Ok(()),
            (LayoutEra::BareFlag | LayoutEra::Ttcore, _) => out.write_str(", true"),
            (LayoutEra::Keywords, Place::L1Sharded(_)) => out.write_str(", exactGrid = true"),
            (LayoutEra::Keywords | LayoutEra::CoreRanges, Place::L1) => {
                out.write_str(", ignorePhysicalLayout = true")
            }
            (LayoutEra::CoreRanges, Place::L1Sharded(cut)) => self.write_core_ranges(out, cut),
        }
    }

    /// The cores of a sharded tensor as rectangles: whole rows of the chip, then the rest of a row.
    fn write_core_ranges(self, out: &mut String, cut: Cut) -> fmt::Result {
        let across = self.chip.cores().1;
        let (full_rows, width, rest) = match cut {
            Cut::Block(rows, columns) => (rows, columns, 0),
            Cut::Height(shards) | Cut::Width(shards) => (shards / across, across, shards % across),
        };
        out.push_str(", core_ranges = <[");
        if full_rows > 0 {
            write!(out, "#ttnn.core_range<(0,0), ({},{})>", width - 1, full_rows - 1)?;
        }
        if rest > 0 {
            out.push_str(if full_rows > 0 { ", " } else { "" });
            write!(out, "#ttnn.core_range<(0,{full_rows}), ({},{full_rows})>", rest - 1)?;
        }
        out.push_str("]>");
        Ok(())
    }
}

/// `(d0, d1, d2) -> (d0 * 64 + d1, d2)`: how the dimensions fold into rows and columns.
fn write_affine(out: &mut String, tensor: &TensorType) -> fmt::Result {
    let rank = tensor.shape.len();
    out.push('(');
    for dimension in 0..rank {
        write!(out, "{}d{dimension}", if dimension == 0 { "" } else { ", " })?;
    }
    out.push_str(") -> (");
    if rank == 1 {
        out.push('0');
    }
    // The stride of a dimension is the padded row count of everything to its right, except the columns.
    let mut stride: u64 =
        tensor.shape.iter().skip(1).take(rank.saturating_sub(3)).product::<u64>() * tensor.matrix().0;
    for dimension in 0..rank.saturating_sub(1) {
        out.push_str(if dimension == 0 { "" } else { " + " });
        if dimension + 2 == rank {
            write!(out, "d{dimension}")?;
        } else {
            write!(out, "d{dimension} * {stride}")?;
            stride /= if dimension + 3 == rank { 1 } else { tensor.shape[dimension + 1] };
        }
    }
    write!(out, ", d{})", rank - 1)
}

#[cfg(test)]
mod tests {
    use super::{Dialect, LayoutEra, Loc};
    use crate::tt::chip::Chip;
    use crate::tt::tensor::{Cut, DType, Place, TensorType};

    fn layout(era: LayoutEra, tensor: &TensorType) -> String {
        let dialect = Dialect { era, chip: Chip::Wormhole };
        let mut text = String::new();
        dialect.write_layout(&mut text, tensor).unwrap();
        dialect.of_era(text)
    }

    #[test]
    fn dimensions_fold_into_rows_with_their_padding() {
        let folded = |shape: &[u64]| {
            let text = layout(LayoutEra::Keywords, &TensorType::dram(shape, DType::F32));
            text.split(", <1x1>").next().unwrap().trim_start_matches("#ttnn.ttnn_layout<").to_owned()
        };
        assert_eq!(folded(&[512]), "(d0) -> (0, d0)");
        assert_eq!(folded(&[64, 64]), "(d0, d1) -> (d0, d1)");
        assert_eq!(folded(&[32, 1, 2048]), "(d0, d1, d2) -> (d0 * 32 + d1, d2)");
        assert_eq!(folded(&[1, 32, 16, 4096]), "(d0, d1, d2, d3) -> (d0 * 1024 + d1 * 32 + d2, d3)");
        assert_eq!(
            folded(&[2, 3, 5, 32, 64]),
            "(d0, d1, d2, d3, d4) -> (d0 * 480 + d1 * 160 + d2 * 32 + d3, d4)"
        );
    }

    #[test]
    fn every_era_has_its_own_spelling() {
        let block = TensorType::sharded(&[256, 256], DType::Bf16, Cut::Block(8, 8));
        let core = |tile, flags| {
            format!(
                "#ttnn.ttnn_layout<(d0, d1) -> (d0, d1), <8x8>, {tile}.tile<32x32, bf16>, \
                 #ttnn.buffer_type<l1>>, <block_sharded>{flags}>"
            )
        };
        assert_eq!(layout(LayoutEra::First, &block), core("memref<1x1x!tt", ""));
        assert_eq!(layout(LayoutEra::Mesh, &block), core("mesh = <\"mesh\">, memref<1x1x!tt", ""));
        assert_eq!(layout(LayoutEra::BareFlag, &block), core("memref<1x1x!tt", ", true"));
        assert_eq!(layout(LayoutEra::Ttcore, &block), core("memref<1x1x!ttcore", ", true"));
        assert_eq!(layout(LayoutEra::Keywords, &block), core("memref<1x1x!ttcore", ", exactGrid = true"));
        let ranges = ", core_ranges = <[#ttnn.core_range<(0,0), (7,7)>]>";
        assert_eq!(layout(LayoutEra::CoreRanges, &block), core("memref<1x1x!ttcore", ranges));
    }

    #[test]
    fn long_rows_of_shards_wrap_on_the_chip() {
        let tall = TensorType::sharded(&[20 * 32, 32], DType::Bf16, Cut::Height(20));
        let map = "<20x1, (d0, d1) -> (0, d0 floordiv 8, d0 mod 8)>";
        assert!(layout(LayoutEra::Keywords, &tall).contains(map));
        let ranges = "<[#ttnn.core_range<(0,0), (7,1)>, #ttnn.core_range<(0,2), (3,2)>]>>";
        assert!(layout(LayoutEra::CoreRanges, &tall).ends_with(ranges));
    }

    #[test]
    fn the_host_has_no_memory_layout() {
        let host = TensorType::host(&[512], DType::F32);
        assert_eq!(host.place, Place::Host);
        assert!(
            layout(LayoutEra::Keywords, &host)
                .ends_with("<1x1>, memref<1x512xf32, #ttnn.buffer_type<system_memory>>>")
        );
    }

    #[test]
    fn locations_nest_and_quote() {
        let fused = Loc::Fused(vec![Loc::derived("a\"b", "pool"), Loc::file("/m/x.py", 3, 4)]);
        assert_eq!(fused.to_string(), r#"fused["a\22b_pool"("a\22b"), "/m/x.py":3:4]"#);
        assert_eq!(Loc::call(Loc::name("f"), Loc::Unknown).to_string(), r#"callsite("f" at unknown)"#);
    }
}
