//! Dependences through the flags, wherever the code lies.

mod common;

use common::assemble_text;

/// A binary search that moves its bound by `cmov`, `before` bytes before a page ends: its loop takes
/// 14 to the conditional move, which is one of four.
fn search(before: u32) -> String {
    format!(
        "
    .globl _start
    .p2align 12
    .skip 2048
_start:
    lea data(%rip), %rbx
    mov $37, %r8
    mov len(%rip), %rdx
    xor %eax, %eax
    jmp 1f
    .p2align 12
    .skip 4096 - {before}
1:  mov %rdx, %rsi
    shr %rsi
    lea (%rsi,%rax), %r9
    cmp %r8, (%rbx,%r9,8)
    cmovb %r9, %rax
    sub %rsi, %rdx
    cmp $1, %rdx
    ja 1b
    mov (%rbx,%rax,8), %rcx
    mov $60, %eax
    xor %edi, %edi
    syscall
    .data
    .p2align 12
len: .quad 64
data:
    .set i, 0
    .rept 64
    .quad i
    .set i, i + 1
    .endr
"
    )
}

#[test]
fn a_move_by_what_was_compared_waits_for_it_where_a_page_ends_between() {
    let dependences = |before| {
        let program = assemble_text(&format!("search{before}"), &search(before));
        let recorded = program.record();
        let accesses = recorded.program_accesses();
        assert_eq!(accesses.len(), 8, "{before}");
        accesses.iter().map(|access| access.dep).collect::<Vec<_>>()
    };
    let in_a_page = dependences(64);
    // Each look waits for the one before, by `cmov`, and for the length or the one before that.
    assert!(in_a_page[2..].iter().all(|&dep| dep != 0));
    // Between any two instructions, and in the middle of one.
    for before in 1..28 {
        assert_eq!(dependences(before), in_a_page, "{before}");
    }
}
