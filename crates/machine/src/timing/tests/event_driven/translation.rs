//! Second-level TLB, walkers and what they find.

use super::{BACKGROUND, Event, Translation, Twin, Waiter, Walk};

impl<'a> Twin<'a> {
    pub(super) fn translate(&mut self, part: usize, now: u64) {
        let what = self.part(part);
        let generation = self.page_generation[part];
        let brought = generation.is_none_or(|generation| self.page_brought[generation]);
        let first = matches!(what.translation, Translation::FirstTlb);
        if first || brought {
            if let Some((_, waiters)) = self.pages.get_mut(&what.page) {
                waiters.push(part);
                return;
            }
            if brought {
                self.translated(part, now);
                return;
            }
        }
        let Some(generation) = generation else { return };
        self.progress[part].generation = generation;
        self.page_brought[generation] = true;
        self.pages.entry(what.page).or_default().0 += 1;
        self.at(
            now + self.parameters.second_tlb,
            part,
            Event::SecondTlb { part },
        );
    }

    pub(super) fn second_tlb(&mut self, part: usize, now: u64) {
        match self.part(self.progress[part].generation).translation {
            Translation::Walks(_) => self.ask_walker(part, now),
            _ => {
                // Had by the second level, but a walk may be under way that brings it.
                if let Some((under_way, waiters)) = self.pages.get_mut(&self.part(part).page)
                    && *under_way > 1
                {
                    *under_way -= 1;
                    waiters.push(part);
                } else {
                    self.end_of_translation(part, now);
                }
            }
        }
    }

    pub(super) fn ask_walker(&mut self, part: usize, now: u64) {
        self.walkers.queue.insert((now, part, ()));
        self.grant_walkers(now);
    }

    pub(super) fn grant_walkers(&mut self, now: u64) {
        while self.walkers.free > 0 {
            let Some((_, part, ())) = self.walkers.queue.pop_first() else {
                return;
            };
            self.walkers.free -= 1;
            let progress = self.progress[part];
            let walk = self.walk_of(part);
            for (number, &read) in walk.background.iter().enumerate() {
                let key = (progress.generation, progress.walk, BACKGROUND, number);
                let generation = self.walk_generation[&key];
                self.walk_reads(Waiter::Nobody, part, read, generation, now);
            }
            self.at(now + walk.fixed, part, Event::Step { part });
        }
    }

    pub(super) fn walk_of(&self, part: usize) -> &'a Walk {
        let progress = self.progress[part];
        match &self.part(progress.generation).translation {
            Translation::Walks(walks) => &walks[progress.walk],
            _ => unreachable!("only walks have a walker"),
        }
    }

    pub(super) fn step(&mut self, part: usize, now: u64) {
        let walk = self.walk_of(part);
        let progress = self.progress[part];
        if let Some(reads) = walk.steps.get(progress.step) {
            self.progress[part].outstanding = reads.len();
            for (number, &read) in reads.iter().enumerate() {
                let key = (progress.generation, progress.walk, progress.step, number);
                let generation = self.walk_generation[&key];
                self.walk_reads(Waiter::Walk(part), part, read, generation, now);
            }
            return;
        }
        self.walkers.free += 1;
        if walk.fault.is_some() {
            self.trapped.insert(part, now);
        } else {
            self.end_of_translation(part, now);
        }
        self.grant_walkers(now);
    }

    pub(super) fn end_of_translation(&mut self, part: usize, now: u64) {
        let page = self.part(part).page;
        let Some((under_way, waiters)) = self.pages.get_mut(&page) else {
            return;
        };
        *under_way -= 1;
        let waiters = std::mem::take(waiters);
        if *under_way == 0 {
            self.pages.remove(&page);
        }
        for waiter in waiters {
            self.at(now, waiter, Event::Translated { part: waiter });
        }
        self.translated(part, now);
    }

    pub(super) fn translated(&mut self, part: usize, now: u64) {
        if self.accesses[self.parts[part].0].store {
            self.ready[part] = Some(now);
        }
        self.data(part, now);
    }
}
