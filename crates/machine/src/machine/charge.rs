//! Charges what a chunk came to, by instruction, kind of memory, address and time.

use super::Machine;
use crate::count::allocations::of;
use crate::count::by_code::Tallies;
use crate::count::tally::Tally;
use crate::machine::payer::Payer;
use crate::machine::requests::{TlbMiss, request};
use crate::mmu::Mmu;
use pagelab_addr::{Asid, VirtAddr};
use pagelab_events::NO_SITE;
use pagelab_translation::Page;

impl<M: Mmu> Machine<M> {
    /// From now on counts by instruction, kind of memory and allocation site.
    pub(crate) fn count_by_code(&mut self) {
        self.timing.by_code = Some(Box::<Tallies>::default());
    }

    /// Charges the walks and faults for a page of code to the instruction that is fetched.
    #[cold]
    pub(crate) fn charge_code(&mut self, page: Page, site: u32) {
        let number = self.program();
        let measures = self.measures();
        let Some(mut tallies) = self.timing.by_code.take() else {
            return;
        };
        tallies.measures = measures;
        if measures {
            let by_allocation = tallies.allocations.is_some();
            let charged = tallies.program(number);
            let kind = self.os.mapping(page.asid, page.vpn);
            let mapping = charged.number(kind, page.asid, page.vpn.address().0);
            let mut tally = Tally::default();
            for tlb_miss in self.chunk.tlb_misses.as_mut_slice() {
                tlb_miss.payer = Payer {
                    site,
                    program: number as u16,
                    mapping,
                    allocation: 0,
                };
                tally.faults += u64::from(tlb_miss.faulted);
                tally.fault_slots += tlb_miss.fault + tlb_miss.migration;
            }
            charged.site(site).add(&tally);
            charged.mapping(mapping).add(&tally);
            if by_allocation {
                of(&mut charged.allocations, 0).tally.add(&tally);
            }
        }
        self.timing.by_code = Some(tallies);
    }

    /// Charges what translating a chunk came to, and notes who is to pay for its walks.
    #[cold]
    #[inline(never)]
    pub(crate) fn charge(&mut self, asid: Asid, addr: &[u64], sites: &[u32]) {
        let number = self.program();
        let measures = self.measures();
        let Some(mut tallies) = self.timing.by_code.take() else {
            return;
        };
        tallies.measures = measures;
        let allocations = tallies.allocations.take();
        let charged = tallies.program(number);
        if !measures {
            // Its walks will have ended before anything is measured.
            tallies.allocations = allocations;
            self.timing.by_code = Some(tallies);
            return;
        }
        let mut tlb_misses = self.chunk.tlb_misses.as_mut_slice().iter_mut();
        let mut next = 0;
        for &bits in self.chunk.requests.as_slice() {
            next += usize::from(bits & request::REST == 0);
            let access = next - 1;
            let site = sites.get(access).copied().unwrap_or(NO_SITE);
            if bits & request::REST == 0 {
                charged.site(site).accesses += 1;
            }
            if bits & (request::SECOND_TLB | request::SLOW) == 0 || request::is_dropped(bits) {
                continue;
            }
            let kind = self.os.mapping(asid, VirtAddr(addr[access]).vpn());
            let mapping = charged.number(kind, asid, addr[access]);
            let allocation = (allocations.as_ref())
                .map_or(0, |all| all.charged(u32::from(asid.0), addr[access]));
            let mut tally = Tally {
                l1_tlb_misses: u64::from(bits & request::SECOND_TLB != 0),
                ..Tally::default()
            };
            if bits & request::SLOW != 0 {
                tally.l2_tlb_misses = u64::from(!M::FREE);
                for tlb_miss in &mut tlb_misses {
                    tlb_miss.payer = Payer {
                        site,
                        program: number as u16,
                        mapping,
                        allocation,
                    };
                    let TlbMiss {
                        faulted,
                        fault,
                        migration,
                        ..
                    } = *tlb_miss;
                    if !faulted {
                        break;
                    }
                    tally.faults += 1;
                    tally.fault_slots += fault + migration;
                }
            }
            tally.l2_tlb_misses |= u64::from(bits & request::CACHED != 0);
            charged.site(site).add(&tally);
            charged.mapping(mapping).add(&tally);
            if allocations.is_some() {
                of(&mut charged.allocations, allocation).tally.add(&tally);
            }
        }
        tallies.allocations = allocations;
        self.timing.by_code = Some(tallies);
    }

    /// Counts a translated chunk by address and time, where it is measured.
    pub(crate) fn count_by_address(&mut self, asid: Asid, addr: &[u64]) {
        if !self.measures() {
            return;
        }
        if let Some(heat_map) = &mut self.heat_map {
            let (requests, tlb_misses) = (&self.chunk.requests, &self.chunk.tlb_misses);
            let mmu = (M::FREE, M::LOOKS_INTO_CACHES);
            heat_map.count(asid, addr, requests, tlb_misses, mmu, &mut self.os);
        }
    }
}
