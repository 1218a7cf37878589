# Atomic instructions, aligned and not. "#=": see plain.s.
# With PARALLEL another thread is started first: QEMU then executes them in another way.
    .globl _start
_start:
.ifdef PARALLEL
    mov     $56, %eax               # clone
    mov     $0x50f00, %edi          # CLONE_VM | FS | FILES | SIGHAND | THREAD | SYSVSEM
    lea     data+4096(%rip), %rsi
    xor     %edx, %edx
    xor     %r10d, %r10d
    xor     %r8d, %r8d
    syscall
    test    %eax, %eax
    jnz     parent
    mov     $60, %eax               # exit
    xor     %edi, %edi
    syscall
parent:
.endif
    lea     data(%rip), %rdi
    lock incl (%rdi)                #= L 4 data gap=1 dep=0; S 4 data gap=0 dep=0
    lock addq $1, 8(%rdi)           #= L 8 data+8 gap=0 dep=0; S 8 data+8 gap=0 dep=0
    lock orb $1, 5(%rdi)            #= L 1 data+5 gap=0 dep=0; S 1 data+5 gap=0 dep=0
    mov     $1, %eax
    lock xaddl %eax, 16(%rdi)       #= L 4 data+16 gap=1 dep=0; S 4 data+16 gap=0 dep=0
    xchgq   %rax, 24(%rdi)          #= L 8 data+24 gap=0 dep=0; S 8 data+24 gap=0 dep=0
    xor     %eax, %eax
    mov     $7, %ebx
    lock cmpxchgq %rbx, 32(%rdi)    #= L 8 data+32 gap=2 dep=0; S 8 data+32 gap=0 dep=0
    lock cmpxchgq %rbx, 32(%rdi)    #= L 8 data+32 gap=0 dep=2; S 8 data+32 gap=0 dep=0
    cmpxchgl %ebx, 40(%rdi)         #= L 4 data+40 gap=0 dep=0; S 4 data+40 gap=0 dep=0
    xaddq   %rbx, 48(%rdi)          #= L 8 data+48 gap=0 dep=0; S 8 data+48 gap=0 dep=0
    xor     %eax, %eax
    xor     %edx, %edx
    lock cmpxchg16b 64(%rdi)        #= L 16 data+64 gap=2 dep=0; S 16 data+64 gap=0 dep=0
    lock btsl $2, 80(%rdi)          #= L 4 data+80 gap=0 dep=0; S 4 data+80 gap=0 dep=0
    lock decq 90(%rdi)              #= L 8 data+90 gap=0 dep=0; S 8 data+90 gap=0 dep=0
    movq    90(%rdi), %rax          #= L 8 data+90 gap=0 dep=2
    lock addl $1, 101(%rdi)         #= L 4 data+101 gap=0 dep=0; S 4 data+101 gap=0 dep=0
    mfence
    movl    101(%rdi), %eax         #= L 4 data+101 gap=1 dep=2
    mov     $60, %eax
    xor     %edi, %edi
    syscall
    .bss
    .balign 4096
data:
    .space  4096
