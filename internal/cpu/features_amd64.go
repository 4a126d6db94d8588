package cpu

import "golang.org/x/sys/cpu"

func features() []feature {
	x := &cpu.X86
	return []feature{
		{"sse4_2", x.HasSSE42}, {"avx", x.HasAVX}, {"avx2", x.HasAVX2}, {"fma", x.HasFMA}, {"f16c", x.HasF16C},
		{"bmi2", x.HasBMI2}, {"avx_vnni", x.HasAVXVNNI},
		{"avx512f", x.HasAVX512F}, {"avx512bw", x.HasAVX512BW}, {"avx512dq", x.HasAVX512DQ}, {"avx512vl", x.HasAVX512VL},
		{"avx512_vbmi", x.HasAVX512VBMI}, {"avx512_vnni", x.HasAVX512VNNI}, {"avx512_bf16", x.HasAVX512BF16},
		{"amx_tile", x.HasAMXTile}, {"amx_int8", x.HasAMXInt8},
	}
}
