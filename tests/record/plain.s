# Loads and stores of every size, the stack, read-modify-write, addresses of every form.
# "#=" says what an instruction accesses: kind size address gap=instructions dep=distance.
    .globl _start
_start:
    lea     top(%rip), %rsp
    lea     data(%rip), %rdi
    movb    (%rdi), %al             #= L 1 data gap=2 dep=0
    movw    2(%rdi), %ax            #= L 2 data+2 gap=0 dep=0
    movl    4(%rdi), %eax           #= L 4 data+4 gap=0 dep=0
    movq    8(%rdi), %rax           #= L 8 data+8 gap=0 dep=0
    movb    $1, (%rdi)              #= S 1 data gap=0 dep=0
    movw    $1, 2(%rdi)             #= S 2 data+2 gap=0 dep=0
    movl    $1, 4(%rdi)             #= S 4 data+4 gap=0 dep=0
    movq    $1, 8(%rdi)             #= S 8 data+8 gap=0 dep=0
    movq    data+16(%rip), %rax     #= L 8 data+16 gap=0 dep=0
    movl    %eax, data+20           #= S 4 data+20 gap=0 dep=0
    nop
    nop
    mov     $3, %ecx
    movq    data(,%rcx,8), %rdx     #= L 8 data+24 gap=3 dep=0
    movq    (%rdi,%rcx,2), %rdx     #= L 8 data+6 gap=0 dep=0
    addq    $1, 32(%rdi)            #= L 8 data+32 gap=0 dep=0; S 8 data+32 gap=0 dep=0
    addq    32(%rdi), %rdx          #= L 8 data+32 gap=0 dep=2
    incb    40(%rdi)                #= L 1 data+40 gap=0 dep=0; S 1 data+40 gap=0 dep=0
    negl    44(%rdi)                #= L 4 data+44 gap=0 dep=0; S 4 data+44 gap=0 dep=0
    cmpq    $0, 48(%rdi)            #= L 8 data+48 gap=0 dep=0
    sete    56(%rdi)                #= S 1 data+56 gap=0 dep=0
    movzbl  57(%rdi), %esi          #= L 1 data+57 gap=0 dep=2
    movslq  60(%rdi), %rsi          #= L 4 data+60 gap=0 dep=0
    push    %rax                    #= S 8 top-8 gap=0 dep=0
    push    $5                      #= S 8 top-16 gap=0 dep=0
    pushq   (%rdi)                  #= L 8 data gap=0 dep=0; S 8 top-24 gap=0 dep=0
    popq    8(%rdi)                 #= L 8 top-24 gap=0 dep=2; S 8 data+8 gap=0 dep=0
    pop     %rbx                    #= L 8 top-16 gap=0 dep=0
    add     $8, %rsp
    call    callee                  #= S 8 top-8 gap=1 dep=0
    jmp     rest
callee:
    push    %rbp                    #= S 8 top-16 gap=0 dep=0
    mov     %rsp, %rbp
    movq    $1, -8(%rbp)            #= S 8 top-24 gap=1 dep=0
    leave                           #= L 8 top-16 gap=0 dep=0
    ret                             #= L 8 top-8 gap=0 dep=0
rest:
    mulq    64(%rdi)                #= L 8 data+64 gap=1 dep=0
    shlq    %cl, 72(%rdi)           #= L 8 data+72 gap=0 dep=0; S 8 data+72 gap=0 dep=0
    btsl    $3, 80(%rdi)            #= L 4 data+80 gap=0 dep=0; S 4 data+80 gap=0 dep=0
    cmovne  88(%rdi), %rax          #= L 8 data+88 gap=0 dep=0
    lea     indirect(%rip), %rax
    mov     %rax, 96(%rdi)          #= S 8 data+96 gap=1 dep=0
    jmp     *96(%rdi)               #= L 8 data+96 gap=0 dep=0
    nop
indirect:
    movq    4093(%rdi), %rax        #= L 8 data+4093 gap=0 dep=0
    mov     $60, %eax
    xor     %edi, %edi
    syscall
    .bss
    .balign 4096
data:
    .space  8192
    .space  4096
top:
    .space  64
