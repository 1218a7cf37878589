//! Claims of the CPU and sysfs about caches and TLBs, to stand beside what was measured.

use super::files;
use serde::Serialize;
use std::fs;

/// A cache as sysfs describes it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CacheClaim {
    /// 1 for the level next to the core.
    pub level: u64,
    /// `Data`, `Unified` or `Instruction`.
    pub kind: String,
    /// Bytes.
    pub size: u64,
    /// Ways of each set.
    pub ways: u64,
    /// Bytes of a line.
    pub line: u64,
    /// CPUs that share it.
    pub shared_by: String,
}

/// A TLB as CPUID describes it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TlbClaim {
    /// 1 for the level next to the core.
    pub level: u64,
    /// Page sizes it holds, as CPUID groups them: `4K`, `2M`, `1G`.
    pub pages: String,
    /// Entries.
    pub entries: u64,
    /// Ways of each set; 0 for fully associative or unknown.
    pub ways: u64,
}

/// Data and unified caches of the first CPU, nearest first; empty where sysfs has none.
pub fn caches() -> Vec<CacheClaim> {
    let mut caches = all_caches();
    caches.retain(|cache| cache.kind != "Instruction");
    caches
}

/// The same of instruction caches.
pub fn code_caches() -> Vec<CacheClaim> {
    let mut caches = all_caches();
    caches.retain(|cache| cache.kind == "Instruction");
    caches
}

/// Bytes of the level before the last one of some caches; 1 MiB where there is none.
pub fn before_last(caches: &[CacheClaim]) -> u64 {
    let mut sizes: Vec<u64> = caches.iter().map(|cache| cache.size).collect();
    sizes.sort_unstable();
    sizes.len().checked_sub(2).map_or(1 << 20, |at| sizes[at])
}

fn all_caches() -> Vec<CacheClaim> {
    let mut caches: Vec<CacheClaim> = fs::read_dir("/sys/devices/system/cpu/cpu0/cache")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let file = |name| files::text(entry.path().join(name));
            let size = file("size")?.strip_suffix('K')?.parse::<u64>().ok()? * 1024;
            Some(CacheClaim {
                level: file("level")?.parse().ok()?,
                kind: file("type")?,
                size,
                ways: file("ways_of_associativity")?.parse().ok()?,
                line: file("coherency_line_size")?.parse().ok()?,
                shared_by: file("shared_cpu_list").unwrap_or_default(),
            })
        })
        .collect();
    caches.sort_by_key(|cache| cache.level);
    caches
}

/// Data and unified TLBs that CPUID lists; empty on other architectures.
#[cfg(not(target_arch = "x86_64"))]
pub fn tlbs() -> Vec<TlbClaim> {
    Vec::new()
}

/// First-level TLBs of instructions that CPUID lists; empty on other architectures.
#[cfg(not(target_arch = "x86_64"))]
pub fn code_tlbs() -> Vec<TlbClaim> {
    Vec::new()
}

/// Data and unified TLBs that CPUID lists.
///
/// AMD lists them in leaves 8000_0005h, 8000_0006h and 8000_0019h (APM volume 3, E.4), where a
/// zero means that the level does not hold that page size; Intel in leaf 18h (SDM volume 2A).
#[cfg(target_arch = "x86_64")]
pub fn tlbs() -> Vec<TlbClaim> {
    use raw_cpuid::DatType;
    let cpuid = raw_cpuid::CpuId::new();
    let mut claims = if is_amd(&cpuid) {
        amd_tlbs(&cpuid)
    } else {
        let kinds = [DatType::DataTLB, DatType::UnifiedTLB, DatType::LoadOnly];
        intel_tlbs(&cpuid, &kinds)
    };
    claims.retain(|claim| claim.entries > 0);
    claims
}

