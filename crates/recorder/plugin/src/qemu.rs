//! QEMU's plugin interface, as far as it is used here: docs/devel/tcg-plugins of QEMU.
//!
//! The functions are looked up in the running QEMU instead of being linked, so that one library
//! serves every version of the interface, and says so when something is missing.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, Ordering};

/// The newest version of the interface that this plugin knows.
pub const NEWEST: i32 = 5;

/// The version this plugin declares: the one that the QEMU it is loaded into speaks.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "the name is QEMU's")]
pub static qemu_plugin_version: AtomicI32 = AtomicI32::new(0);

/// QEMU reads `qemu_plugin_version` as soon as the library is loaded, so it is set before.
#[used]
#[unsafe(link_section = ".init_array")]
static ON_LOAD: extern "C" fn() = declare_version;

extern "C" fn declare_version() {
    qemu_plugin_version.store(spoken(), Ordering::Relaxed);
}

/// The version of the interface that QEMU speaks, by the functions it has. Versions 2 and 3
/// differ only in a function that is not used here, and QEMU accepts 2 for both.
fn spoken() -> i32 {
    let has = |name| symbol(name).is_some();
    if has(c"qemu_plugin_write_memory_vaddr") {
        5
    } else if has(c"qemu_plugin_read_memory_vaddr") {
        4
    } else if has(c"qemu_plugin_num_vcpus") {
        2
    } else {
        1
    }
}

/// True for QEMU up to 8, which announces the first virtual CPU before it loads the program, and
/// calls back once for the load and the store of an atomic instruction.
pub fn is_up_to_8() -> bool {
    qemu_plugin_version.load(Ordering::Relaxed) == 1
}

/// Facts of QEMU when it installs a plugin (`qemu_info_t`).
#[repr(C)]
pub struct Info {
    pub target_name: *const c_char,
    pub oldest_version: c_int,
    pub version: c_int,
    pub system_emulation: bool,
}

#[repr(C)]
pub struct Block {
    _opaque: [u8; 0],
}

#[repr(C)]
pub struct Instruction {
    _opaque: [u8; 0],
}

pub type OnVcpu = extern "C" fn(id: u64, vcpu: c_uint);
pub type OnTranslate = extern "C" fn(id: u64, block: *mut Block);
pub type OnBlock = extern "C" fn(vcpu: c_uint, data: *mut c_void);
pub type OnInstruction = extern "C" fn(vcpu: c_uint, data: *mut c_void);
pub type OnAccess = extern "C" fn(vcpu: c_uint, info: u32, address: u64, data: *mut c_void);
pub type OnSyscall = extern "C" fn(u64, c_uint, i64, u64, u64, u64, u64, u64, u64, u64, u64);
pub type OnSyscallReturn = extern "C" fn(id: u64, vcpu: c_uint, number: i64, result: i64);
pub type OnReset = extern "C" fn(id: u64);

/// Accesses of an instruction that a callback is for (`enum qemu_plugin_mem_rw`).
///
/// QEMU up to 8 gets single directions wrong: it calls a callback for loads at stores instead,
/// and one for stores at both. So only these two are used.
#[derive(Clone, Copy)]
#[repr(C)]
pub enum Direction {
    /// For an instruction that loads from a place and stores to the same: called once.
    Once = 1,
    Both = 3,
}

/// `QEMU_PLUGIN_CB_NO_REGS`: the callback leaves the registers alone.
const NO_REGISTERS: c_int = 0;
/// `QEMU_PLUGIN_CB_R_REGS`: the callback reads them.
const READS_REGISTERS: c_int = 1;

macro_rules! interface {
    ($($name:ident: $symbol:literal fn($($arg:ty),*) $(-> $ret:ty)?;)*) => {
        /// The functions of QEMU that are used here.
        pub struct Interface {
            $($name: unsafe extern "C" fn($($arg),*) $(-> $ret)?,)*
        }

        impl Interface {
            /// Looks all of them up; the first missing one's name otherwise.
            fn load() -> Result<Interface, &'static CStr> {
                Ok(Interface {
                    $($name: {
                        let address = symbol($symbol).ok_or($symbol)?;
                        // SAFETY: QEMU exports this function with this signature in every
                        // version of the interface from 1 to NEWEST.
                        unsafe {
                            std::mem::transmute::<
                                *mut c_void,
                                unsafe extern "C" fn($($arg),*) $(-> $ret)?,
                            >(address)
                        }
                    },)*
                })
            }
        }
    };
}

interface! {
    on_vcpu_init: c"qemu_plugin_register_vcpu_init_cb" fn(u64, OnVcpu);
    on_translate: c"qemu_plugin_register_vcpu_tb_trans_cb" fn(u64, OnTranslate);
    on_syscall: c"qemu_plugin_register_vcpu_syscall_cb" fn(u64, OnSyscall);
    on_syscall_return: c"qemu_plugin_register_vcpu_syscall_ret_cb" fn(u64, OnSyscallReturn);
    on_block: c"qemu_plugin_register_vcpu_tb_exec_cb" fn(*mut Block, OnBlock, c_int, *mut c_void);
    on_instruction: c"qemu_plugin_register_vcpu_insn_exec_cb"
        fn(*mut Instruction, OnInstruction, c_int, *mut c_void);
    on_access: c"qemu_plugin_register_vcpu_mem_cb"
        fn(*mut Instruction, OnAccess, c_int, c_int, *mut c_void);
    instructions: c"qemu_plugin_tb_n_insns" fn(*const Block) -> usize;
    instruction: c"qemu_plugin_tb_get_insn" fn(*const Block, usize) -> *mut Instruction;
    size: c"qemu_plugin_insn_size" fn(*const Instruction) -> usize;
    address: c"qemu_plugin_insn_vaddr" fn(*const Instruction) -> u64;
    host_address: c"qemu_plugin_insn_haddr" fn(*const Instruction) -> *const u8;
    size_shift: c"qemu_plugin_mem_size_shift" fn(u32) -> c_uint;
    is_store: c"qemu_plugin_mem_is_store" fn(u32) -> bool;
    reset: c"qemu_plugin_reset" fn(u64, OnReset);
}

