//! The QEMU plugin: reports what a program does to memory into rings that the recorder reads.
//!
//! Everything here runs inside QEMU's process, on the threads of the recorded program. The
//! callbacks of [`events`] are hot: a few instructions each. What happens seldom (system calls,
//! forks, new threads) is in [`process`] and [`syscalls`].

mod again;
mod allocation;
mod capabilities;
mod descriptors;
mod events;
mod exec;
mod faults;
mod futex;
mod guest;
mod left_out;
mod maps;
mod memory;
mod presence;
mod process;
mod qemu;
mod registers;
mod ring;
mod syscalls;
mod threads;
mod translate;
mod unwind;
mod window;

use std::ffi::{CStr, c_char, c_int, c_uint};

use pagelab_recorder_wire::region;

/// Called by QEMU when it loads the plugin.
///
/// # Safety
/// QEMU passes a valid description of itself and `count` texts.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qemu_plugin_install(
    id: u64,
    info: *const qemu::Info,
    count: c_int,
    texts: *const *const c_char,
) -> c_int {
    // SAFETY: as the caller promises.
    let (info, texts) = unsafe {
        let texts = (0..count as usize)
            .map(|index| CStr::from_ptr(*texts.add(index)).to_string_lossy())
            .collect::<Vec<_>>();
        (&*info, texts)
    };
    match install(id, info, &texts) {
        Ok(()) => 0,
        Err(message) => {
            eprintln!("pagelab-plugin: {message}");
            1
        }
    }
}

/// The arguments are those of [`pagelab_recorder_wire::option::recording`]; or `ask=1`, to be told
/// which interface QEMU speaks.
fn install(id: u64, info: &qemu::Info, texts: &[impl AsRef<str>]) -> Result<(), String> {
    let argument = |name: &str| {
        texts
            .iter()
            .find_map(|text| text.as_ref().strip_prefix(name)?.strip_prefix('='))
            .ok_or_else(|| format!("missing argument {name}="))
    };
    if argument("ask").is_ok() {
        return Err(format!(
            "interface {} to {}, knows 1 to {}",
            info.oldest_version,
            info.version,
            qemu::NEWEST
        ));
    }
    if info.version > qemu::NEWEST || info.system_emulation {
        return Err(format!(
            "QEMU's plugin interface {} is not supported",
            info.version
        ));
    }
    qemu::connect().map_err(|name| format!("QEMU lacks {}", name.to_string_lossy()))?;
    let (size, load) = qemu::info_positions().ok_or("QEMU describes accesses in an unknown way")?;
    events::set_info_positions(size, load);
    let index = argument("ring")?
        .parse::<usize>()
        .ok()
        .filter(|&index| index < region::RINGS)
        .ok_or("ring= is not a ring's number")?;
    let memory = argument("memory")?;
    let descriptor = |name: &str| argument(name).ok()?.parse().ok();
    let handed = descriptor("descriptor");
    if let Some(program) = descriptor("opened") {
        // QEMU opens it by its path; what the program starts has not had it either.
        descriptors::close_by_execve(program, true);
    }
    memory::map(memory, handed).map_err(|error| format!("cannot map {memory}: {error}"))?;
    let cpu = argument("cpu").unwrap_or_default();
    let again = again::Again::new(argument("plugin")?, memory, argument("program")?, cpu);
    process::set_up(id, index, again);
    process::set_name(argument("name").unwrap_or_default());
    window::set_up(register);
    presence::set_up();
    maps::on_install();
    register(id);
    Ok(())
}

/// Registers all callbacks.
fn register(id: u64) {
    qemu::register(
        id,
        &qemu::Callbacks {
            vcpu_init: on_vcpu_init,
            translate: translate::on_translate,
            syscall: syscalls::on_syscall,
            syscall_return: syscalls::on_return,
        },
    );
}

extern "C" fn on_vcpu_init(_id: u64, _vcpu: c_uint) {
    maps::on_vcpu();
}
