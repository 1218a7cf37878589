//! The program's registers, for addresses that QEMU does not compute: those of prefetches.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr;
use std::sync::OnceLock;

use pagelab_recorder_wire::block::{Prefetch, Segment};
use pagelab_recorder_wire::word::ENTRY_SHIFT;

use crate::qemu;

/// A prefetch, and how QEMU calls the registers of its address.
pub struct Asked {
    prefetch: Prefetch,
    /// `None` if QEMU tells no registers.
    handles: Option<Handles>,
}

struct Handles {
    read: Read,
    segment: Option<Handle>,
    base: Option<Handle>,
    index: Option<Handle>,
}

impl Asked {
    /// Called while a block is translated: QEMU tells its registers where it has a virtual CPU.
    pub fn new(prefetch: Prefetch) -> Asked {
        let handles = Registers::get().and_then(|known| {
            let handle = |number: u8| known.general[usize::from(number)];
            // One that it names and QEMU does not know makes all of them useless.
            let wanted = |number: Option<u8>| number.map_or(Some(None), |n| handle(n).map(Some));
            Some(Handles {
                read: known.read,
                segment: match prefetch.segment {
                    None => None,
                    Some(Segment::Fs) => Some(known.fs?),
                    Some(Segment::Gs) => Some(known.gs?),
                },
                base: wanted(prefetch.base)?,
                index: wanted(prefetch.index)?,
            })
        });
        Asked { prefetch, handles }
    }

    /// The word that reports it: where its address is not to be had, it is nowhere.
    #[inline]
    pub fn word(&self) -> u64 {
        let entry = u64::from(self.prefetch.entry) << ENTRY_SHIFT;
        entry | self.address().unwrap_or(Prefetch::NOWHERE)
    }

    fn address(&self) -> Option<u64> {
        let handles = self.handles.as_ref()?;
        let value = |handle: Option<Handle>| {
            handle.map_or(Some(0), |handle| read_register(handles.read, handle))
        };
        let segment = value(handles.segment)?;
        let (base, index) = (value(handles.base)?, value(handles.index)?);
        Some(self.prefetch.address(segment, base, index))
    }
}

/// Handle of a register: only QEMU knows what that is.
#[derive(Clone, Copy)]
struct Handle(usize);

type Read = unsafe extern "C" fn(*mut c_void, *mut Array) -> c_int;

/// Handles of the registers that addresses are made of, the same for all threads.
struct Registers {
    read: Read,
    general: [Option<Handle>; 16],
    fs: Option<Handle>,
    gs: Option<Handle>,
}

/// By their numbers in instructions.
const NAMES: [&CStr; 16] = [
    c"rax", c"rcx", c"rdx", c"rbx", c"rsp", c"rbp", c"rsi", c"rdi", c"r8", c"r9", c"r10", c"r11",
    c"r12", c"r13", c"r14", c"r15",
];

/// An array of GLib's (`GRealArray` of garray.c, of which `GArray` and `GByteArray` show the beginning).
///
/// QEMU hands registers out in these. GLib may be linked into it, and its functions are then not to be had from
/// outside; so [`Registers::find`] sees by an array that QEMU has made whether they look like this.
#[repr(C)]
struct Array {
    data: *mut u8,
    len: c_uint,
    capacity: c_uint,
    element: c_uint,
    flags: c_uint,
    references: c_int,
    clear: *mut c_void,
}

/// `qemu_plugin_reg_descriptor`, as far as it is the same in all versions.
#[repr(C)]
struct Description {
    handle: *mut c_void,
    name: *const c_char,
    feature: *const c_char,
}

/// Bytes of a description: since QEMU 11 there is a flag behind it.
const DESCRIPTION_BYTES: [usize; 2] = [size_of::<Description>(), size_of::<Description>() + 8];

impl Registers {
    /// `None` if QEMU does not tell: before 9.0, or if it does so in an unknown way.
    fn get() -> Option<&'static Registers> {
        static REGISTERS: OnceLock<Option<Registers>> = OnceLock::new();
        REGISTERS.get_or_init(Registers::find).as_ref()
    }

    fn find() -> Option<Registers> {
        let list = qemu::symbol(c"qemu_plugin_get_registers")?;
        let read = qemu::symbol(c"qemu_plugin_read_register")?;
        // SAFETY: QEMU exports these functions with these signatures since 9.0.
        let (list, read) = unsafe {
            (
                std::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> *const Array>(list),
                std::mem::transmute::<*mut c_void, Read>(read),
            )
        };
        // SAFETY: called on the thread of a virtual CPU, as QEMU demands. The array is ours, and there is one:
        // nobody frees it.
        let array = unsafe { list().as_ref() }?;
        let (bytes, len) = (array.element as usize, array.len as usize);
        let is_known = DESCRIPTION_BYTES.contains(&bytes)
            && (1..=4096).contains(&len)
            && array.capacity as usize >= len
            && array.references == 1
            && array.clear.is_null();
        if !is_known {
            return None;
        }
        let mut registers = Registers {
            read,
            general: [None; 16],
            fs: None,
            gs: None,
        };
        for number in 0..len {
            // SAFETY: the array has `len` elements of `bytes`, which begin as descriptions do.
            let described = unsafe { &*array.data.add(number * bytes).cast::<Description>() };
            if described.name.is_null() {
                continue;
            }
            // SAFETY: QEMU's names end with a zero byte, and stay.
            let name = unsafe { CStr::from_ptr(described.name) };
            let handle = Some(Handle(described.handle.addr()));
            if let Some(general) = NAMES.iter().position(|&known| known == name) {
                registers.general[general] = handle;
            } else if name == c"fs_base" {
                registers.fs = handle;
            } else if name == c"gs_base" {
                registers.gs = handle;
            }
        }
        Some(registers)
    }
}

/// Reads a register of 64 bits of the program that this thread executes.
fn read_register(read: Read, Handle(handle): Handle) -> Option<u64> {
    // More than any register has, so that GLib never moves it.
    let mut bytes = [0u8; 64];
    let mut array = Array {
        data: bytes.as_mut_ptr(),
        len: 0,
        capacity: bytes.len() as c_uint,
        element: 1,
        flags: 0,
        references: 1,
        clear: ptr::null_mut(),
    };
    let handle = ptr::without_provenance_mut(handle);
    // SAFETY: QEMU has given the handle, and appends the register's bytes to an array that looks as its own
    // do; this is a callback that was registered as one that reads registers.
    let read = unsafe { read(handle, &raw mut array) };
    let value = bytes.first_chunk()?;
    (read == 8 && array.len == 8).then(|| u64::from_le_bytes(*value))
}
