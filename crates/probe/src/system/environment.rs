//! Circumstances of a measurement: what must be known to compare two of them.

use super::{budget, files, process};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs;

/// The machine, its kernel and the settings that change what virtual memory costs.
#[derive(Clone, Debug, Serialize)]
pub struct Environment {
    /// Model name of the CPU.
    pub cpu: String,
    /// Maker, as /proc/cpuinfo names it, family and model.
    pub vendor: Option<String>,
    /// See `vendor`.
    pub family: Option<u32>,
    /// See `vendor`.
    pub model: Option<u32>,
    /// Extensions by which a core is known whose model is not: `amx_tile`.
    pub extensions: Vec<String>,
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
    /// Bytes that can be had without swapping.
    pub available: Option<u64>,
    /// Free blocks of each order, over all zones: those of movable pages (/proc/pagetypeinfo), or
    /// all (/proc/buddyinfo).
    pub free_blocks: Vec<u32>,
    /// They are of movable pages alone.
    pub free_blocks_movable: bool,
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
        let movable_blocks =
            files::text("/proc/pagetypeinfo").and_then(|text| movable_blocks(&text));
        Environment {
            cpu: info("model name").unwrap_or_else(|| "unknown".into()),
            vendor: info("vendor_id"),
            family: info("cpu family").and_then(|family| family.parse().ok()),
            model: info("model").and_then(|model| model.parse().ok()),
            extensions: info("flags").map_or_else(Vec::new, |flags| {
                let known = flags.split(' ').filter(|flag| EXTENSIONS.contains(flag));
                known.map(String::from).collect()
            }),
            architecture: std::env::consts::ARCH,
            hypervisor: hypervisor(),
            mhz: info("cpu MHz").and_then(|mhz| mhz.parse().ok()),
            kernel: ["osrelease", "version"]
                .map(|file| files::text(format!("/proc/sys/kernel/{file}")).unwrap_or_default())
                .join(" "),
            cpus: process::allowed_cpus(),
            pinned_to,
            memory: files::field("/proc/meminfo", "MemTotal").map_or(0, |kib| kib * 1024),
            available: files::field("/proc/meminfo", "MemAvailable").map(|kib| kib * 1024),
            free_blocks_movable: movable_blocks.is_some(),
            free_blocks: movable_blocks.unwrap_or_else(|| {
                free_blocks(&files::text("/proc/buddyinfo").unwrap_or_default())
            }),
            budget: budget::bytes(),
            load: load.and_then(|l| l.split(' ').next()?.parse().ok()),
            // SAFETY: no arguments, cannot fail.
            user: unsafe { libc::geteuid() },
            settings: settings(),
        }
    }
}

/// Possible members of [`Environment::extensions`].
const EXTENSIONS: [&str; 1] = ["amx_tile"];

/// Sums of /proc/buddyinfo by order: a line a zone, `Node 0, zone Normal` and the counts.
fn free_blocks(text: &str) -> Vec<u32> {
    sums(text.lines().map(|line| line.split_whitespace().skip(4)))
}

/// Free blocks that a program's pages are taken from before any others, of /proc/pagetypeinfo, which only root may
/// read: a line a zone and type, `Node 0, zone Normal, type Movable` and the counts. The small blocks of other types
/// lie between memory of the kernel.
fn movable_blocks(text: &str) -> Option<Vec<u32>> {
    let movable = text.lines().filter_map(|line| {
        let (_, typed) = line.split_once(", type")?;
        let mut words = typed.split_whitespace();
        matches!(words.next()?, "Movable" | "CMA").then_some(words)
    });
    Some(sums(movable)).filter(|blocks| !blocks.is_empty())
}

/// Adds up lists of counts. What the kernel has no patience to count is `>100000`.
fn sums<'a>(lists: impl Iterator<Item = impl Iterator<Item = &'a str>>) -> Vec<u32> {
    let mut sums: Vec<u32> = Vec::new();
    for counts in lists {
        let counts = counts.map_while(|count| count.trim_start_matches('>').parse::<u32>().ok());
        for (order, count) in counts.enumerate() {
            if order == sums.len() {
                sums.push(0);
            }
            sums[order] = sums[order].saturating_add(count);
        }
    }
    sums
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
        "/sys/module/damon_reclaim/parameters/enabled",
        "/sys/module/page_reporting/parameters/page_reporting_order",
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

#[cfg(test)]
mod tests {
    use super::{free_blocks, movable_blocks};

    #[test]
    fn free_blocks_of_all_zones_add_up() {
        let text = "Node 0, zone      DMA      0      1      3\n\
                    Node 0, zone   Normal   9514  11213      0\n";
        assert_eq!(free_blocks(text), [9514, 11214, 3]);
        assert!(free_blocks("").is_empty());
    }

    #[test]
    fn movable_blocks_are_those_of_their_type() {
        let text = "Page block order: 9\nPages per block:  512\n\n\
            Free pages count per migrate type at order       0      1      2\n\
            Node    0, zone    DMA32, type    Unmovable      7      7      7\n\
            Node    0, zone    DMA32, type      Movable      1      0      4\n\
            Node    0, zone   Normal, type      Movable    379 >100000     97\n\
            Node    0, zone   Normal, type  Reclaimable  20640   6649   4599\n\
            Node    0, zone   Normal, type          CMA      0      2      0\n\n\
            Number of blocks type     Unmovable      Movable  Reclaimable          CMA\n\
            Node 0, zone   Normal          255         8282         1063            0\n";
        assert_eq!(movable_blocks(text), Some(vec![380, 100_002, 101]));
        assert_eq!(movable_blocks(""), None);
    }
}
