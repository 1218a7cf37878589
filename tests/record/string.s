# String instructions: each element is an access, but rep movs and rep stos make one for each line if they go up, and all repetitions are one instruction. "#=": see plain.s.
    .globl _start
_start:
    cld
    lea     from(%rip), %rsi
    lea     to(%rip), %rdi
    movsb                           #= L 1 from gap=3 dep=0; S 1 to gap=0 dep=0
    movsq                           #= L 8 from+1 gap=0 dep=0; S 8 to+1 gap=0 dep=0
    mov     $3, %ecx
    rep movsb                       #= L 3 from+9 gap=1 dep=0; S 3 to+9 gap=0 dep=0
    mov     $2, %ecx
    rep stosq                       #= S 16 to+12 gap=1 dep=0
    nop
    xor     %ecx, %ecx
    rep movsb
    lodsl                           #= L 4 from+12 gap=3 dep=0
    std
    mov     $2, %ecx
    rep movsl                       #= L 4 from+16 gap=2 dep=0; S 4 to+28 gap=0 dep=0; L 4 from+12 gap=0 dep=0; S 4 to+24 gap=0 dep=0
    cld
    lea     from(%rip), %rsi
    lea     to+64(%rip), %rdi
    mov     $2, %ecx
    repe cmpsb                      #= L 1 to+64 gap=4 dep=0; L 1 from gap=0 dep=0; L 1 to+65 gap=0 dep=0; L 1 from+1 gap=0 dep=0
    mov     $1, %al
    mov     $3, %ecx
    repne scasb                     #= L 1 to+66 gap=2 dep=0; L 1 to+67 gap=0 dep=0; L 1 to+68 gap=0 dep=0
    movb    (%rdi), %al             #= L 1 to+69 gap=0 dep=0
    lea     from+60(%rip), %rsi
    lea     to+126(%rip), %rdi
    mov     $5, %ecx
    rep movsw                       #= L 4 from+60 gap=3 dep=0; S 2 to+126 gap=0 dep=0; S 8 to+128 gap=0 dep=0; L 6 from+64 gap=0 dep=0
    mov     $70, %ecx
    rep stosb                       #= S 56 to+136 gap=1 dep=0; S 14 to+192 gap=0 dep=0
    mov     $60, %eax
    xor     %edi, %edi
    syscall
    .bss
    .balign 4096
from:
    .space  4096
to:
    .space  4096
