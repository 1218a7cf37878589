# 80-bit x87 operands. QEMU from 9.1 on does not report them. "#=": see plain.s.
    .globl _start
_start:
    lea     data(%rip), %rdi
    fldt    32(%rdi)                #= L 10 data+32 gap=1 dep=0
    fstpt   48(%rdi)                #= S 10 data+48 gap=0 dep=0
    movq    (%rdi), %rax            #= L 8 data gap=0 dep=0
    mov     $60, %eax
    xor     %edi, %edi
    syscall
    .bss
    .balign 4096
data:
    .space  4096
