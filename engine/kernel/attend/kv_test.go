package attend

import "testing"

// Auto takes q8_0 where a rotation spreads outliers over 64 values or more, and never replaces a type that was asked for.
func TestAutoGoesByTheSizeOfHeads(t *testing.T) {
	for dim, want := range map[int]KVType{8: KVF16, 32: KVF16, 48: KVF16, 64: KVQ8, 80: KVF16, 96: KVF16, 128: KVQ8, 192: KVQ8, 256: KVQ8} {
		if got := KVAuto.For(dim); got != want {
			t.Errorf("heads of %d: %v, want %v", dim, got, want)
		}
		if got := KVQ4.For(dim); got != KVQ4 {
			t.Errorf("heads of %d: q4_0 became %v", dim, got)
		}
	}
}
