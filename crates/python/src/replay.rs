//! Page accesses of a guest, from a file, against a range TLB.

use crate::error::error;
use pagelab_addr::{Asid, Pfn, Vpn};
use pagelab_machine::MachineConfig;
use pagelab_translation::{Range, Replayed, replay_ranges};
use pyo3::prelude::*;
use std::path::Path;

/// Accesses, walks without and with the range TLB, accesses outside all ranges.
pub(crate) fn replay(
    py: Python<'_>,
    machine: &str,
    overrides: &[String],
    entries: u32,
    ranges: &[(u64, u64, u64)],
    accesses: &Path,
) -> PyResult<(u64, u64, u64, u64)> {
    let config = MachineConfig::load(machine, overrides).map_err(error)?;
    let mut ranges: Vec<Range> = ranges
        .iter()
        .map(|&(first, pages, pfn)| {
            let pfn = u32::try_from(pfn).map_err(|_| error("a frame beyond 16 TiB"))?;
            Ok(Range {
                asid: Asid(0),
                first: Vpn(first),
                pages,
                pfn: Pfn(pfn),
                writable: true,
            })
        })
        .collect::<PyResult<_>>()?;
    ranges.sort_unstable_by_key(|range| range.first);
    py.detach(|| {
        let bytes = std::fs::read(accesses)
            .map_err(|source| error(format!("{}: {source}", accesses.display())))?;
        let words = bytes.as_chunks::<8>().0.iter();
        let accesses = words.map(|&word| {
            let word = u64::from_le_bytes(word);
            (Vpn(word >> 1), word & 1 == 1)
        });
        let Replayed {
            accesses,
            walks,
            walks_with_ranges,
            outside,
        } = replay_ranges(&config.tlb, entries, &ranges, accesses).map_err(error)?;
        Ok((accesses, walks, walks_with_ranges, outside))
    })
}
