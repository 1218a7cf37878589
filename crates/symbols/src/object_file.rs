use crate::origin::Origin;
use crate::regular::regular;
use addr2line::gimli::{
    BaseAddresses, CieOrFde, EhFrame, EndianSlice, LittleEndian, UnwindSection,
};
use addr2line::{Loader, demangle_auto};
use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol, SymbolKind};
use std::borrow::Cow;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Folder of files of debug information by the identity of what they are of (GDB's manual,
/// "Separate Debug Files").
const DEBUG: &str = "/usr/lib/debug/.build-id";

/// A program or library.
pub(crate) struct ObjectFile {
    file: File,
    /// Mapped segments: place in the file, bytes, address as the file counts it.
    segments: Vec<(u64, u64, u64)>,
    /// The symbols that it exports, by address: start, end, name.
    exported: Vec<(u64, u64, String)>,
    /// The functions that can be unwound, by address: start, end. Stripped files have them, too.
    unwound: Vec<(u64, u64)>,
    /// Path of the file.
    path: PathBuf,
    /// Its debug information, or its symbols only.
    debug: Option<Loader>,
}

impl ObjectFile {
    pub(crate) fn open(path: &str) -> Option<ObjectFile> {
        if !regular(path.as_ref()) {
            return None;
        }
        let bytes = fs::read(path).ok()?;
        let parsed = object::File::parse(&*bytes).ok()?;
        let segments = parsed.segments().map(|segment| {
            let (offset, size) = segment.file_range();
            (offset, size, segment.address())
        });
        let mut exported: Vec<_> = parsed
            .dynamic_symbols()
            .filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.size() > 0)
            .filter_map(|symbol| {
                let name = symbol.name().ok()?.to_owned();
                let start = symbol.address();
                Some((start, start.saturating_add(symbol.size()), name))
            })
            .collect();
        exported.sort_unstable();
        let beside = || {
            let id = parsed.build_id().ok()??;
            let (first, rest) = id.split_first()?;
            let hex: String = rest.iter().map(|byte| format!("{byte:02x}")).collect();
            let file: PathBuf = [DEBUG, &format!("{first:02x}"), &format!("{hex}.debug")]
                .iter()
                .collect();
            file.exists().then_some(file)
        };
        let has_own = parsed.section_by_name(".debug_info").is_some();
        let own = || Loader::new(Path::new(path)).ok();
        let debug = if has_own {
            own()
        } else {
            let found = beside().and_then(|file| Loader::new(file).ok());
            found.or_else(own)
        };
        Some(ObjectFile {
            segments: segments.collect(),
            exported,
            unwound: unwound(&parsed),
            path: path.into(),
            debug,
            file: File::open(path).ok()?,
        })
    }

    /// True if it has these bytes at this place.
    pub(crate) fn holds(&self, offset: u64, bytes: &[u8]) -> bool {
        let mut found = vec![0; bytes.len()];
        self.file.read_exact_at(&mut found, offset).is_ok() && found == bytes
    }

    /// Says where the instruction is from that is at this place of the file, in a block that begins at another.
    pub(crate) fn locate(&self, offset: u64, block: u64, origin: &mut Origin) {
        let Some(address) = self.address(offset) else {
            return;
        };
        if let Some(debug) = &self.debug {
            frames(debug, address, origin);
            if origin.function.is_none() {
                origin.function = debug.find_symbol(address).map(readable);
            }
        }
        if origin.function.is_none() {
            let after = (self.exported).partition_point(|&(start, ..)| start <= address);
            let found = after.checked_sub(1).map(|at| &self.exported[at]);
            origin.function = found
                .filter(|&&(_, end, _)| address < end)
                .map(|(.., name)| readable(name));
        }
        if origin.function.is_none() {
            // As addr2line(1) and objdump(1) take addresses.
            let after = self.unwound.partition_point(|&(start, _)| start <= address);
            let function = after.checked_sub(1).map(|at| self.unwound[at]);
            let start = function
                .filter(|&(_, end)| address < end)
                .map(|(start, _)| start)
                .or_else(|| self.address(block));
            let name = self.path.file_name().unwrap_or_default();
            origin.function = start.map(|start| format!("{}+{start:#x}", name.to_string_lossy()));
        }
    }

    fn address(&self, offset: u64) -> Option<u64> {
        self.segments.iter().find_map(|&(start, size, address)| {
            let inside = offset.checked_sub(start).filter(|&inside| inside < size)?;
            Some(address.wrapping_add(inside))
        })
    }
}

/// Begin and end of functions by the tables for unwinding (.eh_frame: Linux Standard Base, "Exception Frames").
fn unwound(file: &object::File) -> Vec<(u64, u64)> {
    let Some(section) = file.section_by_name(".eh_frame") else {
        return Vec::new();
    };
    let Ok(data) = section.uncompressed_data() else {
        return Vec::new();
    };
    let frames = EhFrame::from(EndianSlice::new(&data, LittleEndian));
    let bases = BaseAddresses::default().set_eh_frame(section.address());
    let mut entries = frames.entries(&bases);
    let mut found = Vec::new();
    while let Ok(Some(entry)) = entries.next() {
        if let CieOrFde::Fde(partial) = entry
            && let Ok(function) = partial.parse(EhFrame::cie_from_offset)
        {
            found.push((function.initial_address(), function.end_address()));
        }
    }
    found.sort_unstable();
    found
}

/// Functions and line by the debug information.
fn frames(debug: &Loader, address: u64, origin: &mut Origin) {
    let Ok(mut frames) = debug.find_frames(address) else {
        return;
    };
    let mut innermost = true;
    while let Ok(Some(frame)) = frames.next() {
        let name = frame.function.as_ref().and_then(|function| {
            let name = function.demangle().ok()?;
            Some(name.into_owned())
        });
        if innermost {
            if let Some(location) = frame.location {
                origin.file = location.file.map(str::to_owned);
                origin.line = location.line.filter(|&line| line > 0);
            }
            origin.function = name;
        } else {
            origin.inlined_into.extend(name);
        }
        innermost = false;
    }
}

fn readable(symbol: &str) -> String {
    demangle_auto(Cow::Borrowed(symbol), None).into_owned()
}