static INTERFACE: OnceLock<Interface> = OnceLock::new();

/// Looks up QEMU's functions; the name of the first missing one otherwise.
pub fn connect() -> Result<(), &'static CStr> {
    let interface = Interface::load()?;
    // Set twice only if QEMU installed the plugin twice; both hold the same functions.
    let _ = INTERFACE.set(interface);
    Ok(())
}

fn interface() -> &'static Interface {
    INTERFACE.get_or_init(|| match Interface::load() {
        Ok(interface) => interface,
        Err(name) => panic!("QEMU lacks {name:?}"),
    })
}

pub(crate) fn symbol(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: `name` ends with a zero byte; RTLD_DEFAULT searches the running program.
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!address.is_null()).then_some(address)
}

/// The callbacks of a plugin.
pub struct Callbacks {
    pub vcpu_init: OnVcpu,
    pub translate: OnTranslate,
    pub syscall: OnSyscall,
    pub syscall_return: OnSyscallReturn,
}

/// Registers the callbacks of plugin `id`.
pub fn register(id: u64, callbacks: &Callbacks) {
    let qemu = interface();
    // SAFETY: `id` is the plugin's; the callbacks have the signatures that QEMU calls them with.
    unsafe {
        (qemu.on_vcpu_init)(id, callbacks.vcpu_init);
        (qemu.on_translate)(id, callbacks.translate);
        (qemu.on_syscall)(id, callbacks.syscall);
        (qemu.on_syscall_return)(id, callbacks.syscall_return);
    }
}

/// Removes every callback and translation of plugin `id`, then calls `then`.
pub fn reset(id: u64, then: OnReset) {
    // SAFETY: `id` is the plugin's; called from a callback, as QEMU demands.
    unsafe { (interface().reset)(id, then) }
}

/// Bits of an access's size (log2) and of whether it is a load in the `info` of its callback: the
/// first ones, found by asking. Load and store are the two bits of `enum qemu_plugin_mem_rw`.
pub fn info_positions() -> Option<(u32, u32)> {
    // SAFETY: any value may be asked about.
    let size_of = |info| unsafe { (interface().size_shift)(info) };
    // SAFETY: as above.
    let is_store = |info| unsafe { (interface().is_store)(info) };
    let size = (0..12).find(|&at| (0..=4).all(|size| size_of(size << at) == size))?;
    let store = (13..32).find(|&at| is_store(1 << at))?;
    Some((size, store - 1))
}

/// A block that is being translated.
#[derive(Clone, Copy)]
pub struct Translation(pub *mut Block);

impl Translation {
    /// Number of instructions.
    pub fn len(self) -> usize {
        // SAFETY: the block is valid during the translation callback, here and below.
        unsafe { (interface().instructions)(self.0) }
    }

    fn instruction(self, index: usize) -> *mut Instruction {
        // SAFETY: see `len`; callers pass an index below it.
        unsafe { (interface().instruction)(self.0, index) }
    }

    /// Address of instruction `index`.
    pub fn address(self, index: usize) -> u64 {
        // SAFETY: see `len`.
        unsafe { (interface().address)(self.instruction(index)) }
    }

    /// Bytes of instruction `index`.
    pub fn size(self, index: usize) -> usize {
        // SAFETY: see `len`.
        unsafe { (interface().size)(self.instruction(index)) }
    }

    /// Address of instruction `index` in QEMU's memory.
    pub fn host_address(self, index: usize) -> *const u8 {
        // SAFETY: see `len`.
        unsafe { (interface().host_address)(self.instruction(index)) }
    }

    /// Calls `callback` whenever the block starts.
    pub fn on_start(self, callback: OnBlock, data: u64) {
        // SAFETY: see `len`; `data` is only handed back.
        unsafe {
            (interface().on_block)(self.0, callback, NO_REGISTERS, data as *mut c_void);
        }
    }

    /// Calls `callback`, which reads registers, before each execution of instruction `index`. `data` stays where
    /// it is.
    pub fn before<T: Sync>(self, index: usize, callback: OnInstruction, data: &'static T) {
        // SAFETY: see `on_start`.
        unsafe {
            (interface().on_instruction)(
                self.instruction(index),
                callback,
                READS_REGISTERS,
                std::ptr::from_ref(data).cast_mut().cast(),
            );
        }
    }

    /// Calls `callback` at each access of instruction `index`.
    pub fn on_access(self, index: usize, direction: Direction, callback: OnAccess, data: u64) {
        // SAFETY: see `on_start`.
        unsafe {
            (interface().on_access)(
                self.instruction(index),
                callback,
                NO_REGISTERS,
                direction as c_int,
                data as *mut c_void,
            );
        }
    }
}
