//! Instructions with the form that uops.info lists them under and its ports.

/// CPU, bytes, uops.info's name, ports in the table's order (`06*2+23`: two µops on ports 0 and 6,
/// one on 2 and 3).
pub(super) const CASES: &[(&str, &str, &str, &str)] = &[
    ("skl", "4801d8", "ADD_01 (R64, R64)", "0156"), // add rax,rbx
    ("skl", "4803c3", "ADD_03 (R64, R64)", "0156"), // add rax,rbx
    ("skl", "0306", "ADD (R32, M32)", "0156+23"),   // add eax,[rsi]
    ("skl", "0106", "ADD (M32, R32)", "0156+23+237+4"), // add [rsi],eax
    ("skl", "f00106", "ADD_LOCK (M32, R32)", "0156*4+06*2+23*2+4"), // lock add [rsi],eax
    ("skl", "4883c001", "ADD (R64, I8)", "0156"),   // add rax,1
    ("skl", "4805e8030000", "ADD (RAX, I32)", "0156"), // add rax,3E8h
    ("skl", "80c100", "ADD_R0 (R8l, 0)", "0156"),   // add cl,0
    ("skl", "4811d8", "ADC_11 (R64, R64)", "06"),   // adc rax,rbx
    ("skl", "4883d000", "ADC (R64, 0)", "06"),      // adc rax,0
    ("skl", "29c0", "SUB_29 (R32, R32)", "0156"),   // sub eax,eax
    ("skl", "31c0", "XOR_31 (R32, R32)", "0156"),   // xor eax,eax
    ("skl", "31d1", "XOR_31 (R32, R32)", "0156"),   // xor ecx,edx
    ("skl", "480fafc3", "IMUL (R64, R64)", "1"),    // imul rax,rbx
    ("skl", "486bc303", "IMUL_IMMB (R64, R64, I8)", "1"), // imul rax,rbx,3
    ("skl", "48f7e1", "MUL (R64)", "1+5"),          // mul rcx
    ("skl", "f6e1", "MUL (R8l)", "1"),              // mul cl
    (
        "skl",
        "48f7f1",
        "DIV (R64)",
        "0*2+015*8+0156*5+05+06*13+1+5*3",
    ), // div rcx
    ("skl", "f7f9", "IDIV (R32)", "0*2+0156*2+06+15+5*4"), // idiv ecx
    ("skl", "488b06", "MOV (R64, M64)", "23"),      // mov rax,[rsi]
    ("skl", "488904be", "MOV (M64, R64)", "237+4"), // mov [rsi+rdi*4],rax
    ("skl", "4889d8", "MOV_89 (R64, R64)", ""),     // mov rax,rbx
    ("skl", "6689d8", "MOV_89 (R16, R16)", "0156"), // mov ax,bx
    ("skl", "88e0", "MOV_88 (R8l, R8h)", "0156"),   // mov al,ah
    ("skl", "88dc", "MOV_88 (R8h, R8l)", "0156"),   // mov ah,bl
    ("skl", "8a06", "MOV (R8l, M8)", "0156+23"),    // mov al,[rsi]
    ("skl", "48b8efcdab8967452301", "MOV (R64, I64)", "0156"), // mov rax,123456789ABCDEFh
    ("skl", "b805000000", "MOV (R32, I32)", "0156"), // mov eax,5
    ("skl", "0fb6c3", "MOVZX (R32, R8l)", ""),      // movzx eax,bl
    ("skl", "0fb6c7", "MOVZX (R32, R8h)", "0156"),  // movzx eax,bh
    ("skl", "4863c1", "MOVSXD (R64, R32)", "0156"), // movsxd rax,ecx
    ("skl", "488d03", "LEA_B (R64)", "15"),         // lea rax,[rbx]
    ("skl", "488d040b", "LEA_B_I (R64)", "15"),     // lea rax,[rbx+rcx]
    ("skl", "488d048b", "LEA_B_IS (R64)", "15"),    // lea rax,[rbx+rcx*4]
    ("skl", "488d448b08", "LEA_B_IS_D8 (R64)", "1"), // lea rax,[rbx+rcx*4+8]
    ("skl", "488d048de8030000", "LEA_IS_D32 (R64)", "15"), // lea rax,[rcx*4+3E8h]
    ("skl", "488d0564000000", "LEA_R_D32 (R64)", "1"), // lea rax,[6Bh]
    ("skl", "488d83e8030000", "LEA_B_D32 (R64)", "15"), // lea rax,[rbx+3E8h]
    ("skl", "8d440b08", "LEA_B_I_D8 (R32)", "1"),   // lea eax,[rbx+rcx+8]
    ("skl", "d3e0", "SHL (R32, CL)", "06*3"),       // shl eax,cl
    ("skl", "c1e003", "SHL (R32, I8)", "06"),       // shl eax,3
    ("skl", "d1e0", "SHL (R32, 1)", "06"),          // shl eax,1
    ("skl", "c1e000", "SHL (R32, 0)", "06"),        // shl eax,0
    ("skl", "48c1c805", "ROR (R64, I8)", "06"),     // ror rax,5
    ("skl", "480fa4d803", "SHLD_IMMB (R64, R64, I8)", "1"), // shld rax,rbx,3
    ("skl", "480fa5d8", "SHLD_CL (R64, R64, CL)", "0156+06*2+1"), // shld rax,rbx,cl
    ("skl", "480f42c3", "CMOVB (R64, R64)", "06"),  // cmovb rax,rbx
    ("skl", "480f46c3", "CMOVBE (R64, R64)", "06*2"), // cmovbe rax,rbx
    ("skl", "0f92c0", "SETB (R8l)", "06"),          // setb al
    ("skl", "0f96c0", "SETBE (R8l)", "06*2"),       // setbe al
    ("skl", "0f9406", "SETZ (M8)", "06+237+4"),     // sete [rsi]
    ("skl", "7208", "JB (Rel8)", "6"),              // jb short 000000000000000Ah
    ("skl", "0f87e2030000", "JNBE (Rel32)", "6"),   // ja 00000000000003E8h
    ("skl", "eb08", "JMP (Rel8)", "06"),            // jmp short 000000000000000Ah
    ("skl", "ffe0", "JMP (R64)", "06"),             // jmp rax
    ("skl", "e85f000000", "CALL_NEAR (Rel32)", "06+237+4"), // call 0000000000000064h
    ("skl", "ffd0", "CALL_NEAR (R64)", "06+237+4"), // call rax
    ("skl", "c3", "RET_NEAR", "015+06*2+23+237*7"), // ret
    ("skl", "50", "PUSH (R64)", "237+4"),           // push rax
    ("skl", "58", "POP (R64)", "23"),               // pop rax
    ("skl", "ff36", "PUSH (M64)", "23+237+4"),      // push qword ptr [rsi]
    ("skl", "5c", "POP (R64)", "23"),               // pop rsp
    ("skl", "c9", "LEAVE", "0156*2+23"),            // leave
    ("skl", "a4", "MOVSB", "0156*2+23*2+4"),        // movsb [rdi],[rsi]
    ("skl", "ac", "LODSB", "0156*2+23"),            // lodsb [rsi]
    ("skl", "ae", "SCASB", "0156*2+23"),            // scasb [rdi]
    ("skl", "f2ae", "SCASB_REPNE", "015*7+06*12+1+23*3+5"), // repne scasb [rdi]
    (
        "skl",
        "f00fc106",
        "XADD_LOCK (M32, R32)",
        "0156*6+06*2+23*2+4",
    ), // lock xadd [rsi],eax
    ("skl", "0fc1d8", "XADD (R32, R32)", "0156*3"), // xadd eax,ebx
    ("skl", "4893", "XCHG (R64, RAX)", "0156*3"),   // xchg rbx,rax
    ("skl", "871e", "XCHG (M32, R32)", "0156*4+06*2+23*2+4"), // xchg [rsi],ebx
    (
        "skl",
        "f00fb11e",
        "CMPXCHG_LOCK (M32, R32)",
        "015+0156*3+06*4+23*2+4",
    ), // lock cmpxchg [rsi],ebx
    (
        "skl",
        "f0480fc70e",
        "CMPXCHG16B_LOCK (M128)",
        "0*2+015*10+06*8+23*2+4+5*4",
    ), // lock cmpxchg16b [rsi]
    ("skl", "480fc8", "BSWAP (R64)", "06+15"),      // bswap rax
    ("skl", "480fbcc3", "BSF (R64, R64)", "1"),     // bsf rax,rbx
    ("skl", "f3480fb8c3", "POPCNT (R64, R64)", "1"), // popcnt rax,rbx
    ("skl", "f30fbcc3", "TZCNT (R32, R32)", "1"),   // tzcnt eax,ebx
    ("skl", "480fbae003", "BT (R64, I8)", "06"),    // bt rax,3
    ("skl", "480fa306", "BT (M64, R64)", "015+0156*3+06*3+1+23"), // bt [rsi],rax
    ("skl", "4885c0", "TEST (R64, R64)", "0156"),   // test rax,rax
    ("skl", "483b06", "CMP (R64, M64)", "0156+23"), // cmp rax,[rsi]
    ("skl", "99", "CDQ", "06"),                     // cdq
    ("skl", "4899", "CQO", "06"),                   // cqo
    ("skl", "4898", "CDQE", "0156"),                // cdqe
    ("skl", "0fa2", "CPUID", "0*6+06*18+1*5+4+5*9"), // cpuid
    ("skl", "0f31", "RDTSC", "015*2+0156*4+06*7+1*3+15+5"), // rdtsc
    ("skl", "f390", "PAUSE", "06"),                 // pause
    ("skl", "90", "NOP", ""),                       // nop
    ("skl", "0f1f00", "NOP (M32)", ""),             // nop [rax]
    ("skl", "d7", "XLAT", "0156*2+23"),             // xlat [rbx]
    ("skl", "0f28c1", "MOVAPS_0F28 (XMM, XMM)", ""), // movaps xmm0,xmm1
    ("skl", "660f6f06", "MOVDQA (XMM, M128)", "23"), // movdqa xmm0,[rsi]
    ("skl", "0f1106", "MOVUPS (M128, XMM)", "237+4"), // movups [rsi],xmm0
    ("skl", "66480f6ec0", "MOVQ (XMM, R64)", "5"),  // movq xmm0,rax
    ("skl", "660f7ec0", "MOVD (R32, XMM)", "0"),    // movd eax,xmm0
    ("skl", "f20f1006", "MOVSD_XMM (XMM, M64)", "23"), // movsd xmm0,[rsi]
    ("skl", "f20f10c1", "MOVSD_XMM_0F10 (XMM, XMM)", "5"), // movsd xmm0,xmm1
    ("skl", "660f58c1", "ADDPD (XMM, XMM)", "01"),  // addpd xmm0,xmm1
    ("skl", "f20f5806", "ADDSD (XMM, M64)", "01+23"), // addsd xmm0,[rsi]
    ("skl", "0f59c1", "MULPS (XMM, XMM)", "01"),    // mulps xmm0,xmm1
    ("skl", "660f5ec1", "DIVPD (XMM, XMM)", "0"),   // divpd xmm0,xmm1
    ("skl", "f20f51c1", "SQRTSD (XMM, XMM)", "0"),  // sqrtsd xmm0,xmm1
    ("skl", "660fefc0", "PXOR (XMM, XMM)", "015"),  // pxor xmm0,xmm0
    ("skl", "660f3800c1", "PSHUFB (XMM, XMM)", "5"), // pshufb xmm0,xmm1
    ("skl", "660f3840c1", "PMULLD (XMM, XMM)", "01*2"), // pmulld xmm0,xmm1
    (
        "skl",
        "660f3a61c103",
        "PCMPESTRI (XMM, XMM, I8)",
        "0*3+06+1+5*3",
    ), // pcmpestri xmm0,xmm1,3
    ("skl", "660f3815d1", "BLENDVPD (XMM, XMM)", "015"), // blendvpd xmm2,xmm1
    ("skl", "f2480f2ac0", "CVTSI2SD (XMM, R64)", "01+5"), // cvtsi2sd xmm0,rax
    ("skl", "f2480f2cc0", "CVTTSD2SI (R64, XMM)", "0+01"), // cvttsd2si rax,xmm0
    ("skl", "660fc5c001", "PEXTRW (R32, XMM, I8)", "0+5"), // pextrw eax,xmm0,1
    ("skl", "c5f558c2", "VADDPD (YMM, YMM, YMM)", "01"), // vaddpd ymm0,ymm1,ymm2
    ("skl", "c4e2f5b8c2", "VFMADD231PD (YMM, YMM, YMM)", "01"), // vfmadd231pd ymm0,ymm1,ymm2
    ("skl", "c4e271a906", "VFMADD213SS (XMM, XMM, M32)", "01+23"), // vfmadd213ss xmm0,xmm1,[rsi]
    (
        "skl",
        "c4e2ed9204ce",
        "VGATHERDPD (YMM, VSIB_XMM, YMM)",
        "0+015+23*4+5",
    ), // vgatherdpd ymm0,[rsi+xmm1*8],ymm2
    ("skl", "c5f5fe06", "VPADDD (YMM, YMM, M256)", "015+23"), // vpaddd ymm0,ymm1,[rsi]
    ("skl", "c5f877", "VZEROUPPER", ""),            // vzeroupper
    ("skl", "c4e37506c201", "VPERM2F128 (YMM, YMM, YMM, I8)", "5"), // vperm2f128 ymm0,ymm1,ymm2,1
    ("skl", "c5f574c2", "VPCMPEQB (YMM, YMM, YMM)", "01"), // vpcmpeqb ymm0,ymm1,ymm2
    ("skl", "c4e2e3f6c1", "MULX (R64, R64, R64)", "1+5"), // mulx rax,rbx,rcx
    ("skl", "c4e2e3f5c1", "PDEP (R64, R64, R64)", "1"), // pdep rax,rbx,rcx
    ("skl", "c4e2f1f7c3", "SHLX (R64, R64, R64)", "06"), // shlx rax,rbx,rcx
    ("skl", "c4e2e0f2c1", "ANDN (R64, R64, R64)", "15"), // andn rax,rbx,rcx
    ("skl", "660f38dcc1", "AESENC (XMM, XMM)", "0"), // aesenc xmm0,xmm1
    ("skl", "0ffcc1", "PADDB (MM, MM)", "05"),      // paddb mm0,mm1
    ("skl", "0faef0", "MFENCE", "23+4"),            // mfence
    ("skl", "0faee8", "LFENCE", ""),                // lfence
    ("skl", "0f180e", "PREFETCHT0 (M512)", "23"),   // prefetcht0 [rsi]
    ("glc", "4801d8", "ADD_01 (R64, R64)", "0156B"), // add rax,rbx
    ("glc", "4803c3", "ADD_03 (R64, R64)", "0156B"), // add rax,rbx
    ("glc", "0306", "ADD (R32, M32)", "0156B+23A"), // add eax,[rsi]
    ("glc", "0106", "ADD (M32, R32)", "0156B+23A+49+78"), // add [rsi],eax
    (
        "glc",
        "f00106",
        "ADD_LOCK (M32, R32)",
        "0156B*4+06+23A+49+78",
    ), // lock add [rsi],eax
    ("glc", "4883c001", "ADD (R64, I8)", ""),       // add rax,1
    ("glc", "4805e8030000", "ADD (RAX, I32)", "0156B"), // add rax,3E8h
    ("glc", "80c100", "ADD_R0 (R8l, 0)", "0156B"),  // add cl,0
    ("glc", "31c0", "XOR_31 (R32, R32)", "0156B"),  // xor eax,eax
    ("glc", "31d1", "XOR_31 (R32, R32)", "0156B"),  // xor ecx,edx
    ("glc", "480fafc3", "IMUL (R64, R64)", "1"),    // imul rax,rbx
    ("glc", "486bc303", "IMUL (R64, R64, I8)", "1"), // imul rax,rbx,3
    ("glc", "48f7e1", "MUL (R64)", "1+5"),          // mul rcx
    ("glc", "f6e1", "MUL (R8l)", "1"),              // mul cl
    ("glc", "48f7f1", "DIV (R64)", "1*3"),          // div rcx
    ("glc", "f7f9", "IDIV (R32)", "1*3"),           // idiv ecx
    ("glc", "488b06", "MOV (R64, M64)", "23A"),     // mov rax,[rsi]
    ("glc", "488904be", "MOV (M64, R64)", "49+78"), // mov [rsi+rdi*4],rax
    ("glc", "4889d8", "MOV_89 (R64, R64)", ""),     // mov rax,rbx
    ("glc", "88dc", "MOV_88 (R8h, R8l)", "1"),      // mov ah,bl
    ("glc", "8a06", "MOV (R8l, M8)", "0156B+23A"),  // mov al,[rsi]
    ("glc", "48b8efcdab8967452301", "MOV (R64, I64)", "0156B"), // mov rax,123456789ABCDEFh
    ("glc", "b805000000", "MOV (R32, I32)", "0156B"), // mov eax,5
    ("glc", "0fb6c3", "MOVZX (R32, R8l)", "0156B"), // movzx eax,bl
    ("glc", "0fb6c7", "MOVZX (R32, R8h)", "1"),     // movzx eax,bh
    ("glc", "4863c1", "MOVSXD (R64, R32)", "15B"),  // movsxd rax,ecx
    ("glc", "488d03", "LEA_B (R64)", ""),           // lea rax,[rbx]
    ("glc", "488d040b", "LEA_B_I (R64)", "0156B"),  // lea rax,[rbx+rcx]
    ("glc", "488d048b", "LEA_B_IS (R64)", "056"),   // lea rax,[rbx+rcx*4]
    ("glc", "488d448b08", "LEA_B_IS_D8 (R64)", "056"), // lea rax,[rbx+rcx*4+8]
    ("glc", "488d048de8030000", "LEA_IS_D32 (R64)", "056"), // lea rax,[rcx*4+3E8h]
    ("glc", "488d0564000000", "LEA_R_D32 (R64)", "1"), // lea rax,[6Bh]
    ("glc", "488d83e8030000", "LEA_B_D32 (R64)", ""), // lea rax,[rbx+3E8h]
    ("glc", "8d440b08", "LEA_B_I_D8 (R32)", "0156B"), // lea eax,[rbx+rcx+8]
    ("glc", "7208", "JB (Rel8)", "6"),              // jb short 000000000000000Ah
    ("glc", "0f87e2030000", "JNBE (Rel32)", "6"),   // ja 00000000000003E8h
    ("glc", "eb08", "JMP (Rel8)", ""),              // jmp short 000000000000000Ah
    ("glc", "ffe0", "JMP (R64)", "06"),             // jmp rax
    ("glc", "e85f000000", "CALL_NEAR (Rel32)", "49+78"), // call 0000000000000064h
    ("glc", "ffd0", "CALL_NEAR (R64)", "06+49+78"), // call rax
    ("glc", "c3", "RET_NEAR", "23A*4"),             // ret
    ("glc", "50", "PUSH (R64)", "49+78"),           // push rax
    ("glc", "58", "POP (R64)", "23A"),              // pop rax
    ("glc", "ff36", "PUSH (M64)", "23A+49+78"),     // push qword ptr [rsi]
    ("glc", "5c", "POP (R64)", "23A"),              // pop rsp
    ("glc", "c9", "LEAVE", "0156B*2+23A"),          // leave
    ("glc", "99", "CDQ", "06"),                     // cdq
    ("glc", "4899", "CQO", "06"),                   // cqo
    ("glc", "4898", "CDQE", "15"),                  // cdqe
    ("glc", "0fa2", "CPUID", "0*2+06*12+1*6+49+5*6+78"), // cpuid
    ("glc", "0f31", "RDTSC", "0156B*5+06*6+1*3+5"), // rdtsc
    ("glc", "f390", "PAUSE", "06+5"),               // pause
    ("glc", "f20f51c1", "SQRTSD (XMM, XMM)", "0"),  // sqrtsd xmm0,xmm1
    ("glc", "660fefc0", "PXOR (XMM, XMM)", "015"),  // pxor xmm0,xmm0
    ("glc", "660f3800c1", "PSHUFB (XMM, XMM)", "15"), // pshufb xmm0,xmm1
    ("glc", "660f3840c1", "PMULLD (XMM, XMM)", "01*2"), // pmulld xmm0,xmm1
    (
        "glc",
        "660f3a61c103",
        "PCMPESTRI (XMM, XMM, I8)",
        "0*3+015*2+06+1+5",
    ), // pcmpestri xmm0,xmm1,3
    ("glc", "660f3815d1", "BLENDVPD (XMM, XMM)", "015"), // blendvpd xmm2,xmm1
    ("glc", "f2480f2ac0", "CVTSI2SD (XMM, R64)", "01+5"), // cvtsi2sd xmm0,rax
    ("glc", "f2480f2cc0", "CVTTSD2SI (R64, XMM)", "0+01"), // cvttsd2si rax,xmm0
    ("glc", "660fc5c001", "PEXTRW (R32, XMM, I8)", "0+15"), // pextrw eax,xmm0,1
    ("glc", "c5f558c2", "VADDPD (YMM, YMM, YMM)", "15"), // vaddpd ymm0,ymm1,ymm2
    ("glc", "c4e2f5b8c2", "VFMADD231PD (YMM, YMM, YMM)", "01"), // vfmadd231pd ymm0,ymm1,ymm2
    ("glc", "c4e271a906", "VFMADD213SS (XMM, XMM, M32)", "01+23A"), // vfmadd213ss xmm0,xmm1,[rsi]
    (
        "glc",
        "c4e2ed9204ce",
        "VGATHERDPD (YMM, VSIB_XMM, YMM)",
        "0+015+15*2+23A*4",
    ), // vgatherdpd ymm0,[rsi+xmm1*8],ymm2
    ("glc", "c5f5fe06", "VPADDD (YMM, YMM, M256)", "015+23A"), // vpaddd ymm0,ymm1,[rsi]
    ("glc", "c5f877", "VZEROUPPER", ""),            // vzeroupper
    ("glc", "c4e37506c201", "VPERM2F128 (YMM, YMM, YMM, I8)", "5"), // vperm2f128 ymm0,ymm1,ymm2,1
    ("glc", "c5f574c2", "VPCMPEQB (YMM, YMM, YMM)", "01"), // vpcmpeqb ymm0,ymm1,ymm2
    ("glc", "c4e2e3f6c1", "MULX (R64, R64, R64)", "1+5"), // mulx rax,rbx,rcx
    ("glc", "c4e2e3f5c1", "PDEP (R64, R64, R64)", "1"), // pdep rax,rbx,rcx
    ("snb", "4801d8", "ADD_01 (R64, R64)", "015"),  // add rax,rbx
    ("hsw", "4801d8", "ADD_01 (R64, R64)", "0156"), // add rax,rbx
    ("icl", "4801d8", "ADD_01 (R64, R64)", "0156"), // add rax,rbx
    ("snb", "488b06", "MOV (R64, M64)", "23"),      // mov rax,[rsi]
    ("hsw", "488b06", "MOV (R64, M64)", "23"),      // mov rax,[rsi]
    ("icl", "488b06", "MOV (R64, M64)", "23"),      // mov rax,[rsi]
    ("snb", "480fafc3", "IMUL (R64, R64)", "1"),    // imul rax,rbx
    ("hsw", "480fafc3", "IMUL (R64, R64)", "1"),    // imul rax,rbx
    ("icl", "480fafc3", "IMUL (R64, R64)", "1"),    // imul rax,rbx
    ("snb", "488904be", "MOV (M64, R64)", "23+4"),  // mov [rsi+rdi*4],rax
    ("hsw", "488904be", "MOV (M64, R64)", "237+4"), // mov [rsi+rdi*4],rax
    ("icl", "488904be", "MOV (M64, R64)", "49+78"), // mov [rsi+rdi*4],rax
    ("snb", "4889d8", "MOV_89 (R64, R64)", "015"),  // mov rax,rbx
    ("hsw", "4889d8", "MOV_89 (R64, R64)", ""),     // mov rax,rbx
    ("icl", "4889d8", "MOV_89 (R64, R64)", "0156"), // mov rax,rbx
    ("snb", "488d448b08", "LEA_B_IS_D8 (R64)", "1"), // lea rax,[rbx+rcx*4+8]
    ("hsw", "488d448b08", "LEA_B_IS_D8 (R64)", "1"), // lea rax,[rbx+rcx*4+8]
    ("icl", "488d448b08", "LEA_B_IS_D8 (R64)", "15"), // lea rax,[rbx+rcx*4+8]
    ("snb", "31c0", "XOR_31 (R32, R32)", "015"),    // xor eax,eax
    ("hsw", "31c0", "XOR_31 (R32, R32)", "0156"),   // xor eax,eax
    ("icl", "31c0", "XOR_31 (R32, R32)", "0156"),   // xor eax,eax
    ("snb", "d3e0", "SHL (R32, CL)", "05*3"),       // shl eax,cl
    ("hsw", "d3e0", "SHL (R32, CL)", "06*3"),       // shl eax,cl
    ("icl", "d3e0", "SHL (R32, CL)", "06*2"),       // shl eax,cl
    ("snb", "480f46c3", "CMOVBE (R64, R64)", "015+05*2"), // cmovbe rax,rbx
    ("hsw", "480f46c3", "CMOVBE (R64, R64)", "0156+06*2"), // cmovbe rax,rbx
    ("icl", "480f46c3", "CMOVBE (R64, R64)", "06*2"), // cmovbe rax,rbx
    ("snb", "c5f558c2", "VADDPD (YMM, YMM, YMM)", "1"), // vaddpd ymm0,ymm1,ymm2
    ("hsw", "c5f558c2", "VADDPD (YMM, YMM, YMM)", "1"), // vaddpd ymm0,ymm1,ymm2
    ("icl", "c5f558c2", "VADDPD (YMM, YMM, YMM)", "01"), // vaddpd ymm0,ymm1,ymm2
    ("snb", "660f6f06", "MOVDQA (XMM, M128)", "23"), // movdqa xmm0,[rsi]
    ("hsw", "660f6f06", "MOVDQA (XMM, M128)", "23"), // movdqa xmm0,[rsi]
    ("icl", "660f6f06", "MOVDQA (XMM, M128)", "23"), // movdqa xmm0,[rsi]
    ("snb", "0f1106", "MOVUPS (M128, XMM)", "23+4"), // movups [rsi],xmm0
    ("hsw", "0f1106", "MOVUPS (M128, XMM)", "237+4"), // movups [rsi],xmm0
    ("icl", "0f1106", "MOVUPS (M128, XMM)", "49+78"), // movups [rsi],xmm0
    ("snb", "48f7e1", "MUL (R64)", "0+1"),          // mul rcx
    ("hsw", "48f7e1", "MUL (R64)", "06+1"),         // mul rcx
    ("icl", "48f7e1", "MUL (R64)", "1+5"),          // mul rcx
    ("snb", "f20f51c1", "SQRTSD (XMM, XMM)", "0"),  // sqrtsd xmm0,xmm1
    ("hsw", "f20f51c1", "SQRTSD (XMM, XMM)", "0"),  // sqrtsd xmm0,xmm1
    ("icl", "f20f51c1", "SQRTSD (XMM, XMM)", "0"),  // sqrtsd xmm0,xmm1
    ("snb", "58", "POP (R64)", "23"),               // pop rax
    ("hsw", "58", "POP (R64)", "23"),               // pop rax
    ("icl", "58", "POP (R64)", "23"),               // pop rax
    ("snb", "90", "NOP", ""),                       // nop
    ("hsw", "90", "NOP", ""),                       // nop
    ("icl", "90", "NOP", ""),                       // nop
    ("snb", "0fb6c3", "MOVZX (R32, R8l)", "015"),   // movzx eax,bl
    ("hsw", "0fb6c3", "MOVZX (R32, R8l)", ""),      // movzx eax,bl
    ("icl", "0fb6c3", "MOVZX (R32, R8l)", "0156"),  // movzx eax,bl
    ("snb", "4811d8", "ADC_11 (R64, R64)", "015+05"), // adc rax,rbx
    ("hsw", "4811d8", "ADC_11 (R64, R64)", "0156+06"), // adc rax,rbx
    ("icl", "4811d8", "ADC_11 (R64, R64)", "06"),   // adc rax,rbx
    ("snb", "7208", "JB (Rel8)", "5"),              // jb short 000000000000000Ah
    ("hsw", "7208", "JB (Rel8)", "6"),              // jb short 000000000000000Ah
    ("icl", "7208", "JB (Rel8)", "06"),             // jb short 000000000000000Ah
    ("skx", "62f1f54858c2", "VADDPD (ZMM, ZMM, ZMM)", "05"), // vaddpd zmm0,zmm1,zmm2
    ("icl", "62f1f54858c2", "VADDPD (ZMM, ZMM, ZMM)", "0"), // vaddpd zmm0,zmm1,zmm2
    ("skx", "62f1f54958c2", "VADDPD (ZMM, K, ZMM, ZMM)", "05"), // vaddpd zmm0{k1},zmm1,zmm2
    ("icl", "62f1f54958c2", "VADDPD (ZMM, K, ZMM, ZMM)", "0"), // vaddpd zmm0{k1},zmm1,zmm2
    ("skx", "62f1f5c958c2", "VADDPD_Z (ZMM, K, ZMM, ZMM)", "05"), // vaddpd zmm0{k1}{z},zmm1,zmm2
    ("icl", "62f1f5c958c2", "VADDPD_Z (ZMM, K, ZMM, ZMM)", "0"), // vaddpd zmm0{k1}{z},zmm1,zmm2
    ("skx", "62f1f51858c2", "VADDPD_ER (ZMM, ZMM, ZMM)", "05"), // vaddpd zmm0{rne-sae},zmm1,zmm2
    ("icl", "62f1f51858c2", "VADDPD_ER (ZMM, ZMM, ZMM)", "0"), // vaddpd zmm0{rne-sae},zmm1,zmm2
    (
        "skx",
        "62f1f5595806",
        "VADDPD (ZMM, K, ZMM, M64_1to8)",
        "05+23",
    ), // vaddpd zmm0{k1},zmm1,[rsi]{1to8}
    (
        "icl",
        "62f1f5595806",
        "VADDPD (ZMM, K, ZMM, M64_1to8)",
        "0+23",
    ), // vaddpd zmm0{k1},zmm1,[rsi]{1to8}
    ("skx", "62e1f50858c2", "VADDPD_EVEX (XMM, XMM, XMM)", "01"), // vaddpd xmm16,xmm1,xmm2
    ("icl", "62e1f50858c2", "VADDPD_EVEX (XMM, XMM, XMM)", "01"), // vaddpd xmm16,xmm1,xmm2
    (
        "skx",
        "62e17528fe06",
        "VPADDD_EVEX (YMM, YMM, M256)",
        "015+23",
    ), // vpaddd ymm16,ymm1,[rsi]
    (
        "icl",
        "62e17528fe06",
        "VPADDD_EVEX (YMM, YMM, M256)",
        "015+23",
    ), // vpaddd ymm16,ymm1,[rsi]
    ("skx", "62f17d4874c9", "VPCMPEQB (K, ZMM, ZMM)", "5"), // vpcmpeqb k1,zmm0,zmm1
    ("icl", "62f17d4874c9", "VPCMPEQB (K, ZMM, ZMM)", "5"), // vpcmpeqb k1,zmm0,zmm1
    ("skx", "62f17d4a74c9", "VPCMPEQB (K, K, ZMM, ZMM)", "5"), // vpcmpeqb k1{k2},zmm0,zmm1
    ("icl", "62f17d4a74c9", "VPCMPEQB (K, K, ZMM, ZMM)", "5"), // vpcmpeqb k1{k2},zmm0,zmm1
    (
        "skx",
        "62f17f497f06",
        "VMOVDQU8 (M512, K, ZMM)",
        "1+23+237+4*2",
    ), // vmovdqu8 [rsi]{k1},zmm0
    (
        "icl",
        "62f17f497f06",
        "VMOVDQU8 (M512, K, ZMM)",
        "0156+49*2+78*2",
    ), // vmovdqu8 [rsi]{k1},zmm0
    ("skx", "62f1fe486f06", "VMOVDQU64 (ZMM, M512)", "23"), // vmovdqu64 zmm0,[rsi]
    ("icl", "62f1fe486f06", "VMOVDQU64 (ZMM, M512)", "23"), // vmovdqu64 zmm0,[rsi]
    (
        "skx",
        "62f3754825c203",
        "VPTERNLOGD (ZMM, ZMM, ZMM, I8)",
        "05",
    ), // vpternlogd zmm0,zmm1,zmm2,3
    (
        "icl",
        "62f3754825c203",
        "VPTERNLOGD (ZMM, ZMM, ZMM, I8)",
        "05",
    ), // vpternlogd zmm0,zmm1,zmm2,3
    ("icl", "62f275488dc2", "VPERMB (ZMM, ZMM, ZMM)", "5"), // vpermb zmm0,zmm1,zmm2
    ("skx", "c4e1fb92c8", "KMOVQ (K, R64)", "5"),   // kmovq k1,rax
    ("icl", "c4e1fb92c8", "KMOVQ (K, R64)", "5"),   // kmovq k1,rax
    ("skx", "c5ed4acb", "KADDB (K, K, K)", "5"),    // kaddb k1,k2,k3
    ("icl", "c5ed4acb", "KADDB (K, K, K)", "5"),    // kaddb k1,k2,k3
    ("skx", "c4e1f898c9", "KORTESTQ (K, K)", "0"),  // kortestq k1,k1
    ("icl", "c4e1f898c9", "KORTESTQ (K, K)", "0"),  // kortestq k1,k1
    (
        "skx",
        "62f27d4990048e",
        "VPGATHERDD (ZMM, K, VSIB_ZMM)",
        "0+23*16+5",
    ), // vpgatherdd zmm0,k1,[rsi+zmm1*4]
    (
        "icl",
        "62f27d4990048e",
        "VPGATHERDD (ZMM, K, VSIB_ZMM)",
        "0+23*16+5",
    ), // vpgatherdd zmm0,k1,[rsi+zmm1*4]
    (
        "skx",
        "62f27d49a0048e",
        "VPSCATTERDD (VSIB_ZMM, K, ZMM)",
        "0*2+0156*3+06*3+1+23*16+4*16+5",
    ), // vpscatterdd [rsi+zmm1*4],k1,zmm0
    (
        "icl",
        "62f27d49a0048e",
        "VPSCATTERDD (VSIB_ZMM, K, ZMM)",
        "0*2+0156+49*16+78*16",
    ), // vpscatterdd [rsi+zmm1*4],k1,zmm0
    (
        "skx",
        "62f1fd185a06",
        "VCVTPD2PS_EVEX (XMM, M64_1to2)",
        "01+23+5",
    ), // vcvtpd2ps xmm0,[rsi]{1to2}
    (
        "icl",
        "62f1fd185a06",
        "VCVTPD2PS_EVEX (XMM, M64_1to2)",
        "01+23+5",
    ), // vcvtpd2ps xmm0,[rsi]{1to2}
    (
        "skx",
        "62f1fd385a06",
        "VCVTPD2PS_EVEX (XMM, M64_1to4)",
        "01+23+5",
    ), // vcvtpd2ps xmm0,[rsi]{1to4}
    (
        "icl",
        "62f1fd385a06",
        "VCVTPD2PS_EVEX (XMM, M64_1to4)",
        "01+23+5",
    ), // vcvtpd2ps xmm0,[rsi]{1to4}
    ("skx", "62f1f5485ec2", "VDIVPD (ZMM, ZMM, ZMM)", "0*2+05"), // vdivpd zmm0,zmm1,zmm2
    ("icl", "62f1f5485ec2", "VDIVPD (ZMM, ZMM, ZMM)", "0*2+05"), // vdivpd zmm0,zmm1,zmm2
    (
        "skx",
        "62f275c9b8c2",
        "VFMADD231PS_Z (ZMM, K, ZMM, ZMM)",
        "05",
    ), // vfmadd231ps zmm0{k1}{z},zmm1,zmm2
    (
        "icl",
        "62f275c9b8c2",
        "VFMADD231PS_Z (ZMM, K, ZMM, ZMM)",
        "0",
    ), // vfmadd231ps zmm0{k1}{z},zmm1,zmm2
    ("icl", "62f27d4855c1", "VPOPCNTD (ZMM, ZMM)", "5"), // vpopcntd zmm0,zmm1
    ("icl", "c4e271cfc2", "VGF2P8MULB (XMM, XMM, XMM)", "01"), // vgf2p8mulb xmm0,xmm1,xmm2
    ("icl", "0f38cbca", "SHA256RNDS2 (XMM, XMM)", "5"), // sha256rnds2 xmm1,xmm2
    ("icl", "c4e275dcc2", "VAESENC (YMM, YMM, YMM)", "01"), // vaesenc ymm0,ymm1,ymm2
];
