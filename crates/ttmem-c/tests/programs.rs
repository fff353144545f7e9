//! Programs in C and C++, built in every way that is promised: they print what the example in Rust prints, and misuse is
//! an error.

// The helpers of tests are tests; clippy's allowance does not see that.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::SystemTime;

use tempfile::TempDir;

const STRICT: [&str; 4] = ["-Wall", "-Wextra", "-Werror", "-pedantic"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The folder of the libraries. `cargo test` doesn't build them, since no test of Rust links them; `make unit` does, and so
/// does the command in the message. A library that is older than its sources is refused.
fn libraries() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        // `target/debug`, of `target/debug/deps/programs-…`.
        let folder = std::env::current_exe().unwrap().ancestors().nth(2).unwrap().to_owned();
        let newest = ["ttmem-c", "ttmem-model", "ttmem-read", "ttmem-record"]
            .map(|name| newest_in(&root().join("crates").join(name).join("src")))
            .into_iter()
            .max()
            .unwrap();
        for name in ["libttmem.a", "libttmem.so"] {
            let built = std::fs::metadata(folder.join(name)).and_then(|file| file.modified()).ok();
            assert!(
                built.is_some_and(|built| built >= newest),
                "{name} is missing in {} or older than its sources: run 'cargo build --workspace --all-targets' first",
                folder.display()
            );
        }
        folder
    })
}

/// When a file in a folder, or in one inside it, was last changed.
fn newest_in(folder: &Path) -> SystemTime {
    let entries = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
    let times = entries.map(|entry| {
        let file = entry.metadata().unwrap();
        if file.is_dir() { newest_in(&entry.path()) } else { file.modified().unwrap() }
    });
    times.max().unwrap_or(SystemTime::UNIX_EPOCH)
}

fn expected() -> String {
    std::fs::read_to_string(root().join("examples/expected.txt")).unwrap()
}

/// Runs a command; what it prints.
#[track_caller]
fn run(command: &mut Command) -> String {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().unwrap_or_else(|error| {
        panic!("{name}: {error}; 'make native-tools' installs gcc, g++ and cmake with apt-get")
    });
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?} has failed:\n{out}{err}");
    out.into_owned()
}

#[derive(Clone, Copy)]
enum Link {
    Static,
    Shared,
}

/// Compiles a program of one file and links it with the library.
#[track_caller]
fn build(folder: &TempDir, source: &str, link: Link, flags: &[&str]) -> PathBuf {
    let program = folder.path().join("program");
    let is_cpp = Path::new(source).extension().is_some_and(|extension| extension == "cpp");
    let (compiler, standard) = if is_cpp { ("g++", "-std=c++17") } else { ("gcc", "-std=c11") };
    let mut command = Command::new(compiler);
    command.arg(standard).args(STRICT).args(flags).arg("-I").arg(root().join("include"));
    command.arg(root().join(source)).arg("-o").arg(&program);
    let libraries = libraries();
    match link {
        Link::Static => command.arg(libraries.join("libttmem.a")).args(["-lpthread", "-ldl", "-lm"]),
        Link::Shared => command
            .arg(format!("-L{}", libraries.display()))
            .args(["-lttmem", "-lpthread"])
            .arg(format!("-Wl,-rpath,{}", libraries.display())),
    };
    run(&mut command);
    program
}

#[test]
fn the_example_in_cpp_prints_what_the_one_in_rust_prints() {
    let folder = tempfile::tempdir().unwrap();
    for link in [Link::Static, Link::Shared] {
        let program = build(&folder, "examples/cpp/main.cpp", link, &[]);
        assert_eq!(run(&mut Command::new(&program)), expected());
    }
}

#[test]
fn the_example_in_c_prints_what_the_one_in_rust_prints() {
    let folder = tempfile::tempdir().unwrap();
    for link in [Link::Static, Link::Shared] {
        let program = build(&folder, "examples/c/main.c", link, &[]);
        assert_eq!(run(&mut Command::new(&program)), expected());
    }
}

#[test]
fn the_recordings_of_c_and_cpp_are_whole() {
    let folder = tempfile::tempdir().unwrap();
    for source in ["examples/c/main.c", "examples/cpp/main.cpp"] {
        let path = folder.path().join("train.ttmem");
        let program = build(&folder, source, Link::Static, &[]);
        run(Command::new(program).arg(&path));
        let profile = ttmem_read::open(path.to_str().unwrap()).unwrap();
        assert!(profile.complete && profile.warnings.is_empty(), "{source}: {:?}", profile.warnings);
        assert_eq!(profile.ranks[0].phases.len(), 7);
        assert_eq!(profile.ranks[0].steps.len(), 95);
    }
}

