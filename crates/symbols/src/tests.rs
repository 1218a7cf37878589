//! Against a compiled program whose lines are known by its source.

use super::*;
use object::{Object, ObjectSection, ObjectSymbol};
use pagelab_events::{CodeBlock, Definition};
use std::path::Path;
use std::process::Command;

const SOURCE: &str = "\
static inline __attribute__((always_inline)) int twice(int x) {
    return x * 2 +
        *(volatile int *)(long)x;
}
__attribute__((noinline)) int outer(int x) {
    return twice(x);
}
int main(void) { return outer(3); }
";

/// The program, and the function's place in the file, its bytes and the file's path.
fn compiled(flags: &[&str], folder: &Path) -> (String, u64, Vec<u8>) {
    let source = folder.join("known.c");
    let program = folder.join("known");
    std::fs::write(&source, SOURCE).unwrap();
    let mut gcc = Command::new("gcc");
    gcc.args(flags)
        .arg("-O1")
        .arg(&source)
        .arg("-o")
        .arg(&program);
    assert!(gcc.status().unwrap().success());
    let bytes = std::fs::read(&program).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let symbol = file.symbols().find(|s| s.name() == Ok("outer")).unwrap();
    let text = file.section_by_name(".text").unwrap();
    let offset = text.file_range().unwrap().0 + (symbol.address() - text.address());
    let code = bytes[offset as usize..][..symbol.size() as usize].to_vec();
    (program.display().to_string(), offset, code)
}

/// The origins of all bytes of a block, each taken for an instruction.
fn origins(path: &str, offset: u64, code: &[u8]) -> (Vec<Origin>, Vec<String>) {
    let mut table = CodeTable::default();
    assert!(table.define(Definition::File(path.to_owned())));
    assert!(table.define(Definition::Block(CodeBlock {
        pc: 0x5000,
        file: 1,
        file_offset: offset,
        lengths: vec![1; code.len()].into(),
        bytes: code.into(),
        ..CodeBlock::default()
    })));
    let mut symbols = Symbols::new(&table);
    let all = (0..table.sites())
        .map(|site| symbols.origin(site))
        .collect();
    (all, symbols.changed().map(str::to_owned).collect())
}

#[test]
fn inlined_functions_and_lines_are_found_by_debug_information() {
    let folder = tempfile::tempdir().unwrap();
    let (path, offset, code) = compiled(&["-g"], folder.path());
    let (found, changed) = origins(&path, offset, &code);
    assert!(changed.is_empty());
    let lines: Vec<_> = found.iter().map(|origin| origin.line.unwrap()).collect();
    assert!(lines.contains(&2) || lines.contains(&3), "{lines:?}");
    for origin in &found {
        assert_eq!(origin.object.as_ref(), Some(&path));
        let inlined = matches!(origin.line, Some(2 | 3));
        let function = if inlined { "twice" } else { "outer" };
        assert_eq!(origin.function.as_deref(), Some(function), "{origin:?}");
        let into: &[&str] = if inlined { &["outer"] } else { &[] };
        assert_eq!(origin.inlined_into, into);
    }
    let file = found[0].file.clone().unwrap();
    assert_eq!(
        SourceText::default().line(&file, 6),
        Some("return twice(x);")
    );
    assert_eq!(SourceText::default().line(&file, 60), None);
}

#[test]
fn without_debug_information_there_are_symbols_and_without_those_exported_ones() {
    for flags in [&[][..], &["-s", "-rdynamic"]] {
        let folder = tempfile::tempdir().unwrap();
        let (path, offset, code) = compiled(&["-rdynamic"], folder.path());
        let mut strip = Command::new("gcc");
        let source = folder.path().join("known.c");
        strip
            .args(flags)
            .args(["-O1", "-rdynamic"])
            .arg(source)
            .arg("-o")
            .arg(&path);
        assert!(strip.status().unwrap().success());
        let (found, _) = origins(&path, offset, &code);
        for origin in found {
            assert_eq!(origin.function.as_deref(), Some("outer"));
            assert_eq!((origin.file, origin.line), (None, None));
        }
    }
}

#[test]
fn a_function_without_a_name_is_called_by_its_file_and_address() {
    let folder = tempfile::tempdir().unwrap();
    let (path, offset, code) = compiled(&[], folder.path());
    let bytes = std::fs::read(&path).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let outer = file.symbols().find(|s| s.name() == Ok("outer")).unwrap();
    let named = format!("known+{:#x}", outer.address());
    for sections in [&[][..], &["-R.eh_frame"]] {
        let mut strip = Command::new("strip");
        assert!(strip.args(sections).arg(&path).status().unwrap().success());
        // From its second instruction on: the function's start is found, or is the block's.
        let skip = if sections.is_empty() { 4 } else { 0 };
        let (found, _) = origins(&path, offset + skip, &code[skip as usize..]);
        for origin in found {
            assert_eq!(origin.function.as_deref(), Some(named.as_str()));
        }
    }
}

#[test]
fn a_file_that_is_not_what_it_was_says_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (path, offset, mut code) = compiled(&["-g"], folder.path());
    code[0] ^= 1;
    let (found, changed) = origins(&path, offset, &code);
    assert_eq!(changed, [path.as_str()]);
    assert!(found.iter().all(|origin| origin.function.is_none()));
    let (found, changed) = origins("/nowhere/at/all", offset, &code);
    assert_eq!(changed, ["/nowhere/at/all"]);
    assert_eq!(found[0].object.as_deref(), Some("/nowhere/at/all"));
}

/// A trace may name what is no file, and places that no file has.
#[test]
fn what_a_trace_claims_is_not_believed() {
    for path in ["/dev/zero", "/proc/self/task", ""] {
        let (found, changed) = origins(path, 0, &[0x90]);
        assert_eq!(changed, [path]);
        assert_eq!(found[0].function, None);
    }
    assert_eq!(SourceText::default().line("/dev/zero", 1), None);
    let folder = tempfile::tempdir().unwrap();
    let (path, ..) = compiled(&[], folder.path());
    let mut table = CodeTable::default();
    assert!(table.define(Definition::File(path)));
    assert!(table.define(Definition::Block(CodeBlock {
        pc: u64::MAX,
        file: 1,
        file_offset: u64::MAX,
        lengths: [1; 3].into(),
        ..CodeBlock::default()
    })));
    let mut symbols = Symbols::new(&table);
    assert_eq!(symbols.origin(2).function, None);
}

/// An instruction of which another tool's trace has the address and no more is named by it; code that
/// is in no file, whose bytes were recorded, is not.
#[test]
fn an_instruction_of_which_only_the_address_is_known_is_named_by_it() {
    let mut table = CodeTable::default();
    for length in [0, 3] {
        assert!(table.define(Definition::Block(CodeBlock {
            pc: 0x40_1a2c,
            lengths: [length].into(),
            bytes: vec![0x90; usize::from(length)].into(),
            ..CodeBlock::default()
        })));
    }
    let mut symbols = Symbols::new(&table);
    let named = Origin {
        function: Some("0x401a2c".to_owned()),
        ..Origin::default()
    };
    assert_eq!(symbols.origin(0), named);
    assert_eq!(symbols.origin(1), Origin::default());
}
