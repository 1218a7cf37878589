//! Callers of a function, by the tables for unwinding of the files that are mapped (.eh_frame: Linux Standard Base,
//! "Exception Frames").
//!
//! Followed are stack and frame pointers, by which nearly all code finds its caller's frame. Nothing is executed
//! for it in the program, and what is read need not be there.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, PoisonError};

use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, EndianSlice, LittleEndian, ParsedEhFrameHdr,
    RegisterRule, UnwindContext, UnwindSection, X86_64,
};
use pagelab_recorder_wire::allocation::MOST_FRAMES;

use crate::guest;

type Bytes = EndianSlice<'static, LittleEndian>;

/// Known rules and files. Taken in order by those who hold the lock of the order of calls, as a fork does.
static KNOWN: Mutex<Option<RuleCache>> = Mutex::new(None);

/// Return addresses of the calls that led to the function with this frame, its own first. There the caller's frame
/// pointer lies, and the return address behind it.
pub fn callers(frame: u64) -> Vec<u64> {
    let mut at = [0; 2];
    if !guest::words(frame, &mut at) {
        return Vec::new();
    }
    let mut here = Place {
        address: at[1],
        stack: frame + 16,
        frame: at[0],
    };
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let known = known.get_or_insert_with(RuleCache::default);
    let mut callers = vec![here.address];
    while callers.len() < MOST_FRAMES {
        match known.rule(here.address).and_then(|rule| rule.caller(here)) {
            Some(caller) if caller.address != 0 => here = caller,
            _ => break,
        }
        callers.push(here.address);
    }
    callers
}

/// Memory was unmapped: other files may come to where there was one.
pub fn forget_at(address: u64, bytes: u64) {
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let start = guest::host_address(address);
    let end = start.saturating_add(bytes);
    let reaches = |known: &RuleCache| known.modules.iter().any(|m| m.start < end && start < m.end);
    if known.as_ref().is_some_and(reaches) {
        *known = None;
    }
}

/// A place in a function that has called another, and its pointers there.
#[derive(Clone, Copy)]
struct Place {
    address: u64,
    stack: u64,
    frame: u64,
}

/// Way from a place in a function to its caller.
#[derive(Clone, Copy)]
struct Rule {
    /// The end of the frame is found from the frame pointer, not from the stack pointer; and so far from it.
    from_frame: bool,
    offset: i64,
    /// Distance from there of the return address.
    address: i64,
    /// Distance from there of the caller's frame pointer, if it was put away.
    frame: Option<i64>,
}

impl Rule {
    fn caller(self, here: Place) -> Option<Place> {
        let from = if self.from_frame {
            here.frame
        } else {
            here.stack
        };
        let end = from.checked_add_signed(self.offset)?;
        let at = |distance: i64| {
            let mut word = [0];
            guest::words(end.checked_add_signed(distance)?, &mut word).then_some(word[0])
        };
        // Stacks grow down: one that does not is none.
        (end > here.stack).then_some(())?;
        Some(Place {
            address: at(self.address)?,
            stack: end,
            frame: match self.frame {
                Some(distance) => at(distance)?,
                None => here.frame,
            },
        })
    }
}

/// Rules by return address, and the files that they are from.
#[derive(Default)]
struct RuleCache {
    rules: HashMap<u64, Option<Rule>>,
    modules: Vec<Module>,
}

impl RuleCache {
    fn rule(&mut self, address: u64) -> Option<Rule> {
        if let Some(&rule) = self.rules.get(&address) {
            return rule;
        }
        // The call may be its function's last instruction.
        let call = guest::host_address(address).wrapping_sub(1);
        if !self.modules.iter().any(|module| module.has(call)) {
            self.modules.extend(Module::at(call));
        }
        let module = self.modules.iter().find(|module| module.has(call));
        let rule = module.and_then(|module| module.rule(call));
        self.rules.insert(address, rule);
        rule
    }
}

/// A file that code is mapped from.
struct Module {
    start: u64,
    end: u64,
    /// Distance from addresses as the file counts them to those of the mapping.
    moved: u64,
    tables: Option<Tables>,
}

/// Tables for unwinding. They stay for good: there are as many as files.
struct Tables {
    index: ParsedEhFrameHdr<Bytes>,
    frames: EhFrame<Bytes>,
    bases: BaseAddresses,
}

impl Module {
    fn has(&self, address: u64) -> bool {
        (self.start..self.end).contains(&address)
    }

