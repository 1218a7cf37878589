//! Recordings of real programs agree with what others say of them.

mod common;

use std::fs;
use std::path::Path;
use std::process::Command;

use common::{assemble_text, build, run};
use pagelab_recorder::Request;

/// Working out addresses instead of having them reported must not change anything.
fn same_when_every_access_is_reported(request: &Request) {
    let worked_out = run(request);
    let reported = run(&Request {
        verbatim: true,
        ..request.clone()
    });
    let pairs = worked_out.events.iter().zip(&reported.events);
    for (index, (worked_out, reported)) in pairs.enumerate() {
        assert_eq!(worked_out, reported, "event {index}");
    }
    assert_eq!(worked_out.events.len(), reported.events.len());
    assert_eq!(
        worked_out.outcome.instructions,
        reported.outcome.instructions
    );
}

#[test]
fn a_dynamically_linked_program_is_the_same_when_every_access_is_reported() {
    same_when_every_access_is_reported(&build("work.c", &["-O2"]).request());
}

#[test]
fn an_unoptimised_program_is_the_same_when_every_access_is_reported() {
    same_when_every_access_is_reported(
        &build("work.c", &["-O0", "-static", "-mfpmath=387"]).request(),
    );
}

#[test]
fn a_compiler_is_the_same_when_every_access_is_reported() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/record/string.s");
    let request = Request {
        program: "as".into(),
        arguments: vec![source.into(), "-o".into(), "/dev/null".into()],
        ..Request::default()
    };
    same_when_every_access_is_reported(&request);
}

/// Instructions with a memory operand A: with V, a vector register of 16 or 32 bytes, or H, one of 16.
const VECTORS: &str = "
    vmovdqu A, V; vmovdqu V, A; vmovdqa A, V; vmovdqa V, A; vmovups A, V; vmovups V, A; vmovaps A, V; vmovaps V, A;
    vmovupd A, V; vmovupd V, A; vmovapd A, V; vmovapd V, A; vlddqu A, V; vmovntdq V, A; vmovntps V, A; vmovntpd V, A;
    vmovd A, H; vmovd H, A; vmovq A, H; vmovq H, A; vmovss A, H; vmovss H, A; vmovsd A, H; vmovsd H, A;
    vmovhps A, H, H; vmovhps H, A; vmovlps A, H, H; vmovlps H, A; vmovhpd A, H, H; vmovhpd H, A; vmovlpd A, H, H;
    vmovlpd H, A; vaddps A, V, V; vaddpd A, V, V; vaddss A, H, H; vaddsd A, H, H; vsubps A, V, V; vsubpd A, V, V;
    vsubss A, H, H; vsubsd A, H, H; vmulps A, V, V; vmulpd A, V, V; vmulss A, H, H; vmulsd A, H, H; vdivps A, V, V;
    vdivpd A, V, V; vdivss A, H, H; vdivsd A, H, H; vmaxss A, H, H; vmaxsd A, H, H; vminss A, H, H; vminsd A, H, H;
    vsqrtss A, H, H; vsqrtsd A, H, H; vcomiss A, H; vcomisd A, H; vucomiss A, H; vucomisd A, H; vcvtsd2ss A, H, H;
    vcvtsi2sdl A, H, H; vcvtsi2sdq A, H, H; vcvtsi2ssl A, H, H; vcvtsi2ssq A, H, H; vcvttsd2si A, %eax;
    vcvttsd2si A, %rax; vcvttss2si A, %eax; vcvttss2si A, %rax; vandps A, V, V; vandpd A, V, V; vandnps A, V, V;
    vandnpd A, V, V; vorps A, V, V; vorpd A, V, V; vxorps A, V, V; vxorpd A, V, V; vpaddb A, V, V; vpaddw A, V, V;
    vpaddd A, V, V; vpaddq A, V, V; vpsubb A, V, V; vpsubw A, V, V; vpsubd A, V, V; vpsubq A, V, V; vpand A, V, V;
    vpandn A, V, V; vpor A, V, V; vpxor A, V, V; vpcmpeqb A, V, V; vpcmpeqw A, V, V; vpcmpeqd A, V, V;
    vpcmpgtb A, V, V; vpcmpgtw A, V, V; vpcmpgtd A, V, V; vpmaxub A, V, V; vpminub A, V, V; vpshufd $1, A, V;
    vpshufb A, V, V; vbroadcastss A, V; vbroadcastsd A, %ymm1; vbroadcastf128 A, %ymm1; vbroadcasti128 A, %ymm1;
    vpbroadcastb A, V; vpbroadcastw A, V; vpbroadcastd A, V; vpbroadcastq A, V; vinsertf128 $1, A, %ymm1, %ymm1;
    vinserti128 $1, A, %ymm1, %ymm1; vextractf128 $1, %ymm1, A; vextracti128 $1, %ymm1, A; andn A, %rax, %rdx;
    bextr %rax, A, %rdx; blsi A, %rdx; blsmsk A, %rdx; blsr A, %rdx; bzhi %rax, A, %rdx; mulx A, %rax, %rdx;
    rorx $3, A, %rdx; sarx %rax, A, %rdx; shlx %rax, A, %rdx; shrx %rax, A, %rdx; andn A, %eax, %edx;
    bzhi %eax, A, %edx";

