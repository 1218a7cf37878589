use crate::in_flight::InFlight;

/// Lines and translations that a core has asked for and that may not be there yet.
#[derive(Clone, Debug)]
pub struct UnderWay {
    lines: InFlight,
    pages: InFlight,
    /// When the last walk for more than a page of 4 KiB ends.
    larger_until: u64,
    /// log2 of the pages of 4 KiB that walks bring together; 0 while none did. A core's TLB has one
    /// such size.
    group_shift: u8,
    /// log2 of the base pages whose translations share a line of a cache, of 4 KiB pages and of
    /// larger ones.
    cached_shift: [u8; 2],
}

/// log2 of the base pages of the larger pages.
const LARGER: [u8; 2] = [9, 18];

/// The key of a larger page's translation: page numbers have 30 bits.
#[inline(always)]
fn larger(page: u32, shift: u8) -> u32 {
    page >> shift | u32::from(shift) << 27
}

/// The key of the translation of a few pages of 4 KiB that one TLB entry covers.
#[inline(always)]
fn group(page: u32, shift: u8) -> u32 {
    page >> shift << shift | 3 << 30
}

impl UnderWay {
    pub(crate) fn new() -> Self {
        UnderWay {
            lines: InFlight::new(),
            pages: InFlight::new(),
            larger_until: 0,
            group_shift: 0,
            cached_shift: [0, 31],
        }
    }

    /// When a reference at `time` has a line that the caches hold, in the order of the program:
    /// at `usual`, or when the line arrives.
    #[inline(always)]
    pub fn line_there(&mut self, line: u32, time: u64, usual: u64) -> u64 {
        if self.lines.none_at(time) {
            return usual;
        }
        self.lines
            .joined_or_first(line, time)
            .map_or(usual, |arrives| arrives.max(usual))
    }

    /// When a line arrives that is under way at `time`.
    #[inline(always)]
    pub fn line_arrives(&self, line: u32, time: u64) -> Option<u64> {
        self.lines.joined(line, time)
    }

    /// A line is asked for and arrives later.
    #[inline(always)]
    pub fn ask_line(&mut self, line: u32, asked: u64, arrives: u64) {
        self.lines.ask(line, asked, arrives);
    }

    /// When an access at `time` has a translation that the TLB holds, in the order of the
    /// program: at `usual`, or when its walk ends.
    #[inline(always)]
    pub fn page_there(&mut self, page: u32, time: u64, usual: u64) -> u64 {
        if self.pages.none_at(time) {
            return usual;
        }
        let mut there = self.pages.joined_or_first(page, time);
        if time < self.larger_until {
            for shift in LARGER {
                let of_larger = self.pages.joined_or_first(larger(page, shift), time);
                there = there.max(of_larger);
            }
            if self.group_shift != 0 {
                let of_group = group(page, self.group_shift);
                there = there.max(self.pages.joined_or_first(of_group, time));
            }
        }
        there.map_or(usual, |arrives| arrives.max(usual))
    }

    /// The translation of a page, or of the aligned `1 << shift` pages around it, is asked for
    /// and arrives later.
    #[inline(always)]
    pub fn ask_page(&mut self, page: u32, shift: u8, asked: u64, arrives: u64) {
        if shift == 0 {
            self.pages.ask(page, asked, arrives);
        } else if shift < LARGER[0] {
            self.group_shift = shift;
            self.pages.ask(group(page, shift), asked, arrives);
            self.larger_until = self.larger_until.max(arrives);
        } else {
            self.pages.ask(larger(page, shift), asked, arrives);
            self.larger_until = self.larger_until.max(arrives);
        }
    }

    /// The translations of the aligned `1 << shift` pages around a page are asked for, and in a
    /// cache when they arrive.
    pub fn ask_cached(&mut self, page: u32, shift: u8, asked: u64, arrives: u64) {
        let key = match shift < LARGER[0] {
            true => group(page, shift),
            false => larger(page, shift),
        };
        self.cached_shift[usize::from(shift >= LARGER[0])] = shift;
        self.pages.ask(key, asked, arrives);
    }

    /// When an access at `time` has a translation that a cache holds, in the order of the program:
    /// at `usual`, or when the walk ends that brings it there.
    pub fn cached_there(&mut self, page: u32, time: u64, usual: u64) -> u64 {
        if self.pages.none_at(time) {
            return usual;
        }
        let [of_base, of_larger] = self.cached_shift;
        let base = self.pages.joined_or_first(group(page, of_base), time);
        let there = base.max(self.pages.joined_or_first(larger(page, of_larger), time));
        there.map_or(usual, |arrives| arrives.max(usual))
    }
}
