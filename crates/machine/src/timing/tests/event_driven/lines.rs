//! Lines, miss buffers and memory.

use super::{Event, Generation, Miss, Reference, Twin, Waiter};

impl Twin<'_> {
    /// Time at which a line under way or brought already answers a reference, if it does.
    pub(super) fn answered(
        &mut self,
        line: u32,
        waiter: Waiter,
        generation: Option<Generation>,
        hit: u64,
        now: u64,
    ) -> bool {
        if let Some(waiters) = self.lines.get_mut(&line) {
            waiters.push((waiter, now + hit));
            if let Some(generation) = generation {
                self.generations[generation].1 = true;
            }
            return true;
        }
        if generation.is_none_or(|generation| self.generations[generation].1) {
            self.answer(waiter, now + hit);
            return true;
        }
        false
    }

    pub(super) fn answer(&mut self, waiter: Waiter, time: u64) {
        match waiter {
            Waiter::Data(request) => self.at(time, request, Event::Data { request }),
            Waiter::Walk(request) => self.at(time, request, Event::WalkRead { request }),
            Waiter::Nobody => {}
        }
    }

    pub(super) fn walk_reads(
        &mut self,
        waiter: Waiter,
        age: usize,
        read: Reference,
        generation: Option<Generation>,
        now: u64,
    ) {
        let hit = self.parameters.latency[self.parameters.walks_enter];
        if self.answered(read.line, waiter, generation, hit, now) {
            return;
        }
        if self.parameters.walks_enter == 0 {
            self.miss(read.line, waiter, age, generation, now);
        } else {
            self.fetch(read.line, waiter, age, generation, now);
        }
    }

    /// Asks for a line that the first level does not have.
    fn miss(
        &mut self,
        line: u32,
        waiter: Waiter,
        age: usize,
        generation: Option<Generation>,
        now: u64,
    ) {
        let miss = Miss {
            line,
            waiter,
            generation,
        };
        self.miss_buffers.queue.insert((now, age, miss));
        self.grant_miss_buffers(now);
    }

    pub(super) fn data(&mut self, request: usize, now: u64) {
        let line = self.request(request).data.line;
        let generation = self.data_generation[request];
        let hit = self.parameters.latency[0];
        if self.answered(line, Waiter::Data(request), generation, hit, now) {
            self.sent(request, now);
            return;
        }
        self.miss(line, Waiter::Data(request), request, generation, now);
    }

    pub(super) fn grant_miss_buffers(&mut self, now: u64) {
        while self.miss_buffers.free > 0 {
            let Some((_, age, miss)) = self.miss_buffers.queue.pop_first() else {
                return;
            };
            let Miss {
                line,
                waiter,
                generation,
            } = miss;
            let hit = self.parameters.latency[0];
            if !self.answered(line, waiter, generation, hit, now) {
                self.miss_buffers.free -= 1;
                self.holds_buffer.insert(line);
                self.fetch(line, waiter, age, generation, now);
            }
            if let Waiter::Data(request) = waiter {
                self.sent(request, now);
            }
        }
    }

    pub(super) fn fetch(
        &mut self,
        line: u32,
        waiter: Waiter,
        age: usize,
        generation: Option<Generation>,
        now: u64,
    ) {
        let Some(generation) = generation else { return };
        let (level, brought) = &mut self.generations[generation];
        *brought = true;
        let level = *level;
        self.lines.insert(line, vec![(waiter, 0)]);
        if level > 1 && self.parameters.l2_miss_buffers.is_some() {
            let missed = now + self.parameters.latency[1];
            self.at(missed, age, Event::MissesL2 { line, level });
        } else {
            self.brings(line, level, age, now);
        }
    }

    /// A line is on its way that was asked for at `asked`, what it waited for left out.
    fn brings(&mut self, line: u32, level: usize, age: usize, asked: u64) {
        let mut arrives = asked + self.parameters.latency[level];
        if level == 3 {
            if let Some(spread) = self.parameters.spread {
                arrives = asked + spread[sixteenth(line)] as u64;
            }
            let begins = self.memory_free.max(asked);
            self.memory_free = begins + self.parameters.transfer;
            arrives += begins - asked;
        }
        self.at(arrives, age, Event::Arrival { line });
    }

    pub(super) fn misses_l2(&mut self, line: u32, level: usize, age: usize, now: u64) {
        self.l2_miss_buffers.queue.insert((now, age, (line, level)));
        self.grant_l2_miss_buffers(now);
    }

    fn grant_l2_miss_buffers(&mut self, now: u64) {
        while self.l2_miss_buffers.free > 0 {
            let Some((_, age, (line, level))) = self.l2_miss_buffers.queue.pop_first() else {
                return;
            };
            self.l2_miss_buffers.free -= 1;
            self.holds_l2_buffer.insert(line);
            self.brings(line, level, age, now - self.parameters.latency[1]);
        }
    }

    /// A line has been asked for, or is there or on its way: fetches those ahead of it. A prefetch waits for
    /// nothing more.
    pub(super) fn sent(&mut self, request: usize, now: u64) {
        if self.accesses[self.requests[request].0].prefetch {
            self.has_data(request, now);
        }
        for (number, reference) in self.request(request).prefetches.iter().enumerate() {
            let line = reference.line;
            let generation = self.prefetch_generation[&(request, number)];
            if reference.level > 1 && !self.answered(line, Waiter::Nobody, generation, 0, now) {
                self.fetch(line, Waiter::Nobody, request, generation, now);
            }
        }
    }

    pub(super) fn arrives(&mut self, line: u32, now: u64) {
        for (waiter, hit) in self.lines.remove(&line).unwrap_or_default() {
            self.answer(waiter, now.max(hit));
        }
        if self.holds_l2_buffer.remove(&line) {
            self.l2_miss_buffers.free += 1;
            self.grant_l2_miss_buffers(now);
        }
        if self.holds_buffer.remove(&line) {
            self.miss_buffers.free += 1;
            self.grant_miss_buffers(now);
        }
    }

    pub(super) fn has_data(&mut self, request: usize, now: u64) {
        self.done[request] = Some(now);
        let (access, _) = self.requests[request];
        if !self.accesses[access].store {
            self.ready[request] = Some(now);
        }
        let first = self.first_request[access];
        let requests = first..first + self.accesses[access].requests.len();
        let done = |request| self.done[request];
        let all: Option<Vec<u64>> = requests.map(done).collect();
        if let Some(latest) = all.and_then(|all| all.into_iter().max()) {
            self.completed[access] = Some(latest);
            for (waiter, dispatched) in self.dependants.remove(&access).unwrap_or_default() {
                self.start(waiter, dispatched);
            }
        }
    }
}

/// Sixteenth of memory's latencies that a line has: the uppermost four bits of what MurmurHash3 ends with. No stream
/// is longer than a stretch.
fn sixteenth(line: u32) -> usize {
    let by = |number: u64, shift: u32, times: u64| (number ^ number >> shift) * times % (1 << 32);
    let twice = by(by(line.into(), 16, 2_246_822_507), 13, 3_266_489_909);
    ((twice ^ twice >> 16) / (1 << 28)) as usize
}