    /// The file that is mapped at an address.
    fn at(address: u64) -> Option<Module> {
        let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
        maps.lines().find_map(|line| {
            let mut fields = line.splitn(6, ' ');
            let (start, end) = fields.next()?.split_once('-')?;
            let offset = fields.nth(1)?;
            let [start, end, offset] =
                [start, end, offset].map(|text| u64::from_str_radix(text, 16).unwrap_or(0));
            if !(start..end).contains(&address) {
                return None;
            }
            let path = fields.nth(2)?.trim_start();
            let file = File::open(path).ok();
            let segments = file.as_ref().and_then(Segments::of);
            // Without tables the address is known to have none.
            let moved = segments.as_ref().and_then(|all| all.address(offset));
            Some(Module {
                start,
                end,
                moved: start.wrapping_sub(moved.unwrap_or_default()),
                tables: file.zip(segments).and_then(|(file, all)| all.tables(&file)),
            })
        })
    }

    fn rule(&self, address: u64) -> Option<Rule> {
        thread_local! {
            static CONTEXT: RefCell<UnwindContext<usize>> = RefCell::new(UnwindContext::new());
        }
        let Tables {
            index,
            frames,
            bases,
        } = self.tables.as_ref()?;
        let address = address.wrapping_sub(self.moved);
        let function = index
            .table()?
            .fde_for_address(frames, bases, address, EhFrame::cie_from_offset)
            .ok()?;
        CONTEXT.with_borrow_mut(|context| {
            let row = function
                .unwind_info_for_address(frames, bases, context, address)
                .ok()?;
            let &CfaRule::RegisterAndOffset { register, offset } = row.cfa() else {
                return None;
            };
            let RegisterRule::Offset(address) = row.register(X86_64::RA)? else {
                return None;
            };
            let frame = match row.register(X86_64::RBP) {
                Some(RegisterRule::Offset(distance)) => Some(distance),
                None | Some(RegisterRule::SameValue | RegisterRule::Undefined) => None,
                Some(_) => return None,
            };
            let from_frame = register == X86_64::RBP;
            (from_frame || register == X86_64::RSP).then_some(Rule {
                from_frame,
                offset,
                address,
                frame,
            })
        })
    }
}

/// The program headers of an ELF file of 64 bits: type, place in the file, address and bytes there.
struct Segments(Vec<[u64; 4]>);

const LOAD: u64 = 1;
const EH_FRAME: u64 = 0x6474_e550;
/// More of tables than any program has.
const MOST_BYTES: u64 = 1 << 28;

impl Segments {
    fn of(file: &File) -> Option<Segments> {
        let mut header = [0; 64];
        file.read_exact_at(&mut header, 0).ok()?;
        let number = |bytes: &[u8], at: usize, size: usize| {
            let mut number = [0; 8];
            number[..size].copy_from_slice(&bytes[at..at + size]);
            u64::from_le_bytes(number)
        };
        if !header.starts_with(b"\x7fELF\x02\x01") || number(&header, 54, 2) != 56 {
            return None;
        }
        let mut table = vec![0; 56 * number(&header, 56, 2) as usize];
        file.read_exact_at(&mut table, number(&header, 32, 8))
            .ok()?;
        let entry = |entry: &[u8]| {
            [(0, 4), (8, 8), (16, 8), (32, 8)].map(|(at, size)| number(entry, at, size))
        };
        Some(Segments(table.chunks_exact(56).map(entry).collect()))
    }

    /// The address of what is at a place of the file; segments are mapped from the page that they begin in.
    fn address(&self, offset: u64) -> Option<u64> {
        self.0.iter().find_map(|&[kind, at, address, bytes]| {
            let begins = at & !4095;
            (kind == LOAD && (begins..at + bytes).contains(&offset))
                .then(|| (address & !4095).wrapping_add(offset - begins))
        })
    }

    fn tables(&self, file: &File) -> Option<Tables> {
        let &[_, at, address, _] = self.0.iter().find(|entry| entry[0] == EH_FRAME)?;
        let inside = |&&[kind, start, _, bytes]: &&[u64; 4]| {
            kind == LOAD && (start..start + bytes).contains(&at)
        };
        let &[_, start, first, bytes] = self.0.iter().find(inside)?;
        if bytes > MOST_BYTES {
            return None;
        }
        let mut segment = vec![0; bytes as usize];
        file.read_exact_at(&mut segment, start).ok()?;
        let segment: &'static [u8] = segment.leak();
        let part = |address: u64| {
            let at = usize::try_from(address.checked_sub(first)?).ok()?;
            segment.get(at..)
        };
        let bases = BaseAddresses::default().set_eh_frame_hdr(address);
        let index = EhFrameHdr::new(part(address)?, LittleEndian)
            .parse(&bases, 8)
            .ok()?;
        let gimli::Pointer::Direct(frames) = index.eh_frame_ptr() else {
            return None;
        };
        Some(Tables {
            index,
            frames: EhFrame::new(part(frames)?, LittleEndian),
            bases: bases.set_eh_frame(frames),
        })
    }
}
