# Branches of which it is known how often a predictor can be right. Each phase begins with a store to
# `phase` and makes one load and then one store a round; between the two it branches.

# Xorshift (Marsaglia 2003), of rax; rdx is overwritten.
    .macro next_random
    mov %rax, %rdx
    shl $13, %rdx
    xor %rdx, %rax
    mov %rax, %rdx
    shr $7, %rdx
    xor %rdx, %rax
    mov %rax, %rdx
    shl $17, %rdx
    xor %rdx, %rax
    .endm

    .globl _start
    .bss
    .balign 64
random: .skip 65536
phase:  .skip 8
done:   .skip 8

    .data
    .balign 8
targets: .quad first, second, third, fourth

    .text
_start:
    # Random bytes.
    mov $88172645463325252, %rax
    xor %ecx, %ecx
0:  next_random
    mov %rax, random(%rcx)
    add $8, %ecx
    cmp $65536, %ecx
    jne 0b

    # 1: half of the branches are mispredicted, by a load that is one access back.
    movb $1, phase
    xor %ecx, %ecx
1:  movzbl random(%rcx), %eax
    test $1, %al
    jz 2f
    nop
2:  mov %rcx, done
    inc %ecx
    cmp $65536, %ecx
    jne 1b

    # 2: every eighth branch is taken.
    movb $2, phase
    xor %ecx, %ecx
1:  movzbl random(%rcx), %eax
    test $7, %cl
    jz 2f
    nop
2:  mov %rcx, done
    inc %ecx
    cmp $65536, %ecx
    jne 1b

    # 3: an indirect jump to one of four places at random: a quarter is where the last one went.
    movb $3, phase
    xor %ecx, %ecx
1:  movzbl random(%rcx), %eax
    and $3, %eax
    lea targets(%rip), %rdx
    jmp *(%rdx,%rax,8)
first:
    nop
second:
    nop
third:
    nop
fourth:
    mov %rcx, done
    inc %ecx
    cmp $65536, %ecx
    jne 1b

    # 4: to the same place each time.
    movb $4, phase
    xor %ecx, %ecx
    lea 2f(%rip), %rdx
1:  movzbl random(%rcx), %eax
    jmp *%rdx
    nop
2:  mov %rcx, done
    inc %ecx
    cmp $65536, %ecx
    jne 1b

    # 5: as the first, by what is computed instead of loaded, with no access until the end.
    movb $5, phase
    mov $88172645463325252, %rax
    xor %ecx, %ecx
1:  next_random
    test $1, %al
    jz 2f
    nop
2:  inc %ecx
    cmp $65536, %ecx
    jne 1b

    movb $0, phase
    mov $60, %eax
    xor %edi, %edi
    syscall
