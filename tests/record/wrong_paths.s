# Branches on random bits whose ways meet again, and one of which that is not known. Each phase begins
# with a store to `phase`; each round begins with the load that decides, and a jump that is taken half of
# the time.

    .globl _start
    .bss
    .balign 64
random: .skip 65536
phase:  .skip 8
inside: .skip 8
otherwise: .skip 8
free:   .skip 8
pages:  .skip 8

    .text
_start:
    # Random bytes (xorshift, Marsaglia 2003).
    mov $88172645463325252, %rax
    xor %ecx, %ecx
0:  mov %rax, %rdx
    shl $13, %rdx
    xor %rdx, %rax
    mov %rax, %rdx
    shr $7, %rdx
    xor %rdx, %rax
    mov %rax, %rdx
    shl $17, %rdx
    xor %rdx, %rax
    mov %rax, random(%rcx)
    add $8, %ecx
    cmp $65536, %ecx
    jne 0b

    # 1: a body that is skipped. Its load waits for the branch if that was mispredicted. So does what is
    # loaded by %rdx, which the body writes or would have written: the load of the body, or the one that
    # decides, is two accesses back. The load between is free.
    movb $1, phase
    xor %ecx, %ecx
    xor %edx, %edx
1:  movzbl random(%rcx), %eax
    test $1, %al
    jz 2f
    mov inside, %rdx
2:  mov free, %rsi
    mov pages(%rdx), %rdi
    inc %ecx
    cmp $65536, %ecx
    jne 1b

    # 2: a body and another, of which the load waits; and a jump backwards on the way, always taken.
    movb $2, phase
    xor %ecx, %ecx
    jmp 1f
5:  mov inside, %rdx
    jmp 3f
1:  movzbl random(%rcx), %eax
    test $1, %al
    jz 2f
    cmp $65536, %ecx
    jne 5b
    nop
2:  mov otherwise, %r8
3:  mov free, %rsi
    inc %ecx
    cmp $65536, %ecx
    jne 1b

    # 3: a call on one way, which may lead anywhere.
    movb $3, phase
    xor %ecx, %ecx
1:  movzbl random(%rcx), %eax
    test $1, %al
    jz 2f
    call function
2:  mov free, %rsi
    inc %ecx
    cmp $65536, %ecx
    jne 1b

    movb $0, phase
    mov $60, %eax
    xor %edi, %edi
    syscall

function:
    ret
