//! Attaches a function to the allocator, as C++ would: `allocator->attachAllocatorTraceTracker(function)`.
//!
//! The method is virtual and not exported. Its address is in the symbol table of its library, under a name that
//! contains the types of its parameters.

use std::ffi::{CStr, OsStr, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use object::{Object, ObjectSymbol};

use super::TraceEntry;

/// `std::atomic<CUDAAllocator*> c10::cuda::CUDACachingAllocator::allocator`.
const ALLOCATOR: &CStr = c"_ZN3c104cuda20CUDACachingAllocator9allocatorE";
/// The method since PyTorch 2.11, and before.
const ATTACH: [&str; 2] = [
    "_ZN3c104cuda20CUDACachingAllocator6Native22NativeCachingAllocator27attachAllocatorTraceTrackerESt8functionIFvRKNS_22CachingDeviceAllocator10TraceEntryEEE",
    "_ZN3c104cuda20CUDACachingAllocator6Native22NativeCachingAllocator27attachAllocatorTraceTrackerESt8functionIFvRKNS1_10TraceEntryEEE",
];
const VTABLE: &str = "_ZTVN3c104cuda20CUDACachingAllocator6Native22NativeCachingAllocatorE";
/// The methods of a vtable follow two words about its type.
const BEFORE_METHODS: usize = 2 * size_of::<usize>();

/// The state of a `std::function`, for functions without one.
#[repr(C)]
pub(super) struct AnyData([usize; 2]);

type Invoke = unsafe extern "C" fn(*const AnyData, *const TraceEntry);
type Manage = unsafe extern "C" fn(*mut AnyData, *const AnyData, i32) -> bool;
type Attach = unsafe extern "C" fn(*mut c_void, *mut Function);

/// A `std::function<void(const TraceEntry&)>` of GNU's C++ library.
#[repr(C)]
struct Function {
    data: AnyData,
    manage: Manage,
    invoke: Invoke,
}

/// Copies, destroys and identifies the state, which is empty.
#[allow(unsafe_code)]
unsafe extern "C" fn manage(to: *mut AnyData, _: *const AnyData, _: i32) -> bool {
    if !to.is_null() {
        // SAFETY: `std::function` passes a valid destination.
        unsafe { to.write(AnyData([0; 2])) };
    }
    false
}

/// The loaded library.
struct Library {
    path: PathBuf,
    base: usize,
    /// The address of the variable with the allocator.
    allocator: usize,
}

/// Attaches a function to the allocator of all CUDA devices, which is in `library`.
#[allow(unsafe_code)]
pub(super) fn attach(library: &CStr, invoke: Invoke) -> Result<(), String> {
    let name = library.to_string_lossy();
    let library = loaded(library).ok_or_else(|| format!("{name} is not loaded, or differs"))?;
    let [attach, vtable] = symbols(&library)?;
    // SAFETY: the variable has this type, and its library is never unloaded.
    let allocator = unsafe { &*(library.allocator as *const AtomicPtr<usize>) }.load(Ordering::Acquire);
    if allocator.is_null() {
        return Err("the allocator does not exist yet".to_owned());
    }
    // SAFETY: an object with virtual methods begins with the address of its vtable.
    if unsafe { allocator.read() } != library.base + vtable + BEFORE_METHODS {
        return Err("the program has its own allocator".to_owned());
    }
    let mut function = Function { data: AnyData([0; 2]), manage, invoke };
    // SAFETY: the method of this name takes the object and a `std::function` of this type, which C++ passes by address.
    // It belongs to this library, and the object is of its class.
    unsafe {
        let attach: Attach =
            std::mem::transmute(ptr::with_exposed_provenance::<c_void>(library.base + attach));
        attach(allocator.cast(), &raw mut function);
    }
    Ok(())
}

#[allow(unsafe_code)]
fn loaded(library: &CStr) -> Option<Library> {
    // SAFETY: the names are C strings. `RTLD_NOLOAD` only finds a library that is loaded, and `dladdr` fills in `info`
    // unless it returns 0; its name is a C string that lives as long as the library.
    unsafe {
        let library = libc::dlopen(library.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
        if library.is_null() {
            return None;
        }
        let allocator = libc::dlsym(library, ALLOCATOR.as_ptr());
        let mut info: libc::Dl_info = std::mem::zeroed();
        if allocator.is_null() || libc::dladdr(allocator, &raw mut info) == 0 || info.dli_fname.is_null() {
            return None;
        }
        let path = PathBuf::from(OsStr::from_bytes(CStr::from_ptr(info.dli_fname).to_bytes()));
        Some(Library { path, base: info.dli_fbase.addr(), allocator: allocator.addr() })
    }
}

/// The offsets of the method and of the vtable.
fn symbols(library: &Library) -> Result<[usize; 2], String> {
    let bytes =
        std::fs::read(&library.path).map_err(|error| format!("{}: {error}", library.path.display()))?;
    let file =
        object::File::parse(&*bytes).map_err(|error| format!("{}: {error}", library.path.display()))?;
    let mut found = [None; 2];
    for symbol in file.symbols().filter(ObjectSymbol::is_definition) {
        let Ok(name) = symbol.name() else { continue };
        let address = usize::try_from(symbol.address()).ok();
        if ATTACH.contains(&name) {
            found[0] = address;
        } else if name == VTABLE {
            found[1] = address;
        }
    }
    match found {
        [Some(attach), Some(vtable)] => Ok([attach, vtable]),
        _ => Err(format!("{} has no symbols", library.path.display())),
    }
}
