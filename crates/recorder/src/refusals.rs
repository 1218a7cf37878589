//! System calls that the emulator refuses and a kernel would not, or grants and answers otherwise.

use std::collections::BTreeMap;

use syscalls::Sysno;

use crate::controls::Returned;

/// Calls that were refused or answered otherwise, as one name, with one answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The call: `io_uring_setup`; of prctl with what it was to do, `prctl(PR_SET_MM)`.
    pub call: String,
    /// The name of the error; of a call that was granted, what became of it.
    pub error: &'static str,
    /// Number of times.
    pub times: u64,
}

/// Answer to a vfork that the emulator took for a fork.
pub(crate) const AS_FORK: &str = "as fork";
/// Answer about a limit that the emulator doesn't keep.
const NO_LIMIT: &str = "without effect";
/// Answer about pages that the program wanted from hugetlbfs.
const ORDINARY: &str = "recorded as ordinary memory";

/// Refusals seen so far, with their answers.
#[derive(Debug, Default)]
pub(crate) struct Refusals(BTreeMap<(String, &'static str), u64>);

const MMAP: u64 = Sysno::mmap as u64;
const CLONE: u64 = Sysno::clone as u64;
const VFORK: u64 = Sysno::vfork as u64;
const PRCTL: u64 = Sysno::prctl as u64;
const SETRLIMIT: u64 = Sysno::setrlimit as u64;
const PRLIMIT64: u64 = Sysno::prlimit64 as u64;

/// Numbers that have names and that no kernel of x86-64 has, or none since years: ENOSYS is what a program
/// gets anywhere (`__x64_sys_ni_syscall`, kernel/sys_ni.c).
const NOWHERE: [Sysno; 17] = [
    Sysno::uselib,
    Sysno::_sysctl,
    Sysno::create_module,
    Sysno::get_kernel_syms,
    Sysno::query_module,
    Sysno::nfsservctl,
    Sysno::getpmsg,
    Sysno::putpmsg,
    Sysno::afs_syscall,
    Sysno::tuxcall,
    Sysno::security,
    Sysno::set_thread_area,
    Sysno::get_thread_area,
    Sysno::lookup_dcookie,
    Sysno::epoll_ctl_old,
    Sysno::epoll_wait_old,
    Sysno::vserver,
];

/// Requests of prctl that QEMU does not let a program make (do_prctl() in linux-user/syscall.c) though a kernel may
/// know them: include/uapi/linux/prctl.h.
const NO_PRCTL: [(i32, &str); 16] = [
    (21, "PR_GET_SECCOMP"),
    (22, "PR_SET_SECCOMP"),
    (25, "PR_GET_TSC"),
    (26, "PR_SET_TSC"),
    (35, "PR_SET_MM"),
    (41, "PR_SET_THP_DISABLE"),
    (42, "PR_GET_THP_DISABLE"),
    (59, "PR_SET_SYSCALL_USER_DISPATCH"),
    (62, "PR_SCHED_CORE"),
    (65, "PR_SET_MDWE"),
    (66, "PR_GET_MDWE"),
    (67, "PR_SET_MEMORY_MERGE"),
    (68, "PR_GET_MEMORY_MERGE"),
    (71, "PR_SET_SHADOW_STACK_STATUS"),
    (0x5356_4d41, "PR_SET_VMA"),
    (0x5961_6d61, "PR_SET_PTRACER"),
];

impl Refusals {
    /// A call of which nothing is known but its number has failed so.
    pub(crate) fn refused(&mut self, number: u64, error: i32) {
        if let Some(call) = known(number) {
            self.add(call.name(), name(error));
        }
    }

    /// A call has returned.
    pub(crate) fn returned(&mut self, call: &Returned) {
        if !call.failed() {
            return self.granted(call);
        }
        let error = -(call.result as i64) as i32;
        match (error, call.number) {
            (libc::ENOSYS, number) => self.refused(number, error),
            // Threads and forks fail otherwise: it asks for a namespace.
            (libc::EINVAL, CLONE) => self.refused(CLONE, error),
            (libc::EINVAL, PRCTL) => {
                let option = call.arguments[0] as i32;
                if let Some((_, name)) = NO_PRCTL.iter().find(|known| known.0 == option) {
                    self.add(&format!("prctl({name})"), "EINVAL");
                }
            }
            _ => {}
        }
    }

    /// A call has succeeded.
    fn granted(&mut self, call: &Returned) {
        let [a1, a2, _, a4, ..] = call.arguments;
        let has = |flags: u64, flag: i32| flags & flag as u64 != 0;
        match call.number {
            MMAP if has(a4, libc::MAP_HUGETLB) && has(a4, libc::MAP_ANONYMOUS) => {
                self.add("mmap(MAP_HUGETLB)", ORDINARY);
            }
            VFORK => self.add("vfork", AS_FORK),
            CLONE if has(a1, libc::CLONE_VFORK) => self.add("clone(CLONE_VFORK)", AS_FORK),
            SETRLIMIT if call.fact != 0 => self.no_limit("setrlimit", a1),
            PRLIMIT64 if call.fact != 0 => self.no_limit("prlimit64", a2),
            _ => {}
        }
    }

    fn no_limit(&mut self, call: &str, resource: u64) {
        let resource = match resource as u32 {
            libc::RLIMIT_AS => "RLIMIT_AS",
            libc::RLIMIT_DATA => "RLIMIT_DATA",
            _ => "RLIMIT_STACK",
        };
        self.add(&format!("{call}({resource})"), NO_LIMIT);
    }

    fn add(&mut self, call: &str, answer: &'static str) {
        *self.0.entry((call.to_owned(), answer)).or_default() += 1;
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<Refused> {
        let refused = self.0.iter().map(|((call, error), &times)| Refused {
            call: call.clone(),
            error,
            times,
        });
        refused.collect()
    }
}

fn name(error: i32) -> &'static str {
    if error == libc::ENOSYS {
        "ENOSYS"
    } else {
        "EINVAL"
    }
}

/// The call of this number, if a kernel may have it.
fn known(number: u64) -> Option<Sysno> {
    let call = Sysno::new(number.try_into().ok()?)?;
    (!NOWHERE.contains(&call)).then_some(call)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(number: u64, option: u64, error: i32) -> Returned {
        let result = -i64::from(error) as u64;
        Returned::of((number, [option, 0, 0, 0, 0, 0]), result, 0)
    }

    fn granted(number: u64, arguments: [u64; 6], fact: u64) -> Returned {
        Returned::of((number, arguments), 0, fact)
    }

    #[test]
    fn only_what_a_kernel_has_is_refused() {
        let mut refusals = Refusals::default();
        refusals.refused(425, libc::ENOSYS);
        refusals.refused(425, libc::ENOSYS);
        // tuxcall, and none.
        refusals.refused(184, libc::ENOSYS);
        refusals.refused(400, libc::ENOSYS);
        refusals.refused(100_000, libc::ENOSYS);
        // prctl(PR_SET_MM), one that there is not, and one that has failed as it may.
        refusals.returned(&failed(157, 35, libc::EINVAL));
        refusals.returned(&failed(157, 12_345, libc::EINVAL));
        refusals.returned(&failed(157, 35, libc::EPERM));
        refusals.returned(&failed(435, 0, libc::ENOSYS));
        // mmap of pages of hugetlbfs, and of others; limits that are kept, and one that is not.
        for flags in [0x22, 0x4_0022] {
            let arguments = [0, 0x20_0000, 3, flags, 0, 0];
            refusals.returned(&granted(9, arguments, 0));
        }
        for fact in [0, 1] {
            refusals.returned(&granted(302, [0, 9, 1, 0, 0, 0], fact));
        }
        let all = refusals.all();
        let all: Vec<_> = (all.iter())
            .map(|refused| (&*refused.call, refused.error, refused.times))
            .collect();
        let expected = [
            ("clone3", "ENOSYS", 1),
            ("io_uring_setup", "ENOSYS", 2),
            ("mmap(MAP_HUGETLB)", ORDINARY, 1),
            ("prctl(PR_SET_MM)", "EINVAL", 1),
            ("prlimit64(RLIMIT_AS)", NO_LIMIT, 1),
        ];
        assert_eq!(all, expected);
    }
}
