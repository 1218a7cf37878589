# SSE and x87, aligned and not, across lines and pages. "#=": see plain.s.
    .globl _start
_start:
    lea     data(%rip), %rdi
    movups  (%rdi), %xmm0           #= L 16 data gap=1 dep=0
    movaps  %xmm0, 16(%rdi)         #= S 16 data+16 gap=0 dep=0
    movups  %xmm0, 57(%rdi)         #= S 16 data+57 gap=0 dep=0
    movdqu  4090(%rdi), %xmm1       #= L 16 data+4090 gap=0 dep=0
    movdqa  %xmm1, 4096(%rdi)       #= S 16 data+4096 gap=0 dep=0
    movq    8(%rdi), %xmm2          #= L 8 data+8 gap=0 dep=0
    movd    12(%rdi), %xmm2         #= L 4 data+12 gap=0 dep=0
    movss   20(%rdi), %xmm3         #= L 4 data+20 gap=0 dep=7
    movsd   %xmm3, 24(%rdi)         #= S 8 data+24 gap=0 dep=0
    addsd   32(%rdi), %xmm3         #= L 8 data+32 gap=0 dep=0
    paddq   48(%rdi), %xmm3         #= L 16 data+48 gap=0 dep=10
    movhps  %xmm3, 64(%rdi)         #= S 8 data+64 gap=0 dep=0
    movlps  72(%rdi), %xmm3         #= L 8 data+72 gap=0 dep=12
    movntdq %xmm3, 80(%rdi)         #= S 16 data+80 gap=0 dep=0
    movnti  %rax, 96(%rdi)          #= S 8 data+96 gap=0 dep=0
    cvtsi2sdq 104(%rdi), %xmm4      #= L 8 data+104 gap=0 dep=0
    pcmpeqd %xmm5, %xmm5
    psrldq  $14, %xmm5
    lea     256(%rdi), %rdi
    maskmovdqu %xmm5, %xmm4         #= S 2 data+256 gap=3 dep=0
    fldl    8(%rdi)                 #= L 8 data+264 gap=0 dep=0
    fstps   16(%rdi)                #= S 4 data+272 gap=0 dep=0
    fildl   4(%rdi)                 #= L 4 data+260 gap=0 dep=0
    fistpl  4(%rdi)                 #= S 4 data+260 gap=0 dep=0
    fnstcw  2(%rdi)                 #= S 2 data+258 gap=0 dep=0
    fldcw   2(%rdi)                 #= L 2 data+258 gap=0 dep=7
    stmxcsr 4(%rdi)                 #= S 4 data+260 gap=0 dep=0
    ldmxcsr 4(%rdi)                 #= L 4 data+260 gap=0 dep=0
    prefetcht0 (%rdi)               #= P 0 data+256 gap=0 dep=0
    movq    (%rdi), %rax            #= L 8 data+256 gap=0 dep=11
    mov     $60, %eax
    xor     %edi, %edi
    syscall
    .bss
    .balign 4096
data:
    .space  8192
