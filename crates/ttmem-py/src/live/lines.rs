//! Where a program is: the lines of the Python frames that run, as one number; and their names, the first time.

use std::ffi::{CStr, c_int};
use std::sync::OnceLock;

use pyo3::ffi;
use pyo3::prelude::*;
use ttmem::history::snapshot::Line;

/// Lines further out than this are left away.
const DEEPEST: usize = 48;

/// A frame of Python.
type Frame = *mut ffi::PyFrameObject;

/// Two functions of Python that are public, but not of its stable interface. They are used where they are: through the
/// attributes of frames, looking at a stack takes several times as long.
struct Functions {
    back: Option<unsafe extern "C" fn(Frame) -> Frame>,
    instruction: Option<unsafe extern "C" fn(Frame) -> c_int>,
}

#[allow(unsafe_code)]
fn functions() -> &'static Functions {
    static FUNCTIONS: OnceLock<Functions> = OnceLock::new();
    FUNCTIONS.get_or_init(|| {
        // SAFETY: the names are C strings, and looking a symbol up has no other condition.
        let find = |name: &CStr| unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
        let (back, instruction) = (find(c"PyFrame_GetBack"), find(c"PyFrame_GetLasti"));
        // SAFETY: Python documents both functions with these types (since 3.9 and 3.11), and an address that was not
        // found is null, which is `None`.
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

/// The frame that runs in this thread, if Python runs in it.
#[allow(unsafe_code)]
fn innermost(py: Python<'_>) -> Option<Bound<'_, PyAny>> {
    // SAFETY: the lock is held. What is returned is lent, and null where there is none.
    unsafe { Bound::from_borrowed_ptr_or_opt(py, ffi::PyEval_GetFrame().cast()) }
}

/// The frame that called another.
#[allow(unsafe_code)]
fn caller<'py>(frame: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> {
    match functions().back {
        // SAFETY: `frame` is a frame, and is held; what is returned is ours, and null for the outermost.
        Some(back) => unsafe { Bound::from_owned_ptr_or_opt(frame.py(), back(frame.as_ptr().cast()).cast()) },
        None => frame.getattr("f_back").ok().filter(|caller| !caller.is_none()),
    }
}

/// Where in its code a frame is.
#[allow(unsafe_code)]
fn instruction(frame: &Bound<'_, PyAny>) -> c_int {
    match functions().instruction {
        // SAFETY: `frame` is a frame, and is held.
        Some(instruction) => unsafe { instruction(frame.as_ptr().cast()) },
        None => frame.getattr("f_lasti").and_then(|number| number.extract()).unwrap_or(-1),
    }
}

/// The address of a frame's code. Nothing is done with it but comparing.
#[allow(unsafe_code)]
fn code(frame: &Bound<'_, PyAny>) -> usize {
    // SAFETY: `frame` is a frame, and is held; the code that is returned is ours to give back, and is held by the frame.
    unsafe {
        let code = ffi::PyFrame_GetCode(frame.as_ptr().cast());
        ffi::Py_DECREF(code.cast());
        code as usize
    }
}

/// A number for the lines that run now: the same for the same lines, and another for others.
pub(super) fn number_of_lines(py: Python<'_>) -> u64 {
    let mut number = 0_u64;
    let mut next = innermost(py);
    for _ in 0..DEEPEST {
        let Some(frame) = next else { break };
        number = mix(mix(number, code(&frame) as u64), u64::from(instruction(&frame).unsigned_abs()));
        next = caller(&frame);
    }
    number
}

/// The lines that run now, innermost first, and their code: held, its address stays its own.
pub(super) fn lines(py: Python<'_>) -> PyResult<(Vec<Line>, Vec<Py<PyAny>>)> {
    let (mut lines, mut codes) = (Vec::new(), Vec::new());
    let mut next = innermost(py);
    while let Some(frame) = next.filter(|_| lines.len() < DEEPEST) {
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

/// A text as far as it is one: the name of a file need not be.
fn text(object: &Bound<'_, PyAny>) -> PyResult<String> {
    Ok(object.str()?.to_string_lossy().into_owned())
}

#[inline]
fn mix(number: u64, word: u64) -> u64 {
    (number.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
