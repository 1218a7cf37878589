//! Where a measurement was made: what must be known to compare two of them.

use super::{budget, files, process};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs;

/// The machine, its kernel and the settings that change what virtual memory costs.
#[derive(Clone, Debug, Serialize)]
pub struct Environment {
    /// Model name of the CPU.
    pub cpu: String,
    /// Who made it, as /proc/cpuinfo names them, its family and its model.
    pub vendor: Option<String>,
    /// See `vendor`.
    pub family: Option<u32>,
    /// See `vendor`.
    pub model: Option<u32>,
    /// Architecture the probe was built for.
    pub architecture: &'static str,
    /// Hypervisor, if the CPU says that it is virtual.
    pub hypervisor: Option<String>,
    /// Nominal rate of the time-stamp counter or the CPU, MHz, from /proc/cpuinfo.
    pub mhz: Option<f64>,
    /// Release and version of the kernel.
    pub kernel: String,
    /// CPUs this process may run on.
    pub cpus: usize,
    /// CPU the probe was bound to.
    pub pinned_to: Option<usize>,
    /// Bytes of memory.
    pub memory: u64,
    /// Bytes the probe allows itself.
    pub budget: u64,
    /// Load average over the last minute when the run began.
    pub load: Option<f64>,
    /// Effective user id.
    pub user: u32,
    /// Settings of the kernel that matter here, by path.
    pub settings: BTreeMap<String, String>,
}

impl Environment {
    /// Looks around.
    pub fn here(pinned_to: Option<usize>) -> Environment {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let info = |key: &str| {
            cpuinfo.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                (name.trim() == key).then(|| value.trim().to_owned())
            })
        };
        let load = files::text("/proc/loadavg");
        Environment {
            cpu: info("model name").unwrap_or_else(|| "unknown".into()),
            vendor: info("vendor_id"),
            family: info("cpu family").and_then(|family| family.parse().ok()),
            model: info("model").and_then(|model| model.parse().ok()),
            architecture: std::env::consts::ARCH,
            hypervisor: hypervisor(),
            mhz: info("cpu MHz").and_then(|mhz| mhz.parse().ok()),
            kernel: ["osrelease", "version"]
                .map(|file| files::text(format!("/proc/sys/kernel/{file}")).unwrap_or_default())
                .join(" "),
            cpus: process::allowed_cpus(),
            pinned_to,
            memory: files::field("/proc/meminfo", "MemTotal").map_or(0, |kib| kib * 1024),
            budget: budget::bytes(),
            load: load.and_then(|l| l.split(' ').next()?.parse().ok()),
            // SAFETY: no arguments, cannot fail.
            user: unsafe { libc::geteuid() },
            settings: settings(),
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn hypervisor() -> Option<String> {
    let info = raw_cpuid::CpuId::new().get_hypervisor_info()?;
    Some(format!("{:?}", info.identify()))
}

#[cfg(not(target_arch = "x86_64"))]
fn hypervisor() -> Option<String> {
    files::text("/sys/hypervisor/type")
}

/// Folder of the settings of transparent huge pages.
pub const THP: &str = "/sys/kernel/mm/transparent_hugepage";

fn settings() -> BTreeMap<String, String> {
    let mut paths: Vec<String> = [
        "/proc/sys/vm/overcommit_memory",
        "/proc/sys/vm/max_map_count",
        "/proc/sys/vm/swappiness",
        "/proc/sys/kernel/perf_event_paranoid",
        "/proc/sys/kernel/numa_balancing",
        "/sys/kernel/mm/ksm/run",
        "/sys/kernel/mm/lru_gen/enabled",
        "/sys/devices/system/cpu/smt/control",
        "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
        "/sys/devices/system/clocksource/clocksource0/current_clocksource",
    ]
    .map(String::from)
    .into();
    for file in [
        "enabled",
        "defrag",
        "shmem_enabled",
        "use_zero_page",
        "khugepaged/defrag",
    ] {
        paths.push(format!("{THP}/{file}"));
    }
    for entry in fs::read_dir(THP).into_iter().flatten().flatten() {
        if entry
            .file_name()
            .to_string_lossy()
            .starts_with("hugepages-")
        {
            paths.push(format!("{}/enabled", entry.path().display()));
        }
    }
    for entry in fs::read_dir("/sys/kernel/mm/hugepages")
        .into_iter()
        .flatten()
        .flatten()
    {
        paths.push(format!("{}/nr_hugepages", entry.path().display()));
    }
    for entry in fs::read_dir("/sys/devices/system/cpu/vulnerabilities")
        .into_iter()
        .flatten()
        .flatten()
    {
        paths.push(entry.path().display().to_string());
    }
    paths
        .into_iter()
        .filter_map(|path| Some((path.clone(), files::choice(path)?)))
        .collect()
}
