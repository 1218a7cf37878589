# Values that go through memory: what is stored depends on a load, and so does what loads it again. "#=": see plain.s.
    .globl _start
_start:
    lea     top(%rip), %rsp
    lea     data(%rip), %rdi
    mov     first(%rip), %rax       #= L 8 first gap=2 dep=0
    mov     %rax, (%rdi)            #= S 8 data gap=0 dep=0
    mov     (%rdi), %rbx            #= L 8 data gap=0 dep=2
    mov     %rbx, 8(%rdi)           #= S 8 data+8 gap=0 dep=0
    mov     8(%rdi), %rcx           #= L 8 data+8 gap=0 dep=2
    mov     (%rcx), %rdx            #= L 8 second gap=0 dep=1
    movq    $0, (%rdi)              #= S 8 data gap=0 dep=0
    mov     (%rdi), %rbx            #= L 8 data gap=0 dep=0
# Parts. What is in the same four bytes is one.
    mov     first(%rip), %eax       #= L 4 first gap=0 dep=0
    mov     %eax, 16(%rdi)          #= S 4 data+16 gap=0 dep=0
    mov     20(%rdi), %ebx          #= L 4 data+20 gap=0 dep=0
    mov     16(%rdi), %rbx          #= L 8 data+16 gap=0 dep=3
    movb    $1, 17(%rdi)            #= S 1 data+17 gap=0 dep=0
    movzwl  18(%rdi), %ebx          #= L 2 data+18 gap=0 dep=5
    mov     14(%rdi), %rbx          #= L 8 data+14 gap=0 dep=6
    movl    $1, 16(%rdi)            #= S 4 data+16 gap=0 dep=0
    mov     14(%rdi), %rbx          #= L 8 data+14 gap=0 dep=14
# A counter.
    incq    24(%rdi)                #= L 8 data+24 gap=0 dep=0; S 8 data+24 gap=0 dep=0
    incq    24(%rdi)                #= L 8 data+24 gap=0 dep=2; S 8 data+24 gap=0 dep=0
    jmp     next
next:
    incq    24(%rdi)                #= L 8 data+24 gap=1 dep=2; S 8 data+24 gap=0 dep=0
# The stack: an argument, a return address, a register that is saved.
    mov     first(%rip), %rbx       #= L 8 first gap=0 dep=0
    push    %rbx                    #= S 8 top-8 gap=0 dep=0
    call    callee                  #= S 8 top-16 gap=0 dep=0
    jmp     back
callee:
    mov     8(%rsp), %rsi           #= L 8 top-8 gap=0 dep=3
    push    %rsi                    #= S 8 top-24 gap=0 dep=0
    xor     %esi, %esi
    pop     %rsi                    #= L 8 top-24 gap=1 dep=2
    ret                             #= L 8 top-16 gap=0 dep=0
back:
    pop     %rbx                    #= L 8 top-8 gap=1 dep=7
    enter   $0, $0                  #= S 8 top-8 gap=0 dep=0
    mov     first(%rip), %rbp       #= L 8 first gap=0 dep=0
    enter   $0, $0                  #= S 8 top-16 gap=0 dep=0
    pop     %rbp                    #= L 8 top-16 gap=0 dep=2
# What is stored is not what the instruction loads.
    mov     first(%rip), %rax       #= L 8 first gap=0 dep=0
    xchg    %rax, 32(%rdi)          #= L 8 data+32 gap=0 dep=0; S 8 data+32 gap=0 dep=0
    mov     32(%rdi), %rcx          #= L 8 data+32 gap=0 dep=3
    mov     %rax, 40(%rdi)          #= S 8 data+40 gap=0 dep=0
    mov     40(%rdi), %rcx          #= L 8 data+40 gap=0 dep=4
# The address and the value.
    mov     first(%rip), %rcx       #= L 8 first gap=0 dep=0
    mov     first(%rip), %rax       #= L 8 first gap=0 dep=0
    mov     %rcx, (%rax)            #= S 8 second gap=0 dep=1
    mov     (%rax), %rbx            #= L 8 second gap=0 dep=2:3
    mov     first(%rip), %rsi       #= L 8 first gap=0 dep=0
    mov     %rsi, (%rax)            #= S 8 second gap=0 dep=4
    mov     (%rax), %rbx            #= L 8 second gap=0 dep=2:5
# Flags, vectors, strings.
    cmpq    $0, first(%rip)         #= L 8 first gap=0 dep=0
    sete    48(%rdi)                #= S 1 data+48 gap=0 dep=0
    movzbl  48(%rdi), %ebx          #= L 1 data+48 gap=0 dep=2
    movups  112(%rdi), %xmm0        #= L 16 data+112 gap=0 dep=0
    movaps  %xmm0, %xmm1
    movups  %xmm1, 64(%rdi)         #= S 16 data+64 gap=1 dep=0
    mov     72(%rdi), %rbx          #= L 8 data+72 gap=0 dep=2
    mov     60(%rdi), %rbx          #= L 8 data+60 gap=0 dep=3
    mov     80(%rdi), %rbx          #= L 8 data+80 gap=0 dep=0
    lea     64(%rdi), %rsi
    lea     96(%rdi), %rdi
    mov     $2, %ecx
    rep movsq                       #= L 16 data+64 gap=3 dep=5; S 16 data+96 gap=0 dep=0
    mov     -16(%rdi), %rbx         #= L 8 data+96 gap=0 dep=2
    mov     -8(%rdi), %rax          #= L 8 data+104 gap=0 dep=3
    stosq                           #= S 8 data+112 gap=0 dep=0
    mov     -8(%rdi), %rbx          #= L 8 data+112 gap=0 dep=2
# The kernel may have changed it.
    mov     %rbx, (%rdi)            #= S 8 data+120 gap=0 dep=0
    mov     %rdi, %rbx
    mov     $12, %eax               # brk
    xor     %edi, %edi
    syscall
    mov     (%rbx), %rax            #= L 8 data+120 gap=4 dep=0
    mov     $60, %eax
    xor     %edi, %edi
    syscall
    .data
    .balign 4096
first:
    .quad   second
second:
    .quad   0
    .bss
    .balign 4096
data:
    .space  512
    .space  512
top:
    .space  64
