# Instructions of all kinds of which ChampSim's record has something to say. "#>" says what: registers
# that an instruction writes (w) and reads (r), addresses of loads (l) and stores (s), and whether a branch is
# taken (t). What differs from time to time has / between, repetitions of a string instruction &.
    .globl _start
_start:
    lea     top(%rip), %rsp         #> w=rsp r=rip
    lea     data(%rip), %rdi        #> w=rdi r=rip
    mov     $2, %ecx                #> w=rcx
again:
    mov     (%rdi,%rcx,8), %rax     #> w=rax r=rdi,rcx l=data+16/data+8
    add     %rax, 64(%rdi)          #> w=flags r=rax,rdi l=data+64 s=data+64
    prefetchw 32(%rdi,%rcx,8)       #> r=rdi,rcx
    dec     %ecx                    #> w=rcx,flags r=rcx
    jnz     again                   #> w=rip r=rip,flags t=1/0
    call    callee                  #> w=rsp,rip r=rsp,rip s=top-8 t=1
    jmp     over                    #> w=rip r=rip t=1
callee:
    push    %rbx                    #> w=rsp r=rsp,rbx s=top-16
    pop     %rbp                    #> w=rbp,rsp r=rsp l=top-16
    ret                             #> w=rsp,rip r=rsp l=top-8 t=1
over:
    lea     target(%rip), %rax      #> w=rax r=rip
    jmp     *%rax                   #> w=rip r=rax t=1
    nop
target:
    mulq    8(%rdi)                 #> w=rax,rdx r=rax,rdi l=data+8
    xor     %esi, %esi              #> w=rsi,flags
    mov     %al, %bl                #> w=rbx r=rax
    movdqu  32(%rdi), %xmm1         #> w=xmm1 r=rdi l=data+32
    paddd   %xmm1, %xmm2            #> w=xmm2 r=xmm1,xmm2
    cmp     %r8, %r15               #> w=flags r=r8,r15
    cmovne  88(%rdi), %r9           #> w=r9 r=flags,r9,rdi l=data+88
    jne     over                    #> w=rip r=rip,flags t=0
    mov     $3, %ecx                #> w=rcx
    lea     128(%rdi), %rsi         #> w=rsi r=rdi
    cld                             #> w=flags
    rep movsb                       #> w=rsi,rdi,rcx r=rsi,rdi,rcx,flags l=data+128 s=data
    xor     %ecx, %ecx              #> w=rcx,flags
    rep stosb                       #> w=rdi,rcx r=rax,rdi,rcx,flags
    lea     ret(%rip), %rdx         #> w=rdx r=rip
    call    *%rdx                   #> w=rsp,rip r=rsp,rip,rdx s=top-8 t=1
    jrcxz   end                     #> w=rip r=rip,rcx t=1
    nop
ret:
    ret                             #> w=rsp,rip r=rsp l=top-8 t=1
end:
    mov     $60, %eax               #> w=rax
    xor     %edi, %edi              #> w=rdi,flags
    syscall                         #> w=rcx,r11 r=flags
    .bss
    .balign 4096
data:
    .space  4096
    .space  4096
top:
    .space  64
