//! Second-level TLB, walkers and what they find.

use super::{BACKGROUND, Event, Translation, Twin, Waiter, Walk};

impl<'a> Twin<'a> {
    pub(super) fn translate(&mut self, request: usize, now: u64) {
        let what = self.request(request);
        if matches!(what.translation, Translation::Unmapped) {
            self.has_data(request, now);
            return;
        }
        let generation = self.page_generation[request];
        let brought = generation.is_none_or(|generation| self.page_brought[generation]);
        let first = matches!(what.translation, Translation::FirstTlb);
        if first || brought {
            if let Some((_, waiters)) = self.pages.get_mut(&what.page) {
                waiters.push(request);
                return;
            }
            if brought {
                self.translated(request, now);
                return;
            }
        }
        let Some(generation) = generation else { return };
        self.progress[request].generation = generation;
        self.page_brought[generation] = true;
        self.pages.entry(what.page).or_default().0 += 1;
        self.at(
            now + self.parameters.second_tlb,
            request,
            Event::SecondTlb { request },
        );
    }

    pub(super) fn second_tlb(&mut self, request: usize, now: u64) {
        match self.request(self.progress[request].generation).translation {
            Translation::Walks(_) => self.ask_walker(request, now),
            _ => {
                // Had by the second level, but a walk may be under way that brings it.
                if let Some((under_way, waiters)) = self.pages.get_mut(&self.request(request).page)
                    && *under_way > 1
                {
                    *under_way -= 1;
                    waiters.push(request);
                } else {
                    self.end_of_translation(request, now);
                }
            }
        }
    }

    pub(super) fn ask_walker(&mut self, request: usize, now: u64) {
        self.walkers.queue.insert((now, request, ()));
        self.grant_walkers(now);
    }

    pub(super) fn grant_walkers(&mut self, now: u64) {
        while self.walkers.free > 0 {
            let Some((_, request, ())) = self.walkers.queue.pop_first() else {
                return;
            };
            self.walkers.free -= 1;
            let progress = self.progress[request];
            let walk = self.walk_of(request);
            for (number, &read) in walk.background.iter().enumerate() {
                let key = (progress.generation, progress.walk, BACKGROUND, number);
                let generation = self.walk_generation[&key];
                self.walk_reads(Waiter::Nobody, request, read, generation, now);
            }
            self.at(now + walk.fixed, request, Event::Step { request });
        }
    }

    pub(super) fn walk_of(&self, request: usize) -> &'a Walk {
        let progress = self.progress[request];
        match &self.request(progress.generation).translation {
            Translation::Walks(walks) => &walks[progress.walk],
            _ => unreachable!("only walks have a walker"),
        }
    }

    pub(super) fn step(&mut self, request: usize, now: u64) {
        let walk = self.walk_of(request);
        let progress = self.progress[request];
        if let Some(reads) = walk.steps.get(progress.step) {
            self.progress[request].outstanding = reads.len();
            for (number, &read) in reads.iter().enumerate() {
                let key = (progress.generation, progress.walk, progress.step, number);
                let generation = self.walk_generation[&key];
                self.walk_reads(Waiter::Walk(request), request, read, generation, now);
            }
            return;
        }
        self.walkers.free += 1;
        if walk.fault.is_some() {
            self.trapped.insert(request, now);
        } else {
            self.end_of_translation(request, now);
        }
        self.grant_walkers(now);
    }

    pub(super) fn end_of_translation(&mut self, request: usize, now: u64) {
        let page = self.request(request).page;
        let Some((under_way, waiters)) = self.pages.get_mut(&page) else {
            return;
        };
        *under_way -= 1;
        let waiters = std::mem::take(waiters);
        if *under_way == 0 {
            self.pages.remove(&page);
        }
        for waiter in waiters {
            self.at(now, waiter, Event::Translated { request: waiter });
        }
        self.translated(request, now);
    }

    pub(super) fn translated(&mut self, request: usize, now: u64) {
        if self.accesses[self.requests[request].0].store {
            self.ready[request] = Some(now);
        }
        self.data(request, now);
    }
}
