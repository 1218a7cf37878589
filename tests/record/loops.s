# Loops over memory, 4 accesses a round: for windows.
    .globl _start
_start:
    lea     data(%rip), %rdi
    mov     $30000, %ecx
again:
    mov     %ecx, %eax
    and     $1023, %eax
    mov     (%rdi,%rax,8), %rdx
    mov     %rdx, 8(%rdi,%rax,8)
    addq    $1, (%rdi)
    dec     %ecx
    jnz     again
    mov     $60, %eax
    xor     %edi, %edi
    syscall
    .bss
    .balign 4096
data:
    .space  16384
