//! Instructions that the processor executes, and which lines that is.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;

/// The address of every instruction that the processor executes, by single-stepping (ptrace(2)).
/// Repetitions of one instruction count once.
pub fn stepped(program: &Path) -> Vec<u64> {
    let path = CString::new(program.as_os_str().as_bytes()).unwrap();
    let arguments = [path.as_ptr(), std::ptr::null()];
    // SAFETY: between fork and exec the child makes system calls only; `arguments` lives.
    let child = unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0);
            libc::execv(path.as_ptr(), arguments.as_ptr());
            libc::_exit(127);
        }
        child
    };
    assert!(child > 0);
    let mut all: Vec<u64> = Vec::new();
    loop {
        let mut status = 0;
        // SAFETY: the child is ours, and the structures live during the calls.
        unsafe {
            assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
            if !libc::WIFSTOPPED(status) {
                return all;
            }
            let mut registers: libc::user_regs_struct = std::mem::zeroed();
            assert_eq!(
                libc::ptrace(libc::PTRACE_GETREGS, child, 0, &raw mut registers),
                0
            );
            if all.last() != Some(&registers.rip) {
                all.push(registers.rip);
            }
            assert_eq!(libc::ptrace(libc::PTRACE_SINGLESTEP, child, 0, 0), 0);
        }
    }
}

/// The source line of each address, by addr2line.
pub fn lines(program: &Path, addresses: &[u64]) -> Vec<u32> {
    let mut distinct: Vec<u64> = addresses.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    let output = Command::new("addr2line")
        .arg("-e")
        .arg(program)
        .args(distinct.iter().map(|address| format!("{address:x}")))
        .output()
        .expect("addr2line runs");
    let text = String::from_utf8(output.stdout).unwrap();
    let found: Vec<u32> = text
        .lines()
        .map(|line| {
            let number = line.rsplit_once(':').expect("file:line").1;
            let digits = number.split(' ').next().unwrap_or_default();
            digits.parse().unwrap_or(0)
        })
        .collect();
    let line = |address| found[distinct.binary_search(address).expect("it is among them")];
    addresses.iter().map(line).collect()
}