#[test]
fn the_examples_build_with_cmake() {
    let folder = tempfile::tempdir().unwrap();
    let build = folder.path().join("build");
    let libraries = format!("-DTTMEM_LIBRARY_DIR={}", libraries().display());
    let flags = format!("-DCMAKE_CXX_FLAGS={}", STRICT.join(" "));
    let source = root().join("examples/cpp");
    run(Command::new("cmake").arg("-S").arg(source).arg("-B").arg(&build).args([&libraries, &flags]));
    run(Command::new("cmake").arg("--build").arg(&build));
    for program in ["train", "train_shared", "train_c"] {
        assert_eq!(run(&mut Command::new(build.join(program))), expected(), "{program}");
    }
}

#[test]
fn the_programs_of_the_page_print_what_it_says() {
    let page = std::fs::read_to_string(root().join("docs/tracker.md")).unwrap();
    let block = |fence: &str, begins: &str| {
        let start = page.find(&format!("```{fence}\n{begins}")).unwrap() + fence.len() + 4;
        page[start..].split_once("```\n").unwrap().0.to_owned()
    };
    let printed = block("text", "=== Memory");
    let folder = tempfile::tempdir().unwrap();
    for fence in ["c", "cpp"] {
        let source = folder.path().join(format!("page.{fence}"));
        std::fs::write(&source, block(fence, "#include")).unwrap();
        let program = build(&folder, source.to_str().unwrap(), Link::Static, &[]);
        assert_eq!(run(&mut Command::new(program)), printed, "{fence}");
    }
}

/// What finds reads of freed memory and leaks, where the compiler has it.
fn sanitizer(folder: &TempDir) -> &'static [&'static str] {
    let probe = folder.path().join("probe.c");
    std::fs::write(&probe, "int main(void) { return 0; }").unwrap();
    let mut command = Command::new("gcc");
    command.arg("-fsanitize=address").arg(&probe).arg("-o").arg(folder.path().join("probe"));
    let is_there = command.status().is_ok_and(|status| status.success());
    if is_there { &["-fsanitize=address", "-g"] } else { &[] }
}

#[test]
fn misuse_from_c_is_an_error_and_nothing_leaks() {
    let folder = tempfile::tempdir().unwrap();
    let flags = sanitizer(&folder);
    let program = build(&folder, "crates/ttmem-c/tests/misuse.c", Link::Static, flags);
    let path = folder.path().join("misused.ttmem");
    assert_eq!(run(Command::new(program).arg(&path)), "as it should be\n");
    let profile = ttmem_read::open(path.to_str().unwrap()).unwrap();
    assert!(profile.complete && profile.ranks[0].sessions[0].estimated);
    let program = build(&folder, "examples/c/main.c", Link::Static, flags);
    assert_eq!(run(Command::new(program).arg(&path)), expected());
}

#[test]
fn guards_and_exceptions_of_cpp() {
    let folder = tempfile::tempdir().unwrap();
    let flags = sanitizer(&folder);
    let program = build(&folder, "crates/ttmem-c/tests/guard.cpp", Link::Static, flags);
    assert_eq!(run(&mut Command::new(program)), "as it should be\n");
}

#[test]
fn a_child_after_fork_leaves_the_recording_to_its_parent() {
    let folder = tempfile::tempdir().unwrap();
    let program = build(&folder, "crates/ttmem-c/tests/fork.c", Link::Static, &[]);
    let [parent, child] = ["parent.ttmem", "child.ttmem"].map(|name| folder.path().join(name));
    run(Command::new(program).arg(&parent).arg(&child));
    for (path, names) in [(parent, vec!["BEFORE", "AFTER"]), (child, vec!["ITS OWN"])] {
        let profile = ttmem_read::open(path.to_str().unwrap()).unwrap();
        assert!(profile.complete && profile.warnings.is_empty(), "{:?}", profile.warnings);
        let phases = profile.ranks[0].phases.iter();
        assert_eq!(phases.map(|phase| profile.strings.get(phase.name)).collect::<Vec<_>>(), names);
    }
}
