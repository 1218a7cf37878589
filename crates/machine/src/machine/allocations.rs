//! Events for the count by allocation site: calls of allocators, and pages that come in.

use super::Machine;
use crate::machine::requests::request;
use crate::mmu::Mmu;
use pagelab_addr::{Asid, PAGE_BYTES, PageSize, VirtAddr};
use pagelab_events::Control;
use pagelab_translation::{Page, PageTable};

impl<M: Mmu> Machine<M> {
    /// Takes in an event.
    #[cold]
    pub(super) fn note_allocations(&mut self, process: u32, control: &Control) {
        let number = self.program();
        let core = self.current_core();
        let thread = self.cores[core].sharing.running(process).unwrap_or(0);
        let Some(tallies) = self.timing.by_code.as_deref_mut() else {
            return;
        };
        let begins = matches!(control, Control::Allocating { .. });
        if begins && tallies.allocations.is_none() {
            tallies.begin_allocations((process, thread));
        }
        if let Some(mut allocations) = tallies.allocations.take() {
            let sites = &mut tallies.program(number).allocations;
            allocations.control(process, control, sites);
            tallies.allocations = Some(allocations);
        }
    }

    /// Notes the pages that faults of a chunk have brought in.
    #[cold]
    #[inline(never)]
    pub(super) fn note_faulted(&mut self, asid: Asid, addr: &[u64]) {
        let mut next = 0;
        let mut tlb_miss = 0;
        for at in 0..self.chunk.requests.as_slice().len() {
            let bits = self.chunk.requests.as_slice()[at];
            next += usize::from(bits & request::REST == 0);
            if bits & request::SLOW == 0 || request::is_dropped(bits) {
                continue;
            }
            let mut faulted = false;
            while let Some(miss) = self.chunk.tlb_misses.as_mut_slice().get(tlb_miss) {
                tlb_miss += 1;
                faulted |= miss.faulted;
                if !miss.faulted {
                    break;
                }
            }
            if faulted {
                self.note_resident(asid, addr[next - 1]);
            }
        }
    }

    /// Notes that a page has come in, with those of its folio.
    pub(super) fn note_resident(&mut self, asid: Asid, addr: u64) {
        let process = u32::from(asid.0);
        let number = self.program();
        let vpn = VirtAddr(addr).vpn().0;
        let Some(size) = self.writable(asid, vpn) else {
            return;
        };
        let Some(allocations) =
            (self.timing.by_code.as_mut()).and_then(|tallies| tallies.allocations.take())
        else {
            return;
        };
        let (mut first, mut end) = (vpn, vpn + 1);
        if size == PageSize::Base4K {
            // Neighbours may have come in by faults of their own since.
            let folio = self.os.config().page_policy.most_folio_pages();
            let folio = vpn / folio * folio..vpn / folio * folio + folio;
            let new = |page: u64| {
                self.writable(asid, page) == Some(PageSize::Base4K)
                    && !allocations.is_resident(process, page * PAGE_BYTES)
            };
            while first > folio.start && new(first - 1) {
                first -= 1;
            }
            while end < folio.end && new(end) {
                end += 1;
            }
        } else {
            let pages = u64::from(size.base_pages());
            first = vpn / pages * pages;
            end = first + pages;
        }
        if let Some(tallies) = &mut self.timing.by_code {
            let sites = &mut tallies.program(number).allocations;
            let mut allocations = allocations;
            allocations.came_in(process, addr, first * PAGE_BYTES..end * PAGE_BYTES, sites);
            tallies.allocations = Some(allocations);
        }
    }

    /// Size of the page that is mapped somewhere, if it has memory that may be written to: neither the page of zeros
    /// nor one that a fork shares.
    fn writable(&self, asid: Asid, vpn: u64) -> Option<PageSize> {
        let vpn = pagelab_addr::Vpn(vpn);
        let id = self.gibs.known(&self.directory, asid, vpn.address().0)?;
        let found = self.mmu.table().lookup(Page { id, asid, vpn })?;
        found.writable.then_some(found.size)
    }
}
