//! Addresses of mappings under our emulator, against those that the kernel gives the program natively.

mod common;

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Program, build, emulator};

/// The emulator places programs lower by a multiple of this (linux-user/placement.c in its patch).
const SHIFT: u64 = 1 << 30;

/// A line of layout.c: a call, and its address or how it failed.
type Call = (String, Result<u64, String>);

fn calls(command: &mut Command, program: &Program, file: &Path) -> Vec<Call> {
    let output = command.arg(&program.path).arg(file).output();
    let output = output.expect("it runs");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("it is text");
    let call = |line: &str| {
        let (name, result) = line.rsplit_once(' ').expect("a call and a result");
        let address = result
            .strip_prefix("0x")
            .map(|digits| u64::from_str_radix(digits, 16).expect("an address"));
        (name.to_owned(), address.ok_or_else(|| result.to_owned()))
    };
    text.lines().map(call).collect()
}

/// Each address by its rank among all: equal for the same order, and for the same reuse.
fn ranks(calls: &[Call]) -> Vec<Option<usize>> {
    let addresses = calls.iter().filter_map(|(_, result)| result.as_ref().ok());
    let mut ranks: BTreeMap<u64, usize> = addresses.map(|&address| (address, 0)).collect();
    (ranks.values_mut().enumerate()).for_each(|(index, rank)| *rank = index);
    let rank = |(_, result): &Call| result.as_ref().ok().map(|address| ranks[address]);
    calls.iter().map(rank).collect()
}

#[test]
fn mappings_are_where_linux_puts_them() {
    let qemu = emulator().expect("PAGELAB_TEST_QEMU names the emulator");
    let found = pagelab_recorder::emulator(Some(&qemu), None, None).expect("it loads the plugin");
    // Others have not the patch.
    if !found.places_as_linux() {
        return;
    }
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("layout.file");
    let made = File::create(&file).and_then(|made| made.set_len(9 << 20));
    made.expect("a file of 9 MiB");
    for kind in [
        &["-pie"] as &[&str],
        &["-no-pie"],
        &["-static"],
        &["-static-pie"],
    ] {
        let program = build("layout.c", &[&["-O1", "-pthread"], kind].concat());
        let native = calls(Command::new("setarch").arg("-R"), &program, &file);
        let emulated = calls(&mut Command::new(&qemu), &program, &file);
        assert_eq!(native.len(), emulated.len(), "{kind:?}");
        for (line, (native, emulated)) in native.iter().zip(&emulated).enumerate() {
            let modulo = |(name, result): &Call| {
                (name.clone(), result.clone().map(|address| address % SHIFT))
            };
            assert_eq!(
                modulo(native),
                modulo(emulated),
                "{kind:?}, line {}",
                line + 1
            );
        }
        assert_eq!(ranks(&native), ranks(&emulated), "{kind:?}");
    }
}
