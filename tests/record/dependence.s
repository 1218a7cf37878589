# Which loads an address comes from: dep counts accesses back, to the younger and to another. "#=": see plain.s.
    .globl _start
_start:
    lea     top(%rip), %rsp
    lea     first(%rip), %rax
    movq    (%rax), %rax            #= L 8 first gap=2 dep=0
    movq    (%rax), %rax            #= L 8 second gap=0 dep=1
    movq    (%rax), %rbx            #= L 8 third gap=0 dep=1
    movq    8(%rax), %rcx           #= L 8 third+8 gap=0 dep=2
    add     %rcx, %rax
    movq    (%rax), %rdx            #= L 8 third+16 gap=1 dep=1:3
    lea     (%rbx,%rcx,2), %rsi
    xor     %esi, %esi
    lea     data(%rip), %rdi
    movq    (%rdi,%rsi), %r8        #= L 8 data gap=3 dep=0
    movq    (%rdi,%rcx), %r8        #= L 8 data+16 gap=0 dep=3
    jmp     next
next:
    movq    (%rdi,%rcx), %r8        #= L 8 data+16 gap=1 dep=4
    mov     first(%rip), %rax       #= L 8 first gap=0 dep=0
    push    %rax                    #= S 8 top-8 gap=0 dep=0
    nop
    pop     %rbx                    #= L 8 top-8 gap=1 dep=2
    movb    (%rbx), %al             #= L 1 second gap=0 dep=1
    movb    $0, (%rbx)              #= S 1 second gap=0 dep=2
    movq    first(%rip), %xmm0      #= L 8 first gap=0 dep=0
    movq    %xmm0, %r9
    movq    (%r9), %r10             #= L 8 second gap=1 dep=1
    cmp     $0, %r10
    cmove   %rdi, %r9
    movq    (%r9), %r10             #= L 8 second gap=2 dep=1:2
    mov     $0, %r9d
    movq    data(%r9), %r10         #= L 8 data gap=1 dep=0
    test    %r10, %r10
    setne   %r9b
    movzbl  %r9b, %r9d
    movq    data(%r9), %r10         #= L 8 data gap=3 dep=1
    test    %r10, %r10
    xor     %r9d, %r9d
    setne   %r9b
    movq    data(%r9), %r10         #= L 8 data gap=3 dep=0
    cmp     $1, %r10
    inc     %esi
    dec     %esi
    adc     $-1, %r9
    movq    data(%r9), %r10         #= L 8 data gap=4 dep=1
    cmp     $1, %r10
    jc      below
below:
    movq    data(%r9), %r10         #= L 8 data gap=2 dep=2
    mov     count(%rip), %ecx       #= L 4 count gap=0 dep=0
    lea     first(%rip), %rax
loop:
    mov     (%rax), %rax            #= L 8 first gap=1 dep=0; L 8 second gap=2 dep=1
    dec     %ecx
    jnz     loop
    mov     (%rdi,%rcx,8), %rdx     #= L 8 data gap=2 dep=3
    mov     $60, %eax
    xor     %edi, %edi
    syscall
    .data
    .balign 4096
first:
    .quad   second
second:
    .quad   third
third:
    .quad   0, 16, 0, 0
count:
    .long   2
data:
    .space  64
    .bss
    .space  64
top:
    .space  64
