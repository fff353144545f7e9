//! The current Python stack: as a hash, and with names when it is first seen.

use std::ffi::{CStr, c_int};
use std::sync::OnceLock;

use pyo3::ffi;
use pyo3::prelude::*;
use ttmem::history::snapshot::Line;

/// Outer frames beyond this number are skipped.
const MAX_FRAMES: usize = 48;

/// A Python frame.
type Frame = *mut ffi::PyFrameObject;

/// Two functions of Python's C API that are not part of the stable ABI. They are used if available: walking a stack
/// through frame attributes takes several times as long.
struct Functions {
    back: Option<unsafe extern "C" fn(Frame) -> Frame>,
    instruction: Option<unsafe extern "C" fn(Frame) -> c_int>,
}

#[allow(unsafe_code)]
fn functions() -> &'static Functions {
    static FUNCTIONS: OnceLock<Functions> = OnceLock::new();
    FUNCTIONS.get_or_init(|| {
        // SAFETY: the names are C strings, and `dlsym` has no other requirement.
        let find = |name: &CStr| unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
        let (back, instruction) = (find(c"PyFrame_GetBack"), find(c"PyFrame_GetLasti"));
        // SAFETY: Python documents both functions with these types (since 3.9 and 3.11). A missing symbol is null,
        // which is `None`.
        unsafe {
            Functions {
                back: std::mem::transmute::<*mut libc::c_void, Option<unsafe extern "C" fn(Frame) -> Frame>>(
                    back,
                ),
                instruction: std::mem::transmute::<
                    *mut libc::c_void,
                    Option<unsafe extern "C" fn(Frame) -> c_int>,
                >(instruction),
            }
        }
    })
}

/// The innermost Python frame of this thread.
#[allow(unsafe_code)]
fn innermost(py: Python<'_>) -> Option<Bound<'_, PyAny>> {
    // SAFETY: the GIL is held. The result is a borrowed reference, or null if there is no frame.
    unsafe { Bound::from_borrowed_ptr_or_opt(py, ffi::PyEval_GetFrame().cast()) }
}

/// The caller of a frame.
#[allow(unsafe_code)]
fn caller<'py>(frame: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> {
    match functions().back {
        // SAFETY: `frame` is a live frame. The result is a new reference, or null for the outermost frame.
        Some(back) => unsafe { Bound::from_owned_ptr_or_opt(frame.py(), back(frame.as_ptr().cast()).cast()) },
        None => frame.getattr("f_back").ok().filter(|caller| !caller.is_none()),
    }
}

/// The current instruction of a frame.
#[allow(unsafe_code)]
fn instruction(frame: &Bound<'_, PyAny>) -> c_int {
    match functions().instruction {
        // SAFETY: `frame` is a live frame.
        Some(instruction) => unsafe { instruction(frame.as_ptr().cast()) },
        None => frame.getattr("f_lasti").and_then(|number| number.extract()).unwrap_or(-1),
    }
}

/// The address of a frame's code, only for comparison.
#[allow(unsafe_code)]
fn code(frame: &Bound<'_, PyAny>) -> usize {
    // SAFETY: `frame` is a live frame. The code is a new reference, released here; the frame keeps the code alive.
    unsafe {
        let code = ffi::PyFrame_GetCode(frame.as_ptr().cast());
        ffi::Py_DECREF(code.cast());
        code as usize
    }
}

/// A hash of the current stack.
pub(super) fn number_of_lines(py: Python<'_>) -> u64 {
    let mut number = 0_u64;
    let mut next = innermost(py);
    for _ in 0..MAX_FRAMES {
        let Some(frame) = next else { break };
        number = mix(mix(number, code(&frame) as u64), u64::from(instruction(&frame).unsigned_abs()));
        next = caller(&frame);
    }
    number
}

/// The lines of the current stack, innermost first, and their code objects, which must be kept alive so that their
/// addresses stay unique.
pub(super) fn lines(py: Python<'_>) -> PyResult<(Vec<Line>, Vec<Py<PyAny>>)> {
    let (mut lines, mut codes) = (Vec::new(), Vec::new());
    let mut next = innermost(py);
    while let Some(frame) = next.filter(|_| lines.len() < MAX_FRAMES) {
        let code = frame.getattr("f_code")?;
        lines.push(Line {
            function: text(&code.getattr("co_qualname").or_else(|_| code.getattr("co_name"))?)?,
            file: text(&code.getattr("co_filename")?)?,
            number: frame.getattr("f_lineno")?.extract::<Option<u32>>()?.unwrap_or(0),
        });
        codes.push(code.unbind());
        next = caller(&frame);
    }
    Ok((lines, codes))
}

/// Converts to text, lossily: a file name may be invalid Unicode.
fn text(object: &Bound<'_, PyAny>) -> PyResult<String> {
    Ok(object.str()?.to_string_lossy().into_owned())
}

#[inline]
fn mix(number: u64, word: u64) -> u64 {
    (number.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
