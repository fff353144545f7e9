//! The origin of a source line: the user's program, an installed package, or PyTorch and Python themselves.
//!
//! Readers use it to choose the location of an operation, and the analysis to choose the line that a report shows.

/// Where a source line comes from. The smaller value is the more interesting one to a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FrameOrigin {
    /// The user's program.
    Program,
    /// An installed package.
    Package,
    /// PyTorch, ttnn, Python, or native code without a source file.
    Runtime,
}

/// Parts of the paths of installed packages.
const PACKAGES: [&str; 2] = ["site-packages/", "dist-packages/"];

/// Parts of the paths of PyTorch, ttnn, Python and pytest.
const RUNTIME: [&str; 12] = [
    "/lib/python",
    "/_pytest/",
    "/pluggy/",
    "/ttnn/ttnn/",
    "ttnn/decorators.py",
    "/torch/",
    "importlib/",
    "/c10/",
    "/aten/src/",
    "-packages/ttnn/",
    "-packages/ttmem/",
    "/ttmem/_",
];

/// The path of a native frame whose source file is unknown.
const NO_SOURCE: [&str; 2] = ["", "??"];

impl FrameOrigin {
    /// The origin of a line, by the path of its file.
    pub fn of(path: &str) -> Self {
        // Code that Python generates or has built in has a name such as `<string>` or `<frozen runpy>`.
        if path.starts_with('<') || NO_SOURCE.contains(&path) {
            return Self::Runtime;
        }
        let package = PACKAGES.iter().find_map(|part| path.rfind(part));
        // A package is usually below `lib/python3.x`, so only the path inside it counts.
        let inside = package.map_or(path, |at| &path[at..]);
        if RUNTIME.iter().any(|part| inside.contains(part)) {
            return Self::Runtime;
        }
        if package.is_some() { Self::Package } else { Self::Program }
    }

    /// Whether the line is not in the user's program.
    pub fn is_library(self) -> bool {
        self != Self::Program
    }
}

/// Whether a file has Python code; C++ frames have other files, or none.
pub fn is_python(path: &str) -> bool {
    std::path::Path::new(path).extension().is_some_and(|end| end == "py") || path.starts_with('<')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_tells_the_origin() {
        for (path, origin) in [
            ("train.py", FrameOrigin::Program),
            ("/home/me/model/attention.py", FrameOrigin::Program),
            (r"C:\work\train.py", FrameOrigin::Program),
            ("/venv/lib/python3.12/site-packages/transformers/modeling.py", FrameOrigin::Package),
            ("/usr/lib/python3/dist-packages/vllm/engine.py", FrameOrigin::Package),
            ("/venv/lib/python3.12/site-packages/torch/nn/modules/linear.py", FrameOrigin::Runtime),
            ("/venv/lib/python3.12/site-packages/ttnn/decorators.py", FrameOrigin::Runtime),
            ("/src/pytorch/torch/nn/functional.py", FrameOrigin::Runtime),
            ("/usr/lib/python3.12/threading.py", FrameOrigin::Runtime),
            ("<frozen runpy>", FrameOrigin::Runtime),
            ("<string>", FrameOrigin::Runtime),
            ("/pytorch/c10/cuda/CUDACachingAllocator.cpp", FrameOrigin::Runtime),
            ("/pytorch/aten/src/ATen/EmptyTensor.cpp", FrameOrigin::Runtime),
            ("??", FrameOrigin::Runtime),
            ("", FrameOrigin::Runtime),
        ] {
            assert_eq!(FrameOrigin::of(path), origin, "{path}");
            assert_eq!(origin.is_library(), origin != FrameOrigin::Program);
        }
    }
}