/// Each where it is reported, and then behind another that is made with the same pointer, where it is worked out:
/// aligned, and across a line and a page where that is no fault.
#[test]
fn vectors_are_the_same_when_every_access_is_reported() {
    let mut source = String::from(".globl _start\n_start: lea data(%rip), %rdi\n");
    for instruction in VECTORS.split(';').map(str::trim) {
        let aligned = ["movdqa", "movap", "movnt"];
        let aligned = aligned.iter().any(|name| instruction.contains(name));
        let places: &[u32] = if aligned { &[64] } else { &[64, 57, 4090] };
        let registers: &[&str] = match instruction.contains('V') {
            true => &["%xmm1", "%ymm1"],
            false => &["%xmm1"],
        };
        for register in registers {
            let text = (instruction.replace('V', register)).replace('H', "%xmm1");
            for place in places {
                let reported = text.replace('A', &format!("{place}(%rdi)"));
                let worked_out = text.replace('A', &format!("{}(%rdi)", place + 4096));
                let next = "jmp 1f\n1:";
                source += &format!("{reported}\n{next} mov (%rdi), %rcx\n{worked_out}\n{next}\n");
            }
        }
    }
    source += "mov $60, %eax\nxor %edi, %edi\nsyscall\n.bss\n.balign 4096\ndata: .space 16384\n";
    same_when_every_access_is_reported(&assemble_text("vectors", &source).request());
}

/// docs/record.md says why the two need not agree to the last access.
const TOLERANCE: f64 = 0.01;

/// Has the C library take the same string functions on both emulated processors: the plainest.
const TUNABLES: (&str, &str) = (
    "GLIBC_TUNABLES",
    "glibc.cpu.hwcaps=-AVX2_Usable,-AVX2,-AVX_Fast_Unaligned_Load,-ERMS,-FSRM,-BMI2,-SSSE3,-SSE4_1,-SSE4_2",
);

#[test]
fn loads_and_stores_are_as_many_as_valgrind_counts() {
    let program = build("work.c", &["-O2", "-static"]);
    let log = Path::new(env!("CARGO_TARGET_TMPDIR")).join("lackey.log");
    Command::new("valgrind")
        .args(["--tool=lackey", "--trace-mem=yes"])
        .arg(format!("--log-file={}", log.display()))
        .arg(&program.path)
        .env(TUNABLES.0, TUNABLES.1)
        .status()
        .expect("valgrind runs (Debian: apt-get install valgrind)");
    let text = fs::read_to_string(log).expect("Lackey writes its log");
    let count = |kinds: [&str; 2]| {
        let of_kind = |line: &&str| kinds.iter().any(|kind| line.starts_with(kind));
        text.lines().filter(of_kind).count() as f64
    };
    let request = Request {
        environment: vec![(TUNABLES.0.into(), TUNABLES.1.into())],
        ..program.request()
    };
    let recorded = run(&request);
    let accesses = recorded.program_accesses();
    let stores = accesses
        .iter()
        .filter(|access| access.op.is_store())
        .count() as f64;
    let loads = accesses.len() as f64 - stores;
    for (name, ours, theirs) in [
        ("loads", loads, count([" L ", " M "])),
        ("stores", stores, count([" S ", " M "])),
    ] {
        let difference = ours / theirs - 1.0;
        println!(
            "{name}: {ours} recorded, {theirs} by Lackey: {:+.3} %",
            100.0 * difference
        );
        assert!(difference.abs() < TOLERANCE, "{name}: {ours} and {theirs}");
    }
}
