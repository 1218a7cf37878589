//! Amount of memory that the probe may take without making the machine swap or kill.

use super::files;
use std::path::PathBuf;

/// Never more than this share of what is available, so that neighbours can grow meanwhile.
pub const SHARE: f64 = 0.4;

/// Bytes the probe may hold at one time, now: a share of the least of what the kernel thinks
/// available without swapping, and what the limits of the control groups around this process
/// leave. Zero where the kernel does not say.
pub fn bytes() -> u64 {
    let available = files::field("/proc/meminfo", "MemAvailable").map_or(0, |kib| kib * 1024);
    let least = cgroup_rooms().into_iter().fold(available, u64::min);
    (least as f64 * SHARE) as u64
}

/// Room that each limit on the way from this process's control group to the root leaves.
fn cgroup_rooms() -> Vec<u64> {
    let mut rooms = Vec::new();
    for line in files::text("/proc/self/cgroup").unwrap_or_default().lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        let (roots, limit, usage): (&[&str], _, _) = if controllers.is_empty() {
            let roots = &["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
            (roots, "memory.max", "memory.current")
        } else if controllers.split(',').any(|c| c == "memory") {
            let roots = &["/sys/fs/cgroup/memory"];
            (roots, "memory.limit_in_bytes", "memory.usage_in_bytes")
        } else {
            continue;
        };
        for root in roots {
            let full = PathBuf::from(format!("{root}{path}"));
            for group in full.ancestors().take_while(|g| g.starts_with(root)) {
                let limit = files::number(group.join(limit));
                let usage = files::number(group.join(usage));
                if let (Some(limit), Some(usage)) = (limit, usage) {
                    rooms.push(limit.saturating_sub(usage));
                }
            }
        }
    }
    rooms
}
