//! Frames that back pages, from /proc/self/pagemap (Documentation/admin-guide/mm/pagemap.rst).

use super::Refused;
use super::mapping::{Mapping, PAGE};
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Frame number of each page of `mapping`; `None` where no page is present.
///
/// # Errors
/// When pagemap cannot be read, or hides frame numbers, which only the administrator may see.
pub fn frames(mapping: &Mapping) -> Result<Vec<Option<u64>>, Refused> {
    const PRESENT: u64 = 1 << 63;
    const FRAME: u64 = (1 << 55) - 1;
    let refused = |e| Refused::because("/proc/self/pagemap", e);
    let file = File::open("/proc/self/pagemap").map_err(refused)?;
    let pages = mapping.len() / PAGE;
    let mut bytes = vec![0; pages * size_of::<u64>()];
    let first = mapping.as_ptr() as usize / PAGE * size_of::<u64>();
    file.read_exact_at(&mut bytes, first as u64)
        .map_err(refused)?;
    let entries: Vec<u64> = bytes
        .chunks_exact(size_of::<u64>())
        .map(|chunk| chunk.iter().rev().fold(0, |n, &b| n << 8 | u64::from(b)))
        .collect();
    if entries.iter().all(|e| e & PRESENT == 0 || e & FRAME == 0) {
        let hidden = std::io::Error::other("frame numbers are shown to root only");
        return Err(refused(hidden));
    }
    Ok(entries
        .iter()
        .map(|e| (e & PRESENT != 0).then_some(e & FRAME))
        .collect())
}

/// Share of the pages of `mapping` that lie in aligned runs of `pages` contiguous frames: what a
/// folio of that size looks like from outside.
pub fn share_in_runs(frames: &[Option<u64>], pages: usize) -> f64 {
    let runs = frames.chunks_exact(pages).filter(|run| {
        run[0].is_some_and(|first| {
            first % pages as u64 == 0
                && run
                    .iter()
                    .zip(first..)
                    .all(|(frame, expected)| *frame == Some(expected))
        })
    });
    runs.count() as f64 * pages as f64 / frames.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_must_be_contiguous_and_aligned() {
        let frames: Vec<Option<u64>> = [8, 9, 10, 11, 13, 14, 15, 16, 20, 21, 22, 0]
            .map(|f| (f > 0).then_some(f))
            .into();
        assert_eq!(share_in_runs(&frames, 4), 4.0 / 12.0);
        assert_eq!(share_in_runs(&frames, 2), 6.0 / 12.0);
    }
}
