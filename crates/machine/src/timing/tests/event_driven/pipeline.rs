//! Dispatch and retirement.

use super::{Event, Translation, Twin};

/// The loads that access `number` waits for: the low half of `dep` is how far back one is, the high half
/// how much further another.
pub(super) fn loads(number: usize, dep: u32) -> Vec<usize> {
    let (one, apart) = ((dep % 65_536) as usize, (dep / 65_536) as usize);
    let mut loads = Vec::new();
    if one > 0 && one <= number {
        loads.push(number - one);
        if apart > 0 && one + apart <= number {
            loads.push(number - one - apart);
        }
    }
    loads
}

impl Twin<'_> {
    /// Dispatches whatever can be.
    pub(super) fn dispatch(&mut self) {
        self.decide();
        while self.next_access < self.accesses.len() {
            let access = &self.accesses[self.next_access];
            // An access after a fault has to start anew when that has been handled.
            if self.next_access > 0 && self.faults_left[self.next_access - 1] > 0 {
                return;
            }
            if access.kernel > 0 && self.kernel_until.is_none_or(|(a, _)| a != self.next_access) {
                if self.next_request < self.first_request[self.next_access] {
                    return;
                }
                self.last_retired += access.kernel;
                self.dispatch_from = self.dispatch_from.max(self.last_retired + 1);
                self.kernel_until = Some((self.next_access, self.last_retired));
            }
            if let Some((dep, reconverges)) = access.mispredicted
                && self.redirected <= self.next_access
            {
                if reconverges || self.on_wrong_path() {
                    self.branch_off(dep, reconverges);
                }
                if reconverges {
                    self.redirected = self.next_access + 1;
                    self.decide();
                    continue;
                }
                let mut decided = 0;
                for load in loads(self.next_access, dep) {
                    match self.completed[load] {
                        Some(completed) => decided = decided.max(completed),
                        None => return,
                    }
                }
                let branch = self.dispatched.last().copied().unwrap_or(0);
                let branch = branch.max(self.dispatch_from.saturating_sub(1));
                self.dispatch_from = branch.max(decided) + self.parameters.misprediction + 1;
                self.redirected = self.next_access + 1;
            }
            let target = self.instruction[self.next_access];
            while self.dispatched.len() < target {
                let Some(time) = self.dispatches_next() else {
                    return;
                };
                if self.waits_to_be_dispatched(time) {
                    return;
                }
                self.dispatched.push(time);
                let gap = self.accesses[self.next_access].gap as usize;
                self.compute(self.dispatched.len() + gap - target - 1, time);
            }
            let Some(mut time) = self.dispatches_next() else {
                return;
            };
            if access.store && self.stores.len() >= self.parameters.store_buffer {
                let leaves = self.stores.len() - self.parameters.store_buffer;
                match self.commits.get(leaves) {
                    Some(&commit) => time = time.max(commit),
                    None => return,
                }
            }
            if self.waits_to_be_dispatched(time) {
                return;
            }
            let number = self.next_access;
            self.dispatched.push(time);
            let address = self.compute(self.accesses[number].gap as usize, time);
            self.next_access += 1;
            if access.store {
                let first = self.first_request[number];
                self.stores.extend(first..first + access.requests.len());
            }
            self.start(number, time.max(address));
        }
    }

    /// Has an instruction of the next access's, which is dispatched at `time`, compute what it does; returns
    /// when it has its address. All that it needs comes before it in the program. What is loaded comes from the
    /// first level, as far as registers know.
    fn compute(&mut self, number: usize, time: u64) -> u64 {
        let access = &self.accesses[self.next_access.min(self.accesses.len() - 1)];
        let Some(instruction) = access.instructions.get(number) else {
            self.results.push(0);
            return 0;
        };
        let latest = |of: &[usize]| of.iter().map(|&register| self.registers[register]).max();
        let address = latest(&instruction.address).unwrap_or(0);
        let mut begins = latest(&instruction.operands).unwrap_or(0).max(time);
        let loads = number == access.gap as usize && !access.store && !access.prefetch;
        if loads {
            begins = begins.max(address.max(time) + self.parameters.latency[0]);
        }
        let takes = u64::from(instruction.cycles) * self.parameters.width;
        let result = begins + takes;
        // When a load that does nothing else has its data is another matter.
        let own = !loads || takes > 0 || !instruction.operands.is_empty();
        self.results.push(if own { result } else { 0 });
        self.registers[instruction.result] = result;
        address
    }

    /// Starts an access that was dispatched at `time`, or has it wait for one of its loads.
    pub(super) fn start(&mut self, number: usize, time: u64) {
        let mut start = time;
        let access = &self.accesses[number];
        for (load, computing) in loads(number, access.dep).into_iter().zip(access.arithmetic) {
            let Some(completed) = self.completed[load] else {
                self.dependants
                    .entry(load)
                    .or_default()
                    .push((number, time));
                return;
            };
            start = start.max(completed + u64::from(computing));
        }
        self.at(
            start,
            self.first_request[number],
            Event::Start { access: number },
        );
    }

    /// When the next instruction can be dispatched, if that is known.
    pub(super) fn dispatches_next(&self) -> Option<u64> {
        let number = self.dispatched.len();
        let mut time = self.dispatched.last().map_or(1, |last| last + 1);
        time = time.max(self.dispatch_from);
        if number >= self.parameters.reorder_buffer {
            time = time.max(*self.retired.get(number - self.parameters.reorder_buffer)?);
        }
        Some(time)
    }

    /// Retires whatever can be, in order, one instruction a slot, and commits stores.
    pub(super) fn retire(&mut self) {
        while let Some(&(access, number)) = self.requests.get(self.next_request) {
            while number == 0 && self.retired.len() < self.instruction[access] {
                if self.held_back(self.retired.len()) {
                    return;
                }
                let Some(&dispatched) = self.dispatched.get(self.retired.len()) else {
                    return;
                };
                let result = self.results[self.retired.len()];
                self.last_retired = (self.last_retired + 1).max(dispatched).max(result);
                self.retired.push(self.last_retired);
            }
            if self.held_back(self.instruction[access]) {
                break;
            }
            self.take_trap();
            let Some(ready) = self.ready[self.next_request] else {
                break;
            };
            let ready = ready.max(self.ready_again(access));
            let ready = ready.max(self.results[self.instruction[access]]);
            self.last_retired = (self.last_retired + u64::from(number == 0)).max(ready);
            self.retired_requests.push(self.last_retired);
            if number + 1 == self.accesses[access].requests.len() {
                self.retired.push(self.last_retired);
            }
            self.next_request += 1;
        }
        while let Some(&request) = self.stores.get(self.commits.len()) {
            let (Some(&retired), Some(done)) =
                (self.retired_requests.get(request), self.done[request])
            else {
                break;
            };
            let before = self.commits.last().copied().unwrap_or(0) + self.parameters.width;
            self.commits.push(before.max(retired).max(done));
        }
    }

    /// Enters the kernel when everything older than the access that faults has retired.
    pub(super) fn take_trap(&mut self) {
        let request = self.next_request;
        let Some(asked) = self.trapped.remove(&request) else {
            return;
        };
        let own = u64::from(self.requests[request].1 == 0);
        let Translation::Walks(walks) = &self.request(request).translation else {
            return;
        };
        let fault = walks[self.progress[request].walk].fault.unwrap_or(0);
        let again = self.dispatched_again(self.requests[request].0);
        let back = asked.max(self.last_retired + own).max(again) + fault;
        self.dispatch_from = self.dispatch_from.max(back + 1);
        self.at(back, request, Event::Back { request });
    }
}
