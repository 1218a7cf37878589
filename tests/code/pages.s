# Jumps round and round through PAGES pages of its own code, ROUNDS times, after a single load: how
# often the instructions' TLB and cache miss can be counted on paper. Each page has a jump in a
# line of its own, so that the lines of all pages fill the sets of a cache evenly.
        .globl  _start
_start:
        mov     (%rsp), %rax
        mov     $ROUNDS, %ecx
        jmp     code + 8
        .balign 4096
code:
        .set    page, 0
        .rept   PAGES - 1
        .balign 4096
        .skip   page % 64 * 64 + 8
        jmp     code + 4096 * (page + 1) + (page + 1) % 64 * 64 + 8
        .set    page, page + 1
        .endr
        .balign 4096
        .skip   page % 64 * 64 + 8
        dec     %ecx
        jnz     code + 8
        mov     $60, %eax
        xor     %edi, %edi
        syscall