/// First-level TLBs of instructions that CPUID lists, in the same leaves.
#[cfg(target_arch = "x86_64")]
pub fn code_tlbs() -> Vec<TlbClaim> {
    let cpuid = raw_cpuid::CpuId::new();
    let mut claims = if is_amd(&cpuid) {
        amd_code_tlbs(&cpuid)
    } else {
        intel_tlbs(&cpuid, &[raw_cpuid::DatType::InstructionTLB])
    };
    claims.retain(|claim| claim.entries > 0 && claim.level == 1);
    claims
}

#[cfg(target_arch = "x86_64")]
fn is_amd(cpuid: &CpuId) -> bool {
    let vendor = cpuid.get_vendor_info();
    vendor.is_some_and(|vendor| matches!(vendor.as_str(), "AuthenticAMD" | "HygonGenuine"))
}

#[cfg(target_arch = "x86_64")]
type CpuId = raw_cpuid::CpuId<raw_cpuid::CpuIdReaderNative>;

#[cfg(target_arch = "x86_64")]
fn amd_tlbs(cpuid: &CpuId) -> Vec<TlbClaim> {
    let mut claims = Vec::new();
    let mut add = |level, pages: &str, entries: u16, associativity| {
        claims.push(TlbClaim {
            level,
            pages: pages.to_owned(),
            entries: entries.into(),
            ways: associativity_ways(associativity),
        });
    };
    if let Some(l1) = cpuid.get_l1_cache_and_tlb_info() {
        add(
            1,
            "4K",
            l1.dtlb_4k_size().into(),
            l1.dtlb_4k_associativity(),
        );
        add(
            1,
            "2M",
            l1.dtlb_2m_4m_size().into(),
            l1.dtlb_2m_4m_associativity(),
        );
    }
    if let Some(l2) = cpuid.get_l2_l3_cache_and_tlb_info() {
        add(2, "4K", l2.dtlb_4k_size(), l2.dtlb_4k_associativity());
        add(2, "2M", l2.dtlb_2m_4m_size(), l2.dtlb_2m_4m_associativity());
    }
    if let Some(giant) = cpuid.get_tlb_1gb_page_info() {
        add(
            1,
            "1G",
            giant.dtlb_l1_1gb_size().into(),
            giant.dtlb_l1_1gb_associativity(),
        );
        add(
            2,
            "1G",
            giant.dtlb_l2_1gb_size().into(),
            giant.dtlb_l2_1gb_associativity(),
        );
    }
    claims
}

#[cfg(target_arch = "x86_64")]
fn amd_code_tlbs(cpuid: &CpuId) -> Vec<TlbClaim> {
    let first = cpuid.get_l1_cache_and_tlb_info();
    let first = first.map(|l1| TlbClaim {
        level: 1,
        pages: "4K".to_owned(),
        entries: l1.itlb_4k_size().into(),
        ways: associativity_ways(l1.itlb_4k_associativity()),
    });
    first.into_iter().collect()
}

#[cfg(target_arch = "x86_64")]
fn associativity_ways(associativity: raw_cpuid::Associativity) -> u64 {
    match associativity {
        raw_cpuid::Associativity::DirectMapped => 1,
        raw_cpuid::Associativity::NWay(ways) => ways.into(),
        _ => 0,
    }
}

#[cfg(target_arch = "x86_64")]
fn intel_tlbs(cpuid: &CpuId, kinds: &[raw_cpuid::DatType]) -> Vec<TlbClaim> {
    cpuid
        .get_deterministic_address_translation_info()
        .into_iter()
        .flatten()
        .filter(|dat| kinds.contains(&dat.cache_type()))
        .map(|dat| {
            let pages: Vec<&str> = [
                (dat.has_4k_entries(), "4K"),
                (dat.has_2mb_entries(), "2M"),
                (dat.has_1gb_entries(), "1G"),
            ]
            .into_iter()
            .filter_map(|(has, name)| has.then_some(name))
            .collect();
            let ways = u64::from(dat.ways());
            TlbClaim {
                level: dat.cache_level().into(),
                pages: pages.join("/"),
                entries: ways * u64::from(dat.sets()),
                ways: if dat.is_fully_associative() { 0 } else { ways },
            }
        })
        .collect()
}
